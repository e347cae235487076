"""Logs that are not open: whether anything of them is to be deleted is told without reading them."""

from __future__ import annotations

from random import Random

import pytest

from protocol.record_batch import encode
from protocol.records import Record
from storage import outdated, removal
from storage.extent import Extent, measure
from storage.log import Log, LogConfig
from storage.outdated import OutdatedRecords, segments_size
from tests.steps import finish
from tests.storage.crashing_disk import CrashingDisk

DIRECTORY = "data/orders-0"
CONFIG = LogConfig(segment_bytes=500)
FOR_EVER = -1


def has_outdated_records(
    files: CrashingDisk, now_ms: int, retention_ms: int, retention_bytes: int, asked: OutdatedRecords | None = None
) -> bool:
    steps = (asked or OutdatedRecords(files)).look(DIRECTORY, now_ms, retention_ms, retention_bytes)
    return finish(steps)


def a_log(*times: int) -> CrashingDisk:
    """A log of records of these times; -1: without a time, and appended at 50."""
    files = CrashingDisk()
    files.now_ms = 50
    log = Log.open(files, DIRECTORY, CONFIG)
    for timestamp in times:
        log.append(encode([Record(None, b"v" * 40, timestamp=timestamp)]))
    log.close()
    return files


@pytest.mark.parametrize("seed", range(60))
def test_it_says_so_exactly_where_the_log_itself_would_delete(seed: int) -> None:
    dice = Random(seed)
    times = [-1] * 20 if seed % 4 == 0 else [dice.randrange(-1, 100) for _ in range(20)]
    files = a_log(*times[: dice.randrange(20)])
    for _ in range(20):
        rule = (
            dice.randrange(60, 300),
            dice.choice((FOR_EVER, 0, 10, 50, 200)),
            dice.choice((FOR_EVER, 0, 400, 900, 5000)),
        )
        log = Log.open(files.copy(), DIRECTORY, CONFIG)
        assert has_outdated_records(files, *rule) == (log.retain(*rule) > 0), (seed, rule)


def test_a_segment_is_too_much_if_the_log_is_as_large_as_it_may_be_without_it() -> None:
    files = a_log(*range(30))
    log = Log.open(files.copy(), DIRECTORY, CONFIG)
    left = log.size - log.segments[0].size
    assert [has_outdated_records(files, 0, FOR_EVER, size) for size in (left, left + 1)] == [True, False]


def test_what_is_young_is_told_by_its_first_header() -> None:
    files = a_log(*range(0, 4000, 10))
    before = files.calls
    assert not has_outdated_records(files, 3_600_000, 3_600_000, FOR_EVER)
    assert 2 <= files.calls - before <= 3


def test_the_header_counts_though_the_checksum_does_not_fit() -> None:
    """A segment that is damaged is not opened for its age while it is young."""
    files = a_log(50, 70)
    (path,) = [path for path in files.contents() if path.endswith(".log")]
    data = bytearray(files.contents()[path])
    data[80] ^= 1
    files.put(path, bytes(data))
    assert not has_outdated_records(files, 60, 50, FOR_EVER)
    assert has_outdated_records(files, 121, 50, FOR_EVER)


def test_what_had_to_be_read_is_remembered_until_the_log_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outdated, "STEP_BYTES", 100)
    files = a_log(0, 70, 10)
    asked = OutdatedRecords(files)
    assert len(list(asked.look(DIRECTORY, 90, 50, FOR_EVER))) >= 1
    before = files.calls
    assert not has_outdated_records(files, 120, 50, FOR_EVER, asked)
    assert has_outdated_records(files, 121, 50, FOR_EVER, asked)
    assert files.calls - before == 2, "the names, twice"
    removal.remove_directory(files, DIRECTORY)
    asked.forget(DIRECTORY)
    assert not has_outdated_records(files, 1000, 50, FOR_EVER, asked)
    assert asked._latest == {}


def test_records_without_times_are_as_old_as_their_file() -> None:
    files = a_log(-1, -1)
    assert [has_outdated_records(files, now_ms, 10, FOR_EVER) for now_ms in (60, 61)] == [False, True]


def test_records_without_times_stay_where_no_file_has_a_time() -> None:
    files = CrashingDisk()
    log = Log.open(files, DIRECTORY, CONFIG)
    log.append(encode([Record(None, b"v", timestamp=-1)]))
    log.close()
    assert not has_outdated_records(files, 10**15, 0, FOR_EVER)


def test_a_segment_that_cannot_be_read_is_to_be_opened() -> None:
    files = a_log(0, 70)
    (path,) = [path for path in files.contents() if path.endswith(".log")]
    files.put(path, files.contents()[path][:-1])
    assert has_outdated_records(files, 100, 50, FOR_EVER)
    assert not has_outdated_records(files, 100, 100, FOR_EVER)


def test_size_and_end_are_those_of_the_log_when_it_is_open() -> None:
    files = a_log(*range(30))
    files.put(f"{DIRECTORY}/00000000000000000007.index", bytes(1000))
    log = Log.open(files.copy(), DIRECTORY, CONFIG)
    assert len(log.segments) > 1
    assert segments_size(files, DIRECTORY) == sum(segment.size for segment in log.segments)
    assert segments_size(files, "data/no-log-0") == 0
    assert finish(measure(files, DIRECTORY)) == Extent(segments_size(files, DIRECTORY), log.end_offset)
    assert finish(measure(files, "data/no-log-0")) == Extent(0, 0)
