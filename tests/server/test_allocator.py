"""Memory that is freed goes back to the system."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.server import allocator
from coordinator.server.allocator import Trimmer, give_back_freed_memory

FRAMES = """
from coordinator.server.allocator import give_back_freed_memory
from protocol.framing import FrameBuffer

assert give_back_freed_memory()
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4 // 1024
before, size, held = resident(), 8 << 20, []
for _ in range(60):  # unfinished frames, of which the oldest goes when there are too many
    frames = FrameBuffer(size)
    held.append(frames)
    frames.feed(size.to_bytes(4, "big"))
    for _ in range(100):
        frames.feed(bytes(65_536))
    held = held[-16:]
held.clear()
print(resident() - before)
"""


HOLES = """
from coordinator.server.allocator import Trimmer

resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4 // 1024
before, trimmer, kept = resident(), Trimmer(), []
trimmer.trim()
for _ in range(2_000):
    hole = bytes(32_000), bytes(32_000)
    kept.append(bytes(20_000))
    del hole
blocks = [bytes(32_000) for _ in range(2_000)]
assert trimmer.trim(), "it has grown"
del blocks[::2]
kept += blocks
del blocks
print(resident() - before, end=" ")
assert trimmer.trim(), "more is free"
print(resident() - before)
assert not trimmer.trim()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this system's malloc takes no such options")
def test_what_was_held_of_unfinished_frames_goes_back_to_the_system() -> None:
    """Without the thresholds glibc 2.36 keeps 56 MiB of it."""
    command = [sys.executable, "-c", FRAMES]
    assert int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) < 24


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this system's malloc cannot be told so")
def test_holes_go_back_to_the_system_after_the_process_has_grown() -> None:
    before, after = subprocess.run([sys.executable, "-c", HOLES], stdout=subprocess.PIPE, check=True).stdout.split()
    assert int(after) < int(before) - 16
    assert give_back_freed_memory(), "what malloc is told, and what it says, in this process"
    assert 0 < Trimmer()._free_bytes() < 1 << 40


def test_a_system_whose_malloc_is_another_one_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert not give_back_freed_memory()
    assert not Trimmer().trim()


NO_DESCRIPTOR = """
import resource
from coordinator.server.allocator import Trimmer

trimmer = Trimmer()
resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    open("/dev/null")
except OSError:
    trimmer.trim()
    print("it goes on")
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this system's malloc cannot be told so")
def test_a_process_that_is_out_of_descriptors_goes_on() -> None:
    done = subprocess.run([sys.executable, "-c", NO_DESCRIPTOR], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"it goes on\n"


def test_a_system_without_proc_keeps_its_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the chroot of an image."""
    monkeypatch.setattr(allocator, "STATM", tmp_path / "statm")
    assert not Trimmer().trim()
