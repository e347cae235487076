"""What removes, indexes and compacts may fail: the log goes on, and nothing that was acknowledged is missing."""

from __future__ import annotations

import errno

import pytest

from protocol.compression import Meter
from protocol.record_batch import encode, header_at, seal
from protocol.records import Record
from protocol.steps import finish_steps
from storage import cleaner, layout
from storage.files import StorageError
from storage.index import RELATIVE_MAX, Index
from storage.log import Log, LogConfig, scan
from storage.repair import empty_batches
from tests.storage.crashing_disk import CrashingDisk, CrashingFile

DIRECTORY = "data/__consumer_offsets-0"
CONFIG = LogConfig(segment_bytes=300, compaction_bytes_min=1)


def filled(files: CrashingDisk, config: LogConfig = CONFIG) -> Log:
    log = Log.open(files, DIRECTORY, config)
    for number in range(20):
        log.append(encode([Record(b"key %d" % (number % 3), b"x" * 50 + b"%d" % number)]))
    return log


def values(log: Log) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for _, records in scan(log) for record in records}


def test_an_index_file_that_cannot_be_written_is_no_failure_of_the_log() -> None:
    files = CrashingDisk()
    files.refuse = lambda _, path: path.endswith("index") * errno.EIO
    log = filled(files)
    assert len(log.segments) > 3
    assert log.failure is None
    log.close()
    assert len(values(Log.open(files, DIRECTORY, CONFIG))) == 3


def test_a_segment_that_cannot_be_removed_is_removed_by_the_next_start() -> None:
    files = CrashingDisk()
    log = filled(files)
    files.refuse = lambda name, _: (name == "remove") * errno.EIO
    first = log.segments[0].path
    assert log.delete_before(10) == 10
    assert log.failure is None
    assert first in files.contents()
    files.refuse = lambda operation, path: 0
    assert Log.open(files.copy(), DIRECTORY, CONFIG).start_offset == 10
    log.close()
    Log.open(files, DIRECTORY, CONFIG)
    assert first not in files.contents()


@pytest.mark.parametrize("operation", ["open", "append to", "sync", "rename"])
def test_a_compaction_that_fails_leaves_no_trace_and_the_log_goes_on(operation: str) -> None:
    files = CrashingDisk()
    log = filled(files)
    before = values(log)
    files.refuse = lambda name, path: (name == operation and path.endswith((".cleaned", ".swap"))) * errno.EIO
    with pytest.raises(StorageError):
        cleaner.run(log, 0)
    assert log.failure is None
    assert (values(log), log.append(encode([Record(b"new", b"value")]))) == (before, 20)
    assert (log.compaction_failure is not None) == any(name.endswith(".swap") for name in files.list(DIRECTORY))
    assert cleaner.is_due(log) == (log.compaction_failure is None)
    assert not any(name.endswith(".cleaned") for name in files.list(DIRECTORY)), "room that nobody else can use"
    files.refuse = lambda name, path: 0
    after = Log.open(files.copy(), DIRECTORY, CONFIG)
    assert values(after) == {**before, b"new": b"value"}


def test_a_compaction_that_fails_says_why_though_its_file_cannot_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def close_unless_cleaned(file: CrashingFile) -> None:
        if file.path.endswith(".cleaned"):
            raise StorageError("close", file.path, errno.EIO, "no")
        close(file)

    close, files = CrashingFile.close, CrashingDisk()
    log = filled(files)
    files.refuse = lambda name, path: (name == "append to" and path.endswith(".cleaned")) * errno.ENOSPC
    monkeypatch.setattr(CrashingFile, "close", close_unless_cleaned)
    with pytest.raises(StorageError, match="ENOSPC"):
        cleaner.run(log, 0)
    assert not any(name.endswith(".cleaned") for name in files.list(DIRECTORY))


def test_a_swap_that_is_interrupted_is_finished_by_the_next_start() -> None:
    files = CrashingDisk()
    log = filled(files)
    before = values(log)
    files.refuse = lambda name, path: (name == "rename" and path.endswith(".swap")) * errno.EIO
    with pytest.raises(StorageError):
        cleaner.run(log, 0)
    assert not cleaner.is_due(log), "its files have names that only a start knows to tell apart"
    log.append(encode([Record(b"new", b"value")]))
    files.refuse = lambda name, path: 0
    assert values(Log.open(files.copy(), DIRECTORY, CONFIG)) == {**before, b"new": b"value"}


def test_a_file_that_changes_under_a_reader_is_a_failed_read() -> None:
    log = filled(CrashingDisk())
    files = log.files
    assert isinstance(files, CrashingDisk)
    files.put(log.segments[0].path, b"\0" * 20)
    for read in (
        lambda: log.read(0, 1000),
        lambda: list(log.batches()),
        lambda: finish_steps(log.offset_for_time(0, Meter())),
    ):
        with pytest.raises(StorageError, match=r"byte 0: .*EIO"):
            read()
    files.remove(log.segments[0].path)
    with pytest.raises(StorageError, match="ENOENT"):
        log.read(0, 1000)
    assert log.failure is None


def test_segments_that_span_too_many_offsets_together_stay_apart() -> None:
    """A batch and an index tell an offset by its distance from the first, in 31 bits."""
    files = CrashingDisk()
    log = Log.open(files, DIRECTORY, LogConfig(compaction_bytes_min=1))
    for _ in range(3):
        log.append(encode([Record(b"key", b"value")]))
        for batch in empty_batches(0, RELATIVE_MAX - 5, 0):
            log.append(batch)
        log.roll()
    assert log.end_offset > 2**32
    cleaner.run(log, 0)
    assert all(segment.end_offset - segment.base_offset <= RELATIVE_MAX for segment in log.segments)
    assert values(log) == {b"key": b"value"}
    log.close()
    again = Log.open(files, DIRECTORY)
    assert values(again) == {b"key": b"value"}


def test_a_segment_may_span_more_than_its_index_can_tell() -> None:
    """A repair may leave one: empty batches in place of what is lost."""
    index = Index(0, 1)
    index.learn(5, 10, 7, 7, 5)
    index.learn(2**31, 20, 8, 8, 2**31)
    assert len(index.offset_file()) == 8
    assert len(index.time_file(9, 2**31 + 1)) == 12


def test_an_interrupted_finish_can_be_finished_again() -> None:
    files = CrashingDisk()
    filled(files).close()
    header = header_at(next(iter(empty_batches(0, 20, 0))))
    files.put(f"{DIRECTORY}/{0:020d}.log.swap", seal(header, b""))
    found = layout.look(files, DIRECTORY)
    layout.tidy(files, DIRECTORY, found)
    assert [base for base, _ in layout.look(files, DIRECTORY).segments if base < 20] == [0]
