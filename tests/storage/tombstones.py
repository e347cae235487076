"""A log whose tombstones are compacted."""

from __future__ import annotations

from protocol.record_batch import encode
from protocol.records import Record
from storage import cleaner
from storage.log import Log, LogConfig, scan
from tests.storage.crashing_disk import CrashingDisk

DIRECTORY = "data/__consumer_offsets-0"

RETENTION_MS = 1000


def new_log(**changes: int) -> Log:
    return Log.open(CrashingDisk(), DIRECTORY, LogConfig(**{"delete_retention_ms": RETENTION_MS, **changes}))


def put(log: Log, *pairs: tuple[bytes, bytes | None], timestamp: int = 5) -> int:
    return log.append(encode([Record(key, value, (), 0, timestamp) for key, value in pairs]))


def records(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(r.offset, r.key, r.value) for header, batch in scan(log) if not header.is_control for r in batch]


def tombstones_stay_their_time() -> None:
    log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))
    cleaner.run(log, 10_000)
    assert records(log) == [(1, b"b", b"1"), (2, b"a", None)], "seen for the first time"
    assert [found.header.delete_horizon_ms for found in log.batches()] == [None, 11_000], "until when is written down"
    put(log, (b"c", b"1"))
    cleaner.run(log, 10_999)
    assert records(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")], "not yet over"
    put(log, (b"c", b"2"))
    cleaner.run(log, 11_000)
    assert records(log) == [(1, b"b", b"1"), (4, b"c", b"2")], "over"
