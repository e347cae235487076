"""The log of one partition: append, read, roll, delete, find by time, recover."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import cramjam
import msgspec
import pytest
from crc32c import crc32c

from protocol import record_batch
from protocol.compression import CHUNK_BYTES, Compression, Meter
from protocol.record_batch import batches, encode, header_at
from protocol.records import Record
from protocol.steps import finish_steps
from storage import checkpoint, cleaner, layout, recovery, removal
from storage import log as log_module
from storage.checkpoint import Checkpoint, UnreadableCheckpoint
from storage.files import StorageError
from storage.layout import DamagedLog
from storage.log import Log, LogConfig, OffsetOutOfRange, scan
from storage.segment import BatchPosition, file_name, walk
from tests.storage.compressing import COMPRESS
from tests.storage.crashing_disk import CrashingDisk, ProcessKill

DIRECTORY = "data/orders-0"
SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)


def new_log(files: CrashingDisk | None = None, config: LogConfig = SMALL) -> Log:
    return Log.open(files or CrashingDisk(), DIRECTORY, config)


def batch(count: int = 2, timestamp: int = 1000) -> bytes:
    return encode([Record(b"k%d" % n, b"v" * 20, (), 0, timestamp + n) for n in range(count)])


def filled(count: int = 20, config: LogConfig = SMALL) -> Log:
    log = new_log(config=config)
    for number in range(count):
        log.append(batch(2, 1000 + 10 * number))
    return log


def offsets(data: bytes) -> list[int]:
    return [header.base_offset for _, header in batches(data)]


# -- append ------------------------------------------------------------------------------------------------------------


def test_nothing_is_made_before_the_first_append() -> None:
    files = CrashingDisk()
    log = new_log(files)
    assert (log.start_offset, log.end_offset, log.last_stable_offset, log.size) == (0, 0, 0, 0)
    assert log.read(0, 100) == b""
    assert finish_steps(log.latest_time(Meter())) is None
    log.sync()
    log.close()
    assert not files.exists(DIRECTORY)


def test_an_append_places_the_batch_and_leaves_the_rest_as_it_was() -> None:
    log = new_log()
    log.append(batch(3))
    sent = batch(2)
    assert log.append(sent) == 3
    kept = log.read(3, 10_000)
    assert header_at(kept).base_offset == 3
    assert kept[8:12] + kept[16:] == sent[8:12] + sent[16:]
    assert record_batch.is_intact(kept, 0, header_at(kept))


def test_the_batches_of_a_turn_are_one_write() -> None:
    files = CrashingDisk()
    log = new_log(files)
    log.append(batch())
    calls: list[str] = []
    files.after_call = lambda operation, path: calls.append(operation)
    assert log.append([batch(), batch(), batch(1)]) == 2
    assert calls == ["append to"]
    assert log.end_offset == 7


def test_a_batch_that_is_not_whole_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="whole"):
        new_log().append(batch() + b"x")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_records_of_some_batches_only_are_our_own_mistake(count: int) -> None:
    records = [Record(b"k", b"v")]
    log = new_log()
    with pytest.raises(AssertionError, match="records of each batch, or of none"):
        log.append([encode(records)] * 2, [records] * count)
    assert log.end_offset == 0


def test_a_segment_is_rolled_before_it_would_grow_too_long() -> None:
    log = filled()
    assert len(log.segments) > 3
    assert all(segment.size <= 500 for segment in log.segments)
    assert [s.end_offset for s in log.segments[:-1]] == [s.base_offset for s in log.segments[1:]]


def test_a_batch_larger_than_a_segment_gets_one_of_its_own() -> None:
    log = new_log()
    for size in (1, 100, 1):
        log.append(batch(size))
    assert len(log.segments) == 3


def test_a_failed_append_is_the_end_of_the_log() -> None:
    files = CrashingDisk()
    log = new_log(files)
    log.append(batch())
    files.fail = {files.calls + 1: errno.ENOSPC}
    with pytest.raises(StorageError) as failed:
        log.append(batch())
    assert failed.value.is_full
    assert "00000000000000000000.log" in str(failed.value)
    assert "ENOSPC" in str(failed.value)
    assert log.end_offset == 2
    for again in (lambda: log.append(batch()), log.sync, log.close, log.roll, lambda: log.delete_before(1)):
        with pytest.raises(StorageError):
            again()
    assert Log.open(files, DIRECTORY, SMALL).end_offset == 2


def test_a_failed_sync_is_not_tried_again() -> None:
    files = CrashingDisk()
    log = new_log(files)
    log.append(batch())
    files.fail = {files.calls + 1: errno.EIO}
    for _ in range(2):
        with pytest.raises(StorageError, match="EIO"):
            log.sync()


# -- read --------------------------------------------------------------------------------------------------------------


def test_reading_on_meets_every_batch_once() -> None:
    log = filled()
    seen: list[int] = []
    offset = 0
    while data := log.read(offset, 300):
        seen += offsets(data)
        offset = [header.next_offset for _, header in batches(data)][-1]
    assert seen == list(range(0, 40, 2))
    assert offset == log.end_offset


@pytest.mark.parametrize("offset", range(40))
def test_any_offset_is_found_in_its_batch(offset: int) -> None:
    log = filled()
    assert offsets(log.read(offset, 1)) == [offset // 2 * 2]
    assert log.read(offset, 1, min_one=False) == b""


def test_nothing_is_read_from_a_bound_on() -> None:
    log = filled()
    assert offsets(log.read(0, 100_000, before=4)) == [0, 2]
    assert log.read(4, 100_000, before=4) == b""
    assert log.read(4, 1, before=4) == b""


def test_a_batch_that_is_too_large_is_not_passed_over_for_one_of_the_next_segment() -> None:
    log = new_log()
    log.append(batch(20))
    log.append(batch(1))
    assert [segment.base_offset for segment in log.segments] == [0, 20]
    small = len(log.read(20, 10_000))
    assert log.read(0, small, min_one=False) == b""
    assert offsets(log.read(0, small)) == [0]


def test_offsets_outside_of_the_log_are_refused() -> None:
    log = filled()
    log.delete_before(5)
    assert log.read(40, 10) == b""
    for offset in (-1, 4, 41):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 10)


@pytest.mark.parametrize(
    ("change", "reason"), [(b"\xff\xff\xff\xff", "a batch of length -1"), (None, "the file ends here")]
)
def test_a_segment_that_somebody_changes_under_the_log_is_not_read(change: bytes | None, reason: str) -> None:
    log = filled()
    path = log.segments[0].path
    data = log.files.contents()[path]
    log.files.put(path, data[:8] + change + data[12:] if change else data[:10])
    with pytest.raises(StorageError, match=reason):
        log.read(2, 1)


def test_an_open_reader_sees_what_is_appended_meanwhile() -> None:
    log = filled(3)
    reader = scan(log)
    first = next(reader)
    log.append(batch())
    log.roll()
    log.append(batch())
    assert [header.base_offset for header, _ in [first, *reader]] == [0, 2, 4, 6, 8]


# -- time --------------------------------------------------------------------------------------------------------------


def test_the_first_record_at_or_after_a_time() -> None:
    log = filled()
    assert finish_steps(log.offset_for_time(0, Meter())) == (0, 1000)
    assert finish_steps(log.offset_for_time(1001, Meter())) == (1, 1001)
    assert finish_steps(log.offset_for_time(1002, Meter())) == (2, 1010)
    assert finish_steps(log.offset_for_time(1101, Meter())) == (21, 1101)
    assert finish_steps(log.offset_for_time(1191, Meter())) == (39, 1191)
    assert finish_steps(log.offset_for_time(1192, Meter())) is None


def test_times_that_go_back_hide_nothing() -> None:
    log = new_log()
    for timestamp in (5000, 1000, 9000, 2000, 8999):
        log.append(batch(1, timestamp))
    assert finish_steps(log.offset_for_time(5001, Meter())) == (2, 9000)
    assert finish_steps(log.latest_time(Meter())) == (2, 9000)


def test_a_deleted_record_is_not_found_by_its_time() -> None:
    log = filled()
    log.delete_before(3)
    assert finish_steps(log.offset_for_time(0, Meter())) == (3, 1011)


@pytest.mark.parametrize("start", [1, 3, 5])
def test_the_greatest_time_may_be_that_of_a_deleted_record(start: int) -> None:
    """So it is in Kafka, until the segment is deleted. A record by its time is one that is not deleted."""
    log = new_log()
    log.append(batch(1, 2000))
    log.append(encode([Record(b"k", b"v", (), 0, time) for time in (900, 1001, 900)]))
    log.append(batch(1, 1000))
    log.append(batch(1, 999))
    log.delete_before(start)
    assert finish_steps(log.latest_time(Meter())) == (0, 2000)
    assert finish_steps(log.offset_for_time(1001, Meter())) == ((2, 1001) if start == 1 else None)


def test_compressed_records_are_found_by_their_time() -> None:
    plain = batch(3)
    header = msgspec.structs.replace(header_at(plain), attributes=3)
    log = new_log()
    log.append(record_batch.seal(header, bytes(cramjam.lz4.compress(plain[61:]))))
    assert finish_steps(log.offset_for_time(1001, Meter())) == (1, 1001)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_time_is_found_behind_records_that_are_larger_than_a_chunk(codec: Compression) -> None:
    sizes = (3, CHUNK_BYTES + 7, 5, CHUNK_BYTES - 20, 0, 3 * CHUNK_BYTES, 1)
    plain = encode([Record(b"k", bytes(size), timestamp=10 * number) for number, size in enumerate(sizes)])
    log = new_log()
    header = msgspec.structs.replace(header_at(plain), attributes=codec)
    log.append(record_batch.seal(header, bytes(COMPRESS[codec](plain[61:]))))
    found = [finish_steps(log.offset_for_time(10 * number - 5, Meter())) for number in range(len(sizes))]
    assert found == [(number, 10 * number) for number in range(len(sizes))]


# -- deleting ----------------------------------------------------------------------------------------------------------


def test_deleting_moves_the_start_and_removes_whole_segments() -> None:
    log = filled()
    segments = len(log.segments)
    assert log.delete_before(9) == 9
    assert log.segments[0].base_offset <= 9 < log.segments[0].end_offset
    assert len(log.segments) < segments
    again = Log.open(log.files, DIRECTORY, SMALL)
    assert (again.start_offset, again.end_offset) == (9, 40)
    with pytest.raises(OffsetOutOfRange):
        log.delete_before(8)
    with pytest.raises(OffsetOutOfRange):
        log.delete_before(41)


def test_deleting_everything_keeps_the_offsets() -> None:
    log = filled()
    log.delete_before(40)
    assert [s.size for s in log.segments] == [0]
    again = Log.open(log.files, DIRECTORY, SMALL)
    assert (again.start_offset, again.end_offset, again.append(batch())) == (40, 40, 40)


@pytest.mark.parametrize("seed", range(30))
def test_a_time_is_found_as_by_a_look_at_each_record(seed: int) -> None:
    dice = Random(seed)
    log = Log.open(
        CrashingDisk(), DIRECTORY, LogConfig(segment_bytes=3000, index_interval_bytes=dice.choice((1, 200, 700)))
    )
    for _ in range(60):
        times = [dice.randrange(100) for _ in range(dice.randrange(1, 5))]
        log.append(encode([Record(None, b"v", timestamp=time) for time in times]))
    log.delete_before(dice.randrange(log.end_offset))
    records = [record for _, batch in scan(log) for record in batch if record.offset >= log.start_offset]
    for time in range(101):
        late = [(record.offset, record.timestamp) for record in records if record.timestamp >= time]
        assert finish_steps(log.offset_for_time(time, Meter())) == (late[0] if late else None), (seed, time)


def test_a_time_that_only_deleted_records_have_is_not_looked_for_in_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.open(CrashingDisk(), DIRECTORY, LogConfig(index_interval_bytes=400))
    for timestamp in (900, *range(300), 800, *range(300)):
        log.append(batch(timestamp=timestamp))
    log.delete_before(2)
    looks = 0

    def count(*args: Any, **named: Any) -> Iterator[BatchPosition]:
        nonlocal looks
        for found in walk(*args, **named):
            looks += 1
            yield found

    monkeypatch.setattr("storage.segment.walk", count)
    assert finish_steps(log.offset_for_time(900, Meter())) is None
    assert finish_steps(log.offset_for_time(700, Meter())) == (602, 800)
    assert looks < 40


def test_retention_by_time_takes_whole_segments() -> None:
    log = filled()
    second = log.segments[1]
    youngest = second.max_timestamp
    assert log.retain(youngest + 100, 100, -1) == second.base_offset, "it is as old as it may be"
    start = log.retain(now_ms=youngest + 101, retention_ms=100, retention_bytes=-1)
    assert start == log.segments[0].base_offset > 0
    assert log.retain(youngest + 101, 100, -1) == start
    assert log.retain(10**9, -1, -1) == start


def test_retention_by_time_takes_the_active_segment_too() -> None:
    log = filled()
    assert log.retain(10**9, 100, -1) == 40
    assert log.append(batch()) == 40


def test_retention_by_time_takes_records_without_times_by_the_time_of_their_file() -> None:
    disk = CrashingDisk()
    disk.now_ms = 5000
    log = Log.open(disk, DIRECTORY, SMALL)
    log.append(encode([Record(None, b"v", timestamp=-1)]))
    log.close()
    disk.now_ms = 6000
    again = Log.open(disk, DIRECTORY, SMALL)
    assert again.retain(5100, 100, -1) == 0
    assert again.retain(5101, 100, -1) == 1


def test_retention_by_size_takes_the_active_segment_only_where_nothing_may_stay() -> None:
    """Kafka: `deleteRetentionSizeBreachedSegments` spares an empty segment, and no other."""
    log = filled()
    log.retain(0, -1, 1000)
    assert 1000 <= log.size < 1500
    log.retain(0, -1, 1)
    assert [len(log.segments), log.size > 0] == [1, True]
    assert log.retain(0, -1, 0) == 40
    assert [segment.size for segment in log.segments] == [0]
    assert log.append(batch()) == 40


def test_retention_by_size_takes_a_segment_without_which_the_log_is_as_large_as_it_may_be() -> None:
    log = filled()
    first, left = log.segments[0], log.size - log.segments[0].size
    assert log.retain(0, -1, left + 1) == 0
    assert log.retain(0, -1, left) == first.end_offset


def test_the_files_of_many_segments_are_removed_in_steps_and_none_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 segments, each of one record, took 0.2 s at once."""
    monkeypatch.setattr(log_module, "DELETED_AT_ONCE", 2)
    log = filled(40)
    log.sync()
    names = [file_name(segment.base_offset) for segment in log.segments]
    kept = names.index(file_name(log.segments[-2].base_offset))
    start = log.segments[-2].base_offset + 1
    assert log.delete_before(start) == start
    for done in range(2, kept + 2, 2):
        left = [name for name in log.files.list(DIRECTORY) if name.endswith(".log")]
        assert left == names[min(done, kept) :]
        assert log.has_deleted == (done < kept)
        assert not [name for name in log.files.list(DIRECTORY) if name.startswith(names[0].removesuffix(".log"))]
        for how, disk in log.files.crashes():
            again = Log.open(disk, DIRECTORY, SMALL)
            assert (again.start_offset, again.end_offset) == (start, 80), how
            finish_steps(again.remove_deleted_in_steps())
            assert [name for name in disk.list(DIRECTORY) if name.endswith(".log")] == names[kept:], how
        log.remove_deleted()
    assert not log.has_deleted and kept > 4


def test_a_log_is_removed_with_all_its_files() -> None:
    log = filled()
    log.close()
    assert removal.remove_directory(log.files, DIRECTORY) == []
    assert not log.files.exists(DIRECTORY)


# -- opening -----------------------------------------------------------------------------------------------------------


def test_closing_and_opening_changes_nothing() -> None:
    log = filled()
    log.close()
    before = dict(log.files.contents())
    again = Log.open(log.files, DIRECTORY, SMALL)
    assert again.cut is None
    assert (again.end_offset, finish_steps(again.latest_time(Meter()))) == (40, (39, 1191))
    again.close()
    assert log.files.contents() == before


def test_a_start_after_a_roll_that_was_cut_off_names_the_segment_that_is_appended_to() -> None:
    """Compaction may take every segment but that one: a checkpoint that names another would refuse the next start."""
    config = LogConfig(segment_bytes=100)
    files = CrashingDisk()
    log = new_log(files, config)
    for _ in range(3):
        log.append(batch(1))  # each in a segment of its own
    before = files.copy()
    calls = before.calls
    new_log(before, config).roll()
    for killed_at in range(calls + 1, before.calls + 1):
        disk = files.copy()
        disk.killed_at = killed_at
        with pytest.raises(ProcessKill):
            new_log(disk, config).roll()
        disk = disk.copy()
        started = new_log(disk)
        cleaner.run(started, 0)
        assert new_log(disk.copy(), config).end_offset == 3, f"killed at call {killed_at}"
        assert started.checkpoint.segment_base == started.segments[-1].base_offset
        for name, left in disk.crashes():
            assert new_log(left, config).end_offset == 3, f"killed at call {killed_at}, then {name}"


def test_every_segment_has_kafkas_index_files() -> None:
    log = filled()
    log.close()
    contents = log.files.contents()
    for segment in log.segments:
        stem, base = segment.path.removesuffix(".log"), segment.base_offset
        found = {one.position: one.header for one in walk(log.files.open(segment.path))}
        entries = list(struct.iter_unpack(">ii", contents[f"{stem}.index"]))
        assert entries and all(found[position].last_offset == base + offset for offset, position in entries)
        *_, (timestamp, offset) = struct.iter_unpack(">qi", contents[f"{stem}.timeindex"])
        assert (timestamp, base + offset) == (segment.max_timestamp, segment.max_timestamp_offset)
        assert f"{stem}.txnindex" not in contents, "there was no transaction"


def test_lost_indexes_are_not_missed() -> None:
    log = filled()
    log.close()
    for name in log.files.list(DIRECTORY):
        if name.endswith("index"):
            log.files.remove(f"{DIRECTORY}/{name}")
    again = Log.open(log.files, DIRECTORY, SMALL)
    assert offsets(again.read(20, 1)) == [20]


def test_progress_is_told_on_long_logs() -> None:
    """Every 4,096 batches, over all segments."""
    one = batch(1)
    log = new_log(config=LogConfig(segment_bytes=100_000))
    for _ in range(100):
        log.append([one] * 100)
    assert len(log.segments) > 5
    told: list[tuple[int, int]] = []
    found = layout.look(log.files, DIRECTORY)
    recovery.examine(log.files, DIRECTORY, found, 4096, lambda done, total: told.append((done, total)))
    assert told == [(4_096 * len(one), log.size), (8_192 * len(one), log.size)]


def test_a_copy_of_another_brokers_log_is_adopted_with_its_gaps_and_epochs() -> None:
    files = CrashingDisk()
    parts = [
        b"".join(record_batch.place(batch(2), offset, epoch)) for offset, epoch in ((5, 0), (9, 0), (30, 2), (32, 3))
    ]
    files.put(f"{DIRECTORY}/00000000000000000003.log", b"".join(parts[:2]))
    files.put(f"{DIRECTORY}/00000000000000000028.log", b"".join(parts[2:]))
    log = new_log(files)
    assert (log.start_offset, log.end_offset, log.leader_epoch) == (3, 34, 3)
    assert log.append(batch()) == 34
    again = new_log(files)
    assert (again.start_offset, again.end_offset, again.leader_epoch) == (3, 36, 3)
    assert header_at(again.read(34, 1)).leader_epoch == 3
    files.put(f"{DIRECTORY}/00000000000000000028.log", b"".join(reversed(parts[2:])))
    with pytest.raises(DamagedLog, match="contradicts its neighbours"):
        new_log(files)


def test_the_checkpoint_reads_what_it_writes() -> None:
    value = Checkpoint(1, 2, 3, 4, 5)
    data = checkpoint.encode(value)
    assert checkpoint.decode(data) == value
    for at in range(len(data)):
        for damaged in (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], data[:at]):
            with pytest.raises(UnreadableCheckpoint, match="checksum"):
                checkpoint.decode(damaged)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((b"1\n", b"2\n"), "format is '2'"),
        ((b"start_offset 1", b"start_offset x"), "'start_offset x'"),
        ((b"start_offset 1", b"start_offset -1"), "'start_offset -1'"),
        ((b"start_offset 1", b"start_offset %d" % 2**63), "expected an offset"),
        ((b"start_offset 1\n", b""), "lines are"),
        ((b"start_offset 1\n", b"start_offset 1\nstart_offset 1\n"), "lines are"),
        ((b"start_offset 1\n", b"start_offset 1\nother 1\n"), "lines are"),
    ],
)
def test_a_checkpoint_whose_checksum_fits_may_still_be_unreadable(change: tuple[bytes, bytes], reason: str) -> None:
    body = checkpoint.encode(Checkpoint(1, 2, 3, 4, 5)).rpartition(b"crc32c")[0].replace(*change)
    with pytest.raises(UnreadableCheckpoint, match=reason):
        checkpoint.decode(body + f"crc32c {crc32c(body):08x}\n".encode())


def test_a_checkpoint_of_0_1_0_names_no_segment() -> None:
    body = checkpoint.encode(Checkpoint(1, 2, 3, 4, 5)).rpartition(b"segment_base")[0]
    assert checkpoint.decode(body + f"crc32c {crc32c(body):08x}\n".encode()) == Checkpoint(1, 2, 3, 4, 5)


def test_what_a_crash_has_left_goes_and_what_is_the_logs_stays() -> None:
    """Of Muster or of Kafka, within a swap or a deletion: whatever the file was to become."""
    log = filled()
    log.close()
    files, own = log.files, log.files.contents()
    for suffix in (".log", *layout.INDEXES):
        for base in (0, log.segments[1].base_offset, 1000):
            for end in (".cleaned", ".deleted", ".tmp", *[".swap"] * (suffix != ".log")):
                files.put(f"{DIRECTORY}/{file_name(base, suffix + end)}", b"rubbish")
        if suffix != ".log":
            files.put(f"{DIRECTORY}/{file_name(1000, suffix)}", b"of no segment")
    again = Log.open(files, DIRECTORY, SMALL)
    assert files.contents() == own
    assert again.end_offset == log.end_offset


def test_of_deleted_segments_any_may_come_back() -> None:
    """A power cut may bring back the name of one deleted segment and not that of the next."""
    files = CrashingDisk()
    log = new_log(files)
    while len(log.segments) < 4:
        log.append(batch(1))
    first, data = log.segments[0].path, files.contents()[log.segments[0].path]
    end, start = log.end_offset, log.segments[2].base_offset
    log.delete_before(start)
    log.release()
    files.put(first, data)
    again = new_log(files)
    assert (again.start_offset, again.end_offset) == (start, end)
    assert not files.exists(first)
