"""Logs with gaps, from a broker that has compacted them: whatever is done to them is compared with a simple model."""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import astuple, replace

from protocol.compression import Meter
from protocol.record_batch import encode, place
from protocol.records import Record
from protocol.steps import finish_steps
from storage import cleaner
from storage.extent import Extent, measure
from storage.layout import DamagedLog
from storage.log import Log, LogConfig, OffsetOutOfRange, scan
from storage.outdated import OutdatedRecords
from tests.steps import finish
from tests.storage.crashing_disk import CrashingDisk
from tests.storage.gapped_logs import DIRECTORY, KEYS, GappedLog, KnownSegment, Writer, config, read_segments
from tests.storage.repairing import lost, repaired


def compare(log: Log, known: GappedLog, dice: random.Random) -> None:
    """Ask the log what the model can be asked as well."""
    assert (log.start_offset, log.end_offset, log.last_stable_offset) == (known.start, known.end, known.stable)
    assert [(s.base_offset, s.end_offset, s.size) for s in log.segments] == [
        (s.base_offset, s.end, s.size) for s in known.segments
    ]
    for _ in range(12):
        offset = dice.randint(known.start, known.end)
        most, before = (
            dice.choice((1, 100, 150, 300, 10**6)),
            dice.choice((None, None, known.stable, offset, offset + 3)),
        )
        min_one = dice.random() < 0.5
        expected = known.read(offset, most, min_one=min_one, before=before)
        assert log.read(offset, most, min_one=min_one, before=before) == b"".join(expected), (offset, most, before)
    for offset in (known.start - 1, known.end + 1):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 1)
    offset = dice.randint(known.start, known.end)
    every = [(batch.header, batch.records) for batch in known.batches if batch.records]
    assert list(scan(log)) == every
    assert list(scan(log, offset)) == [one for one in every if one[0].last_offset >= offset]
    for time in (-1, 0, *[dice.randrange(100) for _ in range(4)], 99, 100):
        assert finish_steps(log.offset_for_time(time, Meter())) == known.find_time(time), time
    assert finish_steps(log.latest_time(Meter())) == known.find_latest()


def compare_indexes(log: Log, known: GappedLog, every_bytes: int) -> None:
    """Compare Kafka's index files with the batches: of the segments that Muster has rolled, and of the last one."""
    contents = log.files.contents()
    for segment in known.segments:
        stem, base = segment.path.removesuffix(".log"), segment.base_offset
        offsets, times, start, indexed_to = [], [], 0, 0
        for number, batch in enumerate(segment.batches, 1):
            is_indexed = start >= indexed_to + every_bytes
            if is_indexed:
                offsets.append((batch.header.last_offset - base, start))
                indexed_to = start
            if is_indexed or number == len(segment.batches):
                latest = max(segment.batches[:number], key=lambda one: one.header.max_timestamp).header
                if latest.max_timestamp > max([time for time, _ in times], default=-1):
                    times.append((latest.max_timestamp, latest.last_offset - base))
            start += len(batch.whole)
        expected: dict[str, tuple[str, list[Any]]] = {}
        expected |= {f"{stem}.index": (">ii", offsets), f"{stem}.timeindex": (">qi", times)}
        if segment is known.segments[-1]:  # of the others, the start may have been moved, and the log opened, since
            aborted = [(0, *astuple(one)) for one in known.aborted() if one.last_offset >= base]
            expected[f"{stem}.txnindex"] = (">hqqqq", aborted)
        for path, (form, entries) in expected.items():
            if path in contents or segment is known.segments[-1]:
                assert list(struct.iter_unpack(form, contents.get(path, b""))) == entries, path


def compare_producers(log: Log, known: GappedLog) -> None:
    """Compare what is known of each producer with all that it has written."""
    headers = [batch.header for batch in known.learnt if batch.header.producer_id >= 0]
    assert {producer_id for producer_id, _ in log.producers.items()} == {one.producer_id for one in headers}
    for producer_id, producer in log.producers.items():
        written = [one for one in headers if one.producer_id == producer_id]
        data = [one for one in written if not one.is_control and one.base_sequence >= 0]
        assert (producer.epoch, producer.last_offset) == (0, written[-1].last_offset)
        assert [(one.first_sequence, one.base_offset, one.last_offset) for one in producer.batches] == [
            (one.base_sequence, one.base_offset, one.last_offset) for one in data[-5:]
        ]


def compare_aborted_transactions(log: Log, known: GappedLog, dice: random.Random) -> None:
    """Compare the aborted transactions that a reader of some offsets is told of."""
    for _ in range(4):
        first = dice.randint(known.start, known.end)
        end = dice.randint(first + 1, known.end + 1)
        found = [one for one in known.aborted() if one.first_offset < end and one.last_offset >= first]
        assert log.collect_aborted_transactions(first, end) == found, (first, end)


@pytest.mark.parametrize("seed", range(40))
def test_a_log_with_gaps_is_read_appended_to_deleted_and_opened_like_its_model(seed: int) -> None:
    dice = random.Random(seed)
    writer, disk = Writer(dice), CrashingDisk()
    known, settings = writer.log(), config(dice)
    known.write(disk)
    assert finish(measure(disk, DIRECTORY)) == Extent(sum(s.size for s in known.segments), known.end)
    log = Log.open(disk, DIRECTORY, settings)
    epoch = max([0, *[batch.header.leader_epoch for batch in known.batches]])
    assert log.leader_epoch == epoch
    assert [segment.latest_ms for segment in log.segments] == [segment.latest_ms for segment in known.segments]
    for _ in range(8):
        compare(log, known, dice)
        compare_producers(log, known)
        compare_aborted_transactions(log, known, dice)
        match dice.choice(("append", "append", "delete", "retain", "roll", "open", "open")):
            case "append":
                batch = writer.batch()
                assert log.append(batch) == known.end
                known.append(batch, epoch, settings.segment_bytes)
            case "delete":
                start = dice.randint(known.start, known.end)
                assert log.delete_before(start) == start
                known.delete_before(start)
            case "retain":
                for segment, theirs in zip(known.segments, log.segments, strict=True):
                    segment.modified_ms = theirs.modified_ms
                rule = 100, dice.choice((-1, 0, 20, 60)), dice.choice((-1, 0, 200, 500))
                known.retain(*rule)
                log.retain(*rule)
                assert log.start_offset == known.start, rule
            case "roll":
                log.roll()
                known.roll()
            case _:
                has_news = log.checkpoint.recovery_point < log.end_offset
                log.close() if dice.random() < 0.5 else log.release()
                if has_news and log.checkpoint.recovery_point == log.end_offset:
                    compare_indexes(log, known, settings.index_interval_bytes)
                asked = OutdatedRecords(disk)
                for rule in ((100, dice.choice((-1, 20, 60)), dice.choice((-1, 200, 500))) for _ in range(4)):
                    is_outdated = Log.open(disk.copy(), DIRECTORY, settings).retain(*rule) > known.start
                    assert finish(asked.look(DIRECTORY, *rule)) == is_outdated, rule
                log = Log.open(disk, DIRECTORY, settings)
                known.open()
    compare(log, known, dice)


def sequences_of(log: Log) -> dict[int, tuple[int, int]]:
    """Return the epoch and the last sequence of each producer."""
    return {producer_id: (producer.epoch, producer.last_sequence) for producer_id, producer in log.producers.items()}


@pytest.mark.parametrize("seed", range(40))
def test_a_compaction_of_a_log_with_gaps_keeps_the_latest_of_each_key(seed: int) -> None:
    dice = random.Random(seed)
    writer, disk = Writer(dice), CrashingDisk()
    known = writer.log()
    ratio = dice.choice((0.0, 0.5, 1.0))
    settings = replace(config(dice), compaction_bytes_min=dice.choice((1, 300)), min_cleanable_dirty_ratio=ratio)
    known.write(disk)
    disk.now_ms = 70
    log = Log.open(disk, DIRECTORY, settings)
    for _ in range(3):
        for _ in range(dice.randrange(4)):
            log.append(writer.batch() if dice.random() < 0.7 else encode([Record(dice.choice(KEYS), b"new")]))
            log.segments[-1].modified_ms = disk.now_ms
        if dice.random() < 0.3:
            log.delete_before(dice.randint(log.start_offset, log.last_stable_offset))
        known = GappedLog(read_segments(disk), log.start_offset)
        if log.last_stable_offset == log.end_offset:
            decided = log.end_offset
        else:
            decided = max([s.end_offset for s in log.segments[:-1] if s.end_offset <= known.stable], default=0)
        ready = [segment for segment in known.segments if segment.end <= known.stable]
        dirty = sum(segment.size for segment in ready if segment.end > log.checkpoint.cleaned_to)
        is_due = dirty >= settings.compaction_bytes_min and dirty >= ratio * sum(segment.size for segment in ready)
        assert cleaner.is_due(log) == is_due
        ages = {segment.base_offset: segment.modified_ms for segment in log.segments}
        sequences = sequences_of(Log.open(disk.copy(), DIRECTORY, settings))
        report = cleaner.run(log, 1000)
        for segment, following in pairwise([*log.segments, None]):
            until = 2**63 if following is None else following.base_offset
            joined = [age for base, age in ages.items() if segment.base_offset <= base < until]
            assert [segment.modified_ms] * bool(joined) == joined[-1:], "the records do not become younger"
        committed = known.read_committed(decided)
        latest = {record.key: record.offset for record in committed if record.key is not None}
        expected = [record for record in committed if latest.get(record.key) == record.offset]
        after = GappedLog(read_segments(disk), log.start_offset)
        assert after.read_committed(decided) == expected
        assert [b for b in after.batches if b.end > decided] == [b for b in known.batches if b.end > decided]
        compare(log, after, dice)
        assert report is None or report.cleaned_to == max(b.end for b in known.batches if b.end <= decided)
        for segment in log.segments:
            following = segment.base_offset
            for found in segment.batches() if segment.end_offset <= decided else ():
                assert found.header.base_offset == following, "no gaps are left in what was rewritten"
                assert found.header.count or found.header.delete_horizon_ms is None
                following = found.header.next_offset
        if dice.random() < 0.5:
            log.close()
        ages = {segment.base_offset: segment.modified_ms for segment in log.segments if segment.modified_ms >= 0}
        log = Log.open(disk, DIRECTORY, settings)
        assert ages.items() <= {segment.base_offset: segment.modified_ms for segment in log.segments}.items()
        assert sequences_of(log) == sequences
        compare(log, after, dice)
        compare_producers(log, after)
        compare_aborted_transactions(log, after, dice)
        for producer_id, producer in log.producers.items():
            assert producer.first_open_offset == after.open_transactions().get(producer_id)


def test_a_compaction_leaves_our_epoch_in_place_of_batches_of_ours_that_it_need_not_read() -> None:
    disk, settings = CrashingDisk(), LogConfig(segment_bytes=100)
    for base, key, epoch in ((0, b"a", 2), (1, b"b", 3)):
        disk.put(f"{DIRECTORY}/{base:020}.log", b"".join(place(encode([Record(key, b"theirs")]), base, epoch)))
    log = Log.open(disk, DIRECTORY, settings)
    for _ in range(4):
        log.append(encode([Record(b"b", b"ours")]))
    cleaner.run(log, 0)
    again = Log.open(disk.copy(), DIRECTORY, settings)
    assert [record.offset for _, records in scan(again) for record in records] == [0, 5]
    assert [found.header.leader_epoch for found in again.batches()][-2:] == [3, 3]


class HarmedLog:
    """A log with gaps, from another broker alone or with batches of our own behind, and harm to one of its files."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.disk = CrashingDisk()
        self.settings = LogConfig(segment_bytes=dice.choice((200, 600, 2000)))
        writer = Writer(dice)
        written = writer.log()
        written.write(self.disk)
        self.durable_end = 0
        """Up to here all is known to have been on the disk."""
        self.ours_from = 2**63
        if dice.random() < 0.7:
            log = Log.open(self.disk, DIRECTORY, self.settings)
            self.ours_from = log.end_offset
            for _ in range(dice.randrange(8)):
                log.append(writer.batch())
            log.close() if dice.random() < 0.7 else log.release()
            self.durable_end = log.checkpoint.recovery_point
        self.known = GappedLog(read_segments(self.disk), written.start)
        self.segment = dice.choice([segment for segment in self.known.segments if segment.batches] or [None])

    def open_or_repair(self) -> tuple[Log, list[tuple[int, int]] | None]:
        """Return the log, and the offsets that a repair has given up; None for a log that is opened as it is.

        A log that is opened needs no repair, except that a torn write may be cut off its end.
        """
        try:
            log = Log.open(self.disk.copy(), DIRECTORY, self.settings)
        except DamagedLog:
            plan, log = repaired(self.disk)
            assert plan.is_needed
            return log, lost(plan)
        plan, _ = repaired(self.disk.copy()) if log.cut is None else (None, None)
        assert plan is None or not plan.is_needed
        return log, None


def read_places(log: Log) -> list[tuple[int, int, bytes]]:
    """Return offset, end and the checked bytes of each batch that has records."""
    every = [(one.header, one.chunk[one.at : one.at + one.header.size]) for one in log.batches()]
    return [(header.base_offset, header.next_offset, whole[16:]) for header, whole in every if header.count]


def known_places(known: GappedLog) -> list[tuple[int, int, bytes]]:
    return [(b.header.base_offset, b.end, b.whole[16:]) for b in known.batches if b.records]


@pytest.mark.parametrize("seed", range(80))
def test_one_bit_of_a_log_with_gaps_is_put_right_or_changes_an_offset_or_an_epoch_alone(seed: int) -> None:
    """In the fields that no checksum covers, twice as often as elsewhere."""
    one = HarmedLog(seed)
    if one.segment is None:
        return
    number = one.dice.randrange(len(one.segment.batches))
    batch = one.segment.batches[number]
    at = one.dice.choice((*range(8), *range(8, 12), *range(12, 16), one.dice.randrange(16, len(batch.whole))))
    bit = one.dice.randrange(8)
    content = bytearray(one.disk.contents()[one.segment.path])
    start = sum(len(b.whole) for b in one.segment.batches[:number])
    content[start + at] ^= 1 << bit
    changed = bytes(content[start : start + len(batch.whole)])
    one.disk.put(one.segment.path, bytes(content))
    says = int.from_bytes(changed[:8], "big", signed=True)
    if says + batch.header.last_offset_delta + 1 == one.ours_from != batch.end:
        return  # by chance it says that it is the last one of theirs, which is believed
    log, gone = one.open_or_repair()
    is_end_of_theirs = batch.end == one.ours_from == one.known.end  # as after a batch that is missing behind it
    assert not gone or (at < 8 and is_end_of_theirs), "the checksum proves one bit, and neighbours the place"
    found, expected = read_places(log), known_places(one.known)
    assert [what for *_, what in found] == [what for *_, what in expected]
    moved = {known for known, now in zip(expected, found, strict=True) if known[:2] != now[:2]}
    may_move = [batch] * (at < 8)
    if number:  # the batch before is the wrong one, as far as can be told, where it and this one fit if it is moved
        before = one.segment.batches[number - 1]
        free_from = one.segment.batches[number - 2].end if number > 1 else one.segment.base_offset
        may_move += [before] * (free_from + before.header.last_offset_delta < says < before.end)
    assert moved <= set(known_places(GappedLog([KnownSegment(0, may_move)], 0)))
    if batch.header.base_offset >= one.ours_from:
        assert (moved, log.leader_epoch) == (set(), batch.header.leader_epoch)


@pytest.mark.parametrize("seed", range(40))
def test_batches_that_say_another_place_are_all_kept_in_their_order(seed: int) -> None:
    """Any number of them, where what they say cannot be so."""
    one = HarmedLog(seed)
    dice = one.dice
    if one.ours_from == one.known.end:
        return  # nothing behind them says where ours begins
    for segment in one.known.segments:
        content, at = bytearray(one.disk.contents()[segment.path]), 0
        for batch in segment.batches:
            is_known = one.ours_from not in (batch.end, batch.header.base_offset)  # where ours begins is not told twice
            if dice.random() < 0.4 and is_known:
                content[at : at + 8] = dice.choice((0, 2**62, 2**63 - 1)).to_bytes(8, "big")
            if dice.random() < 0.2:
                content[at + 12 : at + 16] = dice.choice((0, 1, 5, 2**31 - 1)).to_bytes(4, "big")
            at += len(batch.whole)
        one.disk.put(segment.path, bytes(content))
    log, _ = one.open_or_repair()
    found, expected = read_places(log), known_places(one.known)
    assert [what for *_, what in found] == [what for *_, what in expected]
    assert [place for place in found if place[0] >= one.ours_from] == [
        place for place in expected if place[0] >= one.ours_from
    ]


@pytest.mark.parametrize("seed", range(40))
def test_a_batch_that_is_lost_between_gaps_leaves_all_others_where_they_are(seed: int) -> None:
    one = HarmedLog(seed)
    if one.segment is None:
        return
    number = one.dice.randrange(len(one.segment.batches))
    batch, others = one.segment.batches[number], one.known.batches
    at = sum(len(b.whole) for b in one.segment.batches[:number])
    content = bytearray(one.disk.contents()[one.segment.path])
    for byte in (30, 40, 50):
        content[at + byte] ^= 0b1101
    one.disk.put(one.segment.path, bytes(content))
    log, gone = one.open_or_repair()
    lost_at = others.index(batch)
    expected = known_places(GappedLog([KnownSegment(0, others[:lost_at] + others[lost_at + 1 :])], 0))
    assert read_places(log) == expected
    before = one.segment.batches[number - 1].end if number else one.segment.base_offset
    is_last = one.segment is one.known.segments[-1]
    if number + 1 < len(one.segment.batches):
        assert gone == [(before, one.segment.batches[number + 1].header.base_offset)]
    elif not is_last:
        after = next(s.base_offset for s in one.known.segments if s.base_offset > one.segment.base_offset)
        assert gone == [(before, after)]
    elif before < one.durable_end:
        assert gone == [(before, max(before, one.durable_end))]
    else:
        assert (gone, log.end_offset) == (None, before)


@pytest.mark.parametrize("seed", range(30))
def test_a_log_with_gaps_that_is_cut_off_ends_before_or_is_repaired_to_where_it_ended(seed: int) -> None:
    one = HarmedLog(seed)
    segment = one.known.segments[-1]
    content = one.disk.contents()[segment.path]
    size = one.dice.randrange(len(content) + 1)
    one.disk.put(segment.path, content[:size])
    log, gone = one.open_or_repair()
    room, kept = size, one.known.batches[: -len(segment.batches) or None]
    for batch in segment.batches:
        room -= len(batch.whole)
        if room < 0:
            break
        kept.append(batch)
    assert read_places(log) == known_places(GappedLog([KnownSegment(0, kept)], 0))
    end = max([segment.base_offset, *[batch.end for batch in kept if batch in segment.batches]])
    if end < one.durable_end:
        assert (gone, log.end_offset) == ([(end, one.durable_end)], one.durable_end)
    else:
        assert (gone, log.end_offset) == (None, end)


@pytest.mark.parametrize("seed", range(40))
def test_a_segment_that_is_missing_is_noticed_unless_it_may_be_a_gap(seed: int) -> None:
    one = HarmedLog(seed)
    at = one.dice.randrange(len(one.known.segments))
    segment, is_adopted = one.known.segments.pop(at), one.ours_from < 2**63
    one.disk.remove(segment.path)
    if not one.known.segments and not is_adopted:
        return
    log, gone = one.open_or_repair()
    assert read_places(log) == known_places(one.known)
    after = one.known.segments[at].base_offset if at < len(one.known.segments) else one.durable_end
    is_noticed = is_adopted and (at in (0, len(one.known.segments)) or after > one.ours_from)
    assert (gone is not None) == is_noticed
    if is_noticed:
        before = one.known.segments[at - 1].end if at else segment.base_offset
        assert gone == [(before, max(before, after))]
