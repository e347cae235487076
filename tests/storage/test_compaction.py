"""Compaction: who survives, for how long, and what the result looks like to Kafka and to the next compaction."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import cramjam
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import record_batch
from protocol.compression import Compression, Meter, pack_in_steps
from protocol.record_batch import encode, encode_marker, header_at
from protocol.records import EndMarker, Record
from protocol.steps import finish_steps
from storage import cleaner, compaction
from storage.index import RELATIVE_MAX
from storage.log import Log, scan
from storage.producers import AbortedTransaction
from tests.steps import finish
from tests.storage.crashing_disk import CrashingDisk
from tests.storage.tombstones import DIRECTORY, RETENTION_MS, new_log, put, records, tombstones_stay_their_time

NOW_MS = 1_700_000_000_000


def begin(log: Log, producer_id: int, *pairs: tuple[bytes, bytes | None]) -> None:
    facts = [Record(key, value) for key, value in pairs]
    log.append(encode(facts, producer_id=producer_id, producer_epoch=0, transactional=True))


def end(log: Log, producer_id: int, *, commits: bool, epoch: int = 0) -> None:
    log.append(encode_marker(EndMarker(commits), 7, producer_id=producer_id, producer_epoch=epoch))


def markers(log: Log) -> list[int]:
    return [header.base_offset for header, _ in scan(log) if header.is_control]


def test_the_latest_value_of_each_key_stays_at_its_offset() -> None:
    log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"c", b"1"), (b"a", b"3"))
    done = cleaner.run(log, 0)
    assert records(log) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"a", b"3")]
    assert done is not None
    assert done.cleaned_to == 5
    assert done.bytes_after < done.bytes_before
    assert (log.start_offset, log.end_offset) == (0, 5)
    assert put(log, (b"d", b"1")) == 5


def test_batches_cover_all_offsets_without_a_gap() -> None:
    log = new_log(segment_bytes=400)
    for number in range(40):
        put(log, (b"only", b"%d" % number))
    cleaner.run(log, 0)
    expected = 0
    for found in log.batches():
        assert found.header.base_offset == expected
        expected = found.header.next_offset
    assert expected == log.end_offset == 40
    assert records(log) == [(39, b"only", b"39")]


def test_tombstones_stay_for_delete_retention_ms_from_their_first_compaction() -> None:
    tombstones_stay_their_time()


def test_timestamps_and_headers_survive() -> None:
    log = new_log()
    told = Record(b"k", b"v", (("trace", b"\x00\xff"), ("none", None)), 0, 77)
    log.append(encode([Record(b"x", b"1", (), 0, 3), told, Record(b"t", None, (), 0, 99)]))
    cleaner.run(log, 500)
    kept = [record for _, batch in scan(log) for record in batch]
    assert [(r.key, r.headers, r.timestamp) for r in kept] == [(b"x", (), 3), (b"k", told.headers, 77), (b"t", (), 99)]


@pytest.mark.parametrize("time_ms", [-(2**63) + NOW_MS, 2**63 - 1, 2**62, -(2**62)])
@pytest.mark.parametrize("size", [1, compaction.ALONE_BYTES])
def test_any_time_that_a_producer_has_chosen_stays(time_ms: int, size: int) -> None:
    """Beside another time, or the time until which a tombstone stays, it is more than 64 bits away."""
    log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"), (b"big", bytes(size)), timestamp=NOW_MS)
    put(log, (b"b", None), (b"c", None), timestamp=time_ms)
    put(log, (b"c", b"2"), (b"e", bytes(size)), timestamp=time_ms)
    put(log, (b"d", b"2"), timestamp=-1)
    for now_ms in (NOW_MS, NOW_MS + RETENTION_MS):
        cleaner.run(log, now_ms)
        kept = [(record.key, record.timestamp) for _, batch in scan(log) for record in batch]
        assert kept == [
            (b"a", NOW_MS), (b"big", NOW_MS), (b"b", time_ms), (b"c", time_ms), (b"e", time_ms), (b"d", -1)
        ]  # fmt: skip
        put(log, (b"d", b"2"), timestamp=-1)


def test_tombstones_stay_for_ever_with_the_longest_retention() -> None:
    log = new_log(delete_retention_ms=2**63 - 1)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), timestamp=NOW_MS)
    for now_ms in (NOW_MS, 100 * NOW_MS):
        cleaner.run(log, now_ms)
        assert (2, b"a", None) in records(log)
        put(log, (b"b", b"1"))


def test_records_do_not_become_younger() -> None:
    """Where no record has a time, the age of a segment is that of its file."""
    log = new_log()
    for at_ms in (1000, 2000):
        put(log, (b"a", b"1"), (b"b", b"2"), timestamp=-1)
        log.segments[-1].modified_ms = at_ms
    cleaner.run(log, 9000)
    assert log.segments[0].latest_ms == 2000
    assert Log.open(log.files, log.directory).segments[0].latest_ms == 2000


def test_aborted_records_go_and_what_they_hid_stays() -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    begin(log, 9, (b"a", b"never"))
    end(log, 9, commits=False)
    cleaner.run(log, 0)
    assert records(log) == [(0, b"a", b"1")]
    assert markers(log) == [2], "the marker stays for delete.retention.ms"
    put(log, (b"b", b"1"))
    end(log, 9, commits=True)  # so that the marker at 2 is not the producer's last
    cleaner.run(log, RETENTION_MS)
    assert 2 not in markers(log)
    assert log.collect_aborted_transactions(0, 100) == []


def test_whether_a_batch_was_aborted_is_told_without_a_look_at_each_transaction() -> None:
    class Counted(list[AbortedTransaction]):
        looks = 0

        def __getitem__(self, at: Any) -> Any:
            Counted.looks += 1
            return super().__getitem__(at)

        def __iter__(self) -> Any:
            raise AssertionError("it looks at each transaction")

    log = new_log()
    for number in range(500):
        begin(log, 7, (b"a", b"1"))
        end(log, 7, commits=number % 2 == 0)
    decided = compaction.DecidedTransactions.of(log.producers)
    counted = compaction.DecidedTransactions({7: Counted(decided.aborted[7])}, decided.last_offsets)
    headers = [header for header, _ in scan(log) if not header.is_control]
    assert [counted.is_aborted(header) for header in headers] == [number % 2 == 1 for number in range(500)]
    assert Counted.looks < 500 * 12


def test_the_time_of_a_marker_runs_from_its_first_compaction() -> None:
    """Compactions that follow do not prolong it: a log that is compacted all the time would keep its markers."""
    log = new_log()
    begin(log, 9, (b"a", b"never"))
    end(log, 9, commits=False)
    begin(log, 9, (b"z", b"1"))
    end(log, 9, commits=True)
    for now_ms in (0, RETENTION_MS // 2, RETENTION_MS - 1):
        put(log, (b"b", b"%d" % now_ms))
        cleaner.run(log, now_ms)
        assert markers(log) == [1, 3]
        assert (
            next(one.header for one in log.batches() if one.header.base_offset == 1).delete_horizon_ms == RETENTION_MS
        )
    put(log, (b"b", b"last"))
    cleaner.run(log, RETENTION_MS)
    assert markers(log) == [3]


def test_a_marker_stays_as_long_as_a_record_of_its_transaction() -> None:
    log = new_log()
    begin(log, 9, (b"a", b"1"), (b"b", b"1"))
    end(log, 9, commits=True)
    begin(log, 9, (b"z", b"1"))
    end(log, 9, commits=True)
    put(log, (b"a", b"2"))
    for now in (0, 50_000):
        cleaner.run(log, now)
        assert records(log) == [(1, b"b", b"1"), (3, b"z", b"1"), (5, b"a", b"2")]
        assert markers(log) == [2, 4]
    put(log, (b"b", b"2"))
    cleaner.run(log, 100_000)
    assert 2 in markers(log), "no record of it is left, and its time begins"
    cleaner.run(log, 100_000 + RETENTION_MS)
    assert markers(log) == [4]


def test_a_record_that_survives_keeps_the_marker_of_its_own_transaction_alone() -> None:
    log = new_log()
    begin(log, 9, (b"a", b"1"))
    end(log, 9, commits=True)
    begin(log, 9, (b"b", b"1"))
    end(log, 9, commits=True)
    begin(log, 9, (b"c", b"1"))
    end(log, 9, commits=True)  # so that the marker at 3 is not the producer's last
    put(log, (b"b", b"2"))
    cleaner.run(log, 0)
    cleaner.run(log, RETENTION_MS)
    assert records(log) == [(0, b"a", b"1"), (4, b"c", b"1"), (6, b"b", b"2")]
    assert markers(log) == [1, 5]


def test_nothing_past_the_last_stable_offset_is_touched() -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    log.roll()
    begin(log, 9, (b"a", b"2"))
    log.roll()
    put(log, (b"a", b"3"))
    before = records(log), len(log.segments)
    cleaner.run(log, 0)
    assert (records(log), len(log.segments)) == before
    end(log, 9, commits=True)
    cleaner.run(log, 0)
    assert records(log) == [(2, b"a", b"3")]


def test_the_last_batch_of_a_producer_stays_as_an_empty_one() -> None:
    log = new_log()
    for sequence in range(3):
        log.append(encode([Record(b"k", b"%d" % sequence)], producer_id=4, producer_epoch=1, base_sequence=sequence))
    put(log, (b"k", b"last"))
    cleaner.run(log, 0)
    assert records(log) == [(3, b"k", b"last")]
    again = Log.open(log.files, DIRECTORY, log.config)
    assert again.producers[4].last_sequence == 2
    assert again.producers[4].epoch == 1


def test_records_of_unknown_types_survive_byte_for_byte() -> None:
    log = new_log()
    key, value = b"\x00\x63unknown key", bytes(range(256))
    put(log, (key, value), (b"a", b"1"))
    put(log, (b"a", b"2"))
    cleaner.run(log, 0)
    assert records(log) == [(0, key, value), (2, b"a", b"2")]


def test_compressed_batches_are_compacted_too() -> None:
    log = new_log()
    plain = encode([Record(b"a", b"1"), Record(b"b", b"1")])
    body = bytes(cramjam.zstd.compress(plain[61:]))
    header = record_batch.header_at(plain)
    log.append(record_batch.seal(msgspec.structs.replace(header, attributes=4), body))
    put(log, (b"a", b"2"))
    cleaner.run(log, 0)
    assert records(log) == [(1, b"b", b"1"), (2, b"a", b"2")]


def packed(codec: Compression, *facts: Record) -> bytes:
    """A batch as a client packs it."""
    plain = encode(list(facts))
    body = finish_steps(pack_in_steps(codec, [plain[61:]], Meter()))
    return record_batch.seal(msgspec.structs.replace(header_at(plain), attributes=codec), body)


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_packed_batch_of_which_nothing_goes_stays_as_it_came(codec: Compression) -> None:
    """Also in later compactions, which know of its keys only what it says itself."""
    log = new_log()
    batch = packed(codec, Record(b"a", bytes(1000)), Record(b"b", b"1"))
    log.append(batch)
    for number in range(3):
        put(log, (b"c", b"%d" % number))
        cleaner.run(log, number)
        assert log.read(0, 1)[12:] == batch[12:]


@pytest.mark.parametrize("codec", list(Compression)[1:])
@pytest.mark.parametrize("later", [None, b"2"])
def test_what_is_left_of_a_packed_batch_is_packed_again(codec: Compression, later: bytes | None) -> None:
    """A megabyte of a client must not become gigabytes: by keys that go, by tombstones, by times that are rewritten."""
    log = new_log()
    large = [Record(b"k%d" % number, bytes(100_000), timestamp=number) for number in range(20)]
    log.append(packed(codec, *large, Record(b"gone", None, timestamp=20)))
    before = log.size
    put(log, (b"k7", later))
    cleaner.run(log, 0)
    found = {key: value for _, key, value in records(log)}
    assert found == {r.key: r.value for r in large} | {b"gone": None, b"k7": later}
    assert log.size < 1.5 * before
    assert next(log.batches()).header.compression == codec
    cleaner.run(log, 10**15)
    put(log, (b"k8", b"3"))
    cleaner.run(log, 10**15)
    assert b"gone" not in {key for _, key, _ in records(log)}
    assert log.size < 1.5 * before
    assert next(log.batches()).header.compression == codec


def test_a_packed_batch_is_compacted_in_steps() -> None:
    """No step unpacks more than a chunk, or looks at more records than a portion."""
    log = new_log()
    count = 3 * compaction.PORTION_RECORDS + 1
    log.append(packed(Compression.ZSTD, *[Record(b"%d" % number, b"") for number in range(count)]))
    log.append(packed(Compression.ZSTD, Record(b"large", bytes(2_000_000)), Record(b"0", b"")))
    assert len(list(cleaner.compact(log, 0))) > 3 + 8 + 3
    assert [offset for offset, _, _ in records(log)] == list(range(1, count + 2))


def test_a_second_compaction_reads_only_what_is_new_and_keeps_the_rest() -> None:
    log = new_log(segment_bytes=300)
    for number in range(30):
        put(log, (b"k%d" % (number % 7), b"%d" % number))
    cleaner.run(log, 0)
    put(log, (b"k0", b"new"))
    assert not cleaner.is_due(log)
    cleaner.run(log, 0)
    values = {key: value for _, key, value in records(log)}
    assert values == {b"k0": b"new", **{b"k%d" % (n % 7): b"%d" % n for n in range(23, 30) if n % 7}}


@pytest.mark.parametrize("segment_bytes", [300, 100_000])
def test_a_long_log_is_compacted_in_parts_of_so_many_keys(segment_bytes: int) -> None:
    log = new_log(segment_bytes=segment_bytes)
    for number in range(60):
        put(log, (b"k%d" % (number % 20), b"%d" % number))
    log.roll()
    before = log.files.contents()
    finish(cleaner.compact(log, 0, keys_max=5))
    assert 0 < log.checkpoint.cleaned_to < log.end_offset
    assert log.checkpoint.cleaned_to <= 20, "a few more in the batch that is the last one of a part"
    later = [segment for segment in log.segments if segment.base_offset >= log.checkpoint.cleaned_to]
    assert len(later) > 5 or segment_bytes > 300
    for segment in log.segments:
        if segment.base_offset >= log.checkpoint.cleaned_to:
            assert log.files.contents()[segment.path] == before[segment.path], "nothing is known of it"
    expected = {b"k%d" % (n % 20): b"%d" % n for n in range(40, 60)}
    assert {key: value for _, key, value in records(log)} == expected
    while log.checkpoint.cleaned_to < log.end_offset:
        finish(cleaner.compact(log, 0, keys_max=5))
    assert {key: value for _, key, value in records(log)} == expected
    assert len(records(log)) == 20


def test_what_is_rewritten_goes_to_the_disk_step_by_step() -> None:
    """Otherwise all that is left of a segment would be in memory at once."""
    log = new_log()
    for number in range(40):
        put(log, (b"k%d" % number, bytes(1000)))
    path = log.segments[0].path.removesuffix(".log") + ".log.cleaned"
    sizes = [len(log.files.contents().get(path, b"")) for _ in cleaner.compact(log, 0, step_bytes=2000)]
    assert max(after - before for before, after in pairwise(sizes) if after) <= 3 * 1100
    assert max(sizes) > 40_000


def test_deleting_records_meanwhile_gives_the_compaction_up() -> None:
    log = new_log(segment_bytes=300)
    for number in range(30):
        put(log, (b"k%d" % number, b"v"))
    steps = cleaner.compact(log, 0, step_bytes=200)
    for _ in range(8):
        next(steps)
    log.delete_before(12)
    for _ in steps:
        pass  # it notices when its turn comes again
    assert not [name for name in log.files.list(DIRECTORY) if "cleaned" in name or "swap" in name]
    assert records(log)[0][0] <= 12
    cleaner.run(log, 0)
    assert records(Log.open(log.files, DIRECTORY, log.config)) == records(log)


def test_what_a_compaction_waits_for_can_be_synced_before_its_next_step() -> None:
    """The syncs that count come behind the steps that they are for, and find nothing left to be synced."""
    disk = CrashingDisk()
    log = Log.open(disk, DIRECTORY)
    for number in range(3):
        put(log, (b"a", b"%d" % number))
    active = log.segments[-1].path
    synced = []
    for wait in cleaner.compact(log, 0):
        if wait is not None:
            unsynced = {path for path, data in disk.contents().items() if disk.synced_size(path) < len(data)}
            wait()
            synced += [path for path in unsynced if disk.synced_size(path) == len(disk.contents()[path])]
    assert synced == [active, active.removesuffix(".log") + ".log.cleaned"]
    assert records(log) == [(2, b"a", b"2")]


@pytest.mark.parametrize("is_called", [True, False])
def test_the_file_that_is_replaced_is_held_until_it_is_let_go(is_called: bool) -> None:
    """The last one to close it waits for the system to free its blocks."""
    disk = CrashingDisk()
    log = Log.open(disk, DIRECTORY)
    put(log, (b"a", b"1"), (b"a", b"2"))
    before, let_go = disk.handles, 0
    for wait in cleaner.compact(log, 0):
        if wait is not None and is_called:
            handles = disk.handles
            wait()
            let_go += handles - disk.handles
    assert (let_go, disk.handles) == (int(is_called), before)


def test_a_file_that_is_gone_need_not_be_synced() -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    wait = next(cleaner.compact(log, 0))
    assert wait is not None
    log.files.remove(log.segments[-1].path)
    wait()


def test_a_log_that_is_abandoned_behind_the_swap_is_not_written_to() -> None:
    log = new_log()
    put(log, (b"a", b"1"), (b"a", b"2"))
    for _ in (steps := cleaner.compact(log, 0)):
        if len(records(log)) == 1:
            break
    before = log.checkpoint
    log.abandon()
    assert list(steps) == []
    assert log.checkpoint == before


def test_a_segment_that_is_about_to_be_compacted_gets_no_indexes() -> None:
    for with_indexes in (True, False):
        log = new_log()
        put(log, (b"a", b"1"))
        log.roll(with_indexes=with_indexes)
        assert any(name.endswith("index") for name in log.files.list(DIRECTORY)) == with_indexes


def test_is_due_by_the_share_of_new_bytes() -> None:
    log = new_log(compaction_bytes_min=3 * len(encode([Record(b"k", b"v")])))
    for _ in range(3):
        assert not cleaner.is_due(log)
        put(log, (b"k", b"v"))
    assert cleaner.is_due(log)
    cleaner.run(log, 0)
    assert not cleaner.is_due(log)


def test_segments_of_the_result_are_joined_up_to_the_segment_size() -> None:
    log = new_log(segment_bytes=1000)
    for number in range(200):
        put(log, (b"k%d" % (number % 5), b"%d" % number))
    assert len(log.segments) > 10
    for _ in range(6):
        put(log, (b"k0", b"x"))
        cleaner.run(log, 0)
    assert len(log.segments) <= 3


def test_a_compacted_log_is_at_most_four_times_its_live_state() -> None:
    log = new_log()
    for number in range(20_000):
        put(log, (b"group-%d/orders/0" % (number % 100), b"value %d" % number))
        if number % 500 == 0 and cleaner.is_due(log):
            cleaner.run(log, number)
    if cleaner.is_due(log):
        cleaner.run(log, 20_000)
    live = sum(len(key or b"") + len(value or b"") + 12 for _, key, value in records(log)[-100:])
    assert log.size <= max(4 * live, log.config.compaction_bytes_min + live)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), keys_max=st.sampled_from((3, 9, 1000)), marked_max=st.sampled_from((0, 1000)))
def test_marks_and_keys_say_the_same(seed: int, keys_max: int, marked_max: int) -> None:
    """However the survivors are told, and however many compactions it takes, they are the latest of their keys."""
    dice = Random(seed)
    log = new_log(segment_bytes=300)
    latest: dict[bytes, tuple[int, bytes | None]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "MARKED_MAX", marked_max)
        patch.setattr(compaction, "STEP_KEYS", 2)
        for number in range(60):
            value = None if dice.random() < 0.1 else b"%d" % number
            pairs = [(b"key-%d" % dice.randrange(20), value) for _ in range(dice.choice((1, 1, 2, 3, 30)))]
            first = put(log, *pairs)
            latest.update({key: (first + at, value) for at, (key, value) in enumerate(pairs)})
            if number % 19 == 18:
                finish(cleaner.compact(log, 0, keys_max=keys_max))
        while log.checkpoint.cleaned_to < log.end_offset:
            finish(cleaner.compact(log, 0, keys_max=keys_max))
    assert records(log) == sorted((offset, key, value) for key, (offset, value) in latest.items())


def test_a_gap_is_covered_by_batches_that_reach_as_far_as_one_can() -> None:
    end_offset = 2 * (RELATIVE_MAX + 1) + 5
    repacker = compaction.Repacker(0)
    headers = [record_batch.header_at(batch) for batch in repacker.upto(end_offset, leader_epoch=3)]
    assert [header.base_offset for header in headers] == [0, RELATIVE_MAX + 1, 2 * (RELATIVE_MAX + 1)]
    assert [header.next_offset for header in headers] == [RELATIVE_MAX + 1, 2 * (RELATIVE_MAX + 1), end_offset]
    assert {header.leader_epoch for header in headers} == {3}
    (following,) = repacker.upto(end_offset + 1, leader_epoch=4)
    assert record_batch.header_at(following).base_offset == end_offset


def test_the_time_that_the_broker_has_given_to_a_batch_survives() -> None:
    """It is that of all records of the batch, whatever they say themselves."""

    def put_at(at_ms: int, *pairs: tuple[bytes, bytes | None]) -> None:
        data = encode([Record(key, value, (), 0, 5) for key, value in pairs])
        stamped = msgspec.structs.replace(header_at(data), attributes=record_batch.LOG_APPEND_TIME, max_timestamp=at_ms)
        log.append(record_batch.seal(stamped, data[record_batch.HEADER_BYTES :]))

    log = new_log()
    put_at(1000, (b"a", b"1"), (b"b", b"2"))
    put_at(2000, (b"a", b"3"))
    put_at(3000, (b"c", None), (b"d", b"4"))
    put(log, (b"e", b"5"), timestamp=1)
    for now_ms in (4000, 9000):
        cleaner.run(log, now_ms)
        found = {record.key: record.timestamp for _, batch in scan(log) for record in batch}
        assert found == {b"a": 2000, b"b": 1000, b"d": 3000, b"e": 1} | ({b"c": 3000} if now_ms == 4000 else {})
        put(log, (b"e", b"5"), timestamp=1)
    assert finish_steps(log.offset_for_time(2500, Meter())) == (4, 3000)
