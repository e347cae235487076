"""Memory that is freed goes back to the system."""

import platform
import subprocess
import sys

import pytest

from coordinator.server.allocator import give_back_freed_memory

FRAMES = """
from coordinator.server.allocator import give_back_freed_memory
from protocol.framing import FrameBuffer

assert give_back_freed_memory()
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4 // 1024
before, size, held = resident(), 8 << 20, []
for _ in range(40):  # unfinished frames, of which the oldest goes when there are too many
    frames = FrameBuffer(size)
    held.append(frames)
    frames.feed(size.to_bytes(4, "big"))
    for _ in range(100):
        frames.feed(bytes(65_536))
    held = held[-8:]
held.clear()
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this system's malloc takes no such options")
def test_what_was_held_of_unfinished_frames_goes_back_to_the_system() -> None:
    """Without the thresholds glibc 2.36 keeps some 25 MiB of it."""
    command = [sys.executable, "-c", FRAMES]
    assert int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) < 8


def test_a_system_whose_malloc_is_another_one_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert not give_back_freed_memory()
