"""A snapshot is of one moment, though large segments are read in further steps, and leaves no file open."""

import pytest

from coordinator.runtime import snapshot
from coordinator.runtime.snapshot import read_logs, read_logs_in_steps
from protocol.record_batch import encode
from protocol.records import Record
from protocol.steps import finish_steps
from storage.log import Log, LogConfig
from tests.storage.crashing_disk import CrashingDisk

BATCH = encode([Record(b"k", bytes(200))])


@pytest.fixture(autouse=True)
def steps_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "STEP_BYTES", 1_000)


def logs_of(disk: CrashingDisk) -> tuple[Log, Log]:
    large, small = (Log.open(disk, f"data/{name}-0", LogConfig(segment_bytes=5_000)) for name in ("large", "small"))
    for _ in range(70):
        large.append(BATCH)
    small.append(BATCH)
    return large, small


def test_what_is_written_and_deleted_meanwhile_is_not_in_it() -> None:
    disk = CrashingDisk()
    large, small = logs_of(disk)
    expected = read_logs(disk, "data")
    handles = disk.handles
    steps = read_logs_in_steps(disk, "data")
    next(steps)
    count = 1
    while True:
        large.append(BATCH)
        small.append(BATCH)
        if count == 3:
            large.delete_before(large.segments[2].base_offset)
        try:
            next(steps)
        except StopIteration as stop:
            found = stop.value
            break
        count += 1
    assert {path: len(content) for path, content in found.items()} == {p: len(c) for p, c in expected.items()}
    assert found == expected
    assert count == sum(-(-len(c) // 1_000) for p, c in expected.items() if p.endswith(".log") and len(c) > 1_000)
    assert list(found) == sorted(found)
    assert disk.handles - handles == len(large.segments[-1:]) - 1


def test_one_that_is_given_up_leaves_no_file_open() -> None:
    disk = CrashingDisk()
    logs_of(disk)
    handles = disk.handles
    steps = read_logs_in_steps(disk, "data")
    next(steps)
    assert disk.handles > handles
    steps.close()
    assert disk.handles == handles


def test_so_many_files_are_open_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "OPEN_MAX", 2)
    disk = CrashingDisk()
    large, _ = logs_of(disk)
    assert len(large.segments) > 3
    handles = disk.handles
    steps = read_logs_in_steps(disk, "data")
    next(steps)
    assert disk.handles == handles + 2
    assert finish_steps(steps) == read_logs(disk, "data")
    assert disk.handles == handles
