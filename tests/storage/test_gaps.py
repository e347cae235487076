"""Logs with gaps, from a broker that has compacted them: whatever is done to them is compared with a simple model."""

from __future__ import annotations

import random

import pytest

from protocol.compression import Meter
from protocol.record_batch import encode
from protocol.records import Record
from protocol.steps import finish_steps
from storage import cleaner
from storage.extent import Extent, measure
from storage.log import Log, OffsetOutOfRange, scan
from storage.outdated import OutdatedRecords
from tests.steps import finish
from tests.storage.crashing_disk import CrashingDisk
from tests.storage.gapped_logs import DIRECTORY, KEYS, Gapped, Writer, config, read_segments


def compare(log: Log, known: Gapped, dice: random.Random) -> None:
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


def compare_aborted(log: Log, known: Gapped, dice: random.Random) -> None:
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
    epoch = max([batch.header.leader_epoch for batch in known.batches[-1:]], default=0)
    assert log.leader_epoch == epoch
    assert [segment.latest_ms for segment in log.segments] == [segment.latest_ms for segment in known.segments]
    for _ in range(8):
        compare(log, known, dice)
        compare_aborted(log, known, dice)
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
                log.close() if dice.random() < 0.5 else log.release()
                asked = OutdatedRecords(disk)
                for rule in ((100, dice.choice((-1, 20, 60)), dice.choice((-1, 200, 500))) for _ in range(4)):
                    is_outdated = Log.open(disk.copy(), DIRECTORY, settings).retain(*rule) > known.start
                    assert finish(asked.look(DIRECTORY, *rule)) == is_outdated, rule
                log = Log.open(disk, DIRECTORY, settings)
                known.open()
    compare(log, known, dice)


@pytest.mark.parametrize("seed", range(40))
def test_a_compaction_of_a_log_with_gaps_keeps_the_latest_of_each_key(seed: int) -> None:
    dice = random.Random(seed)
    writer, disk = Writer(dice), CrashingDisk()
    known, settings = writer.log(), config(dice)
    known.write(disk)
    log = Log.open(disk, DIRECTORY, settings)
    for _ in range(3):
        for _ in range(dice.randrange(4)):
            log.append(writer.batch() if dice.random() < 0.7 else encode([Record(dice.choice(KEYS), b"new")]))
        if dice.random() < 0.3:
            log.delete_before(dice.randint(log.start_offset, log.last_stable_offset))
        known = Gapped(read_segments(disk), log.start_offset)
        if log.last_stable_offset == log.end_offset:
            decided = log.end_offset
        else:
            decided = max([s.end_offset for s in log.segments[:-1] if s.end_offset <= known.stable], default=0)
        report = cleaner.run(log, 1000)
        committed = known.read_committed(decided)
        latest = {record.key: record.offset for record in committed}
        expected = [record for record in committed if latest[record.key] == record.offset]
        after = Gapped(read_segments(disk), log.start_offset)
        assert after.read_committed(decided) == expected
        assert [b for b in after.batches if b.end > decided] == [b for b in known.batches if b.end > decided]
        compare(log, after, dice)
        assert report is None or report.cleaned_to == max(b.end for b in known.batches if b.end <= decided)
        for segment in log.segments:
            following = segment.base_offset
            for found in segment.batches() if segment.end_offset <= decided else ():
                assert found.header.base_offset == following, "no gaps are left in what was rewritten"
                following = found.header.next_offset
        if dice.random() < 0.5:
            log.close()
        log = Log.open(disk, DIRECTORY, settings)
        compare(log, after, dice)
        compare_aborted(log, after, dice)
        for producer_id, producer in log.producers.items():
            assert producer.first_open_offset == after.open_transactions().get(producer_id)
