"""Sequences, epochs and transactions of producers, learnt from batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from struct import iter_unpack
from typing import Any, NamedTuple

import pytest
from msgspec.structs import astuple, replace

from protocol.errors import ErrorCode
from protocol.record_batch import BatchHeader, encode, encode_marker, header_at
from protocol.records import EndMarker, Record
from storage.log import Log
from storage.producers import (
    ATTEMPTS_MAX,
    EPOCH_MAX,
    SEQUENCE_MAX,
    AbortedTransaction,
    Producer,
    ProducerCount,
    Producers,
)
from tests.storage.crashing_disk import CrashingDisk

DIRECTORY = "data/orders-0"
ID = 7


def batch(
    sequence: int, count: int = 1, epoch: int = 0, *, transactional: bool = False, producer_id: int = ID
) -> bytes:
    facts = [Record(b"k", b"v", (), 0, 1000 + n) for n in range(count)]
    return encode(
        facts, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )


def header(sequence: int, count: int = 1, epoch: int = 0) -> BatchHeader:
    return header_at(batch(sequence, count, epoch))


def marker(commits: bool, epoch: int = 0, coordinator_epoch: int = 0, producer_id: int = ID) -> bytes:
    return encode_marker(EndMarker(commits, coordinator_epoch), 5, producer_id=producer_id, producer_epoch=epoch)


@pytest.fixture(params=["as written", "as read back"])
def reopened(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "as read back")


def log_of(parts: list[bytes], reopened: bool) -> Log:
    log = Log.open(CrashingDisk(), DIRECTORY)
    for part in parts:
        log.append(part)
    return Log.open(log.files, DIRECTORY) if reopened else log


def test_sequences_follow_each_other(reopened: bool) -> None:
    log = log_of([batch(0, 3), batch(3, 2)], reopened)
    check = log.producers.check
    assert check(header(5)).error is ErrorCode.NONE
    assert check(header(6)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert check(header(4)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.producers[ID].last_sequence == 4
    assert ID in log.producers
    assert ID + 1 not in log.producers


def test_a_batch_sent_again_is_known_among_the_last_five(reopened: bool) -> None:
    log = log_of([batch(number) for number in range(7)], reopened)
    for number in range(7):
        verdict = log.producers.check(header(number))
        if number < 2:
            assert verdict.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            assert verdict.error is ErrorCode.NONE
            assert verdict.duplicate is not None
            assert (verdict.duplicate.base_offset, verdict.duplicate.timestamp) == (number, 1000)
    assert log.producers.check(header(5, 2)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, (
        "same first, not same last"
    )


def test_a_new_epoch_begins_with_sequence_zero_and_fences_the_old(reopened: bool) -> None:
    log = log_of([batch(0, 2, epoch=3)], reopened)
    check = log.producers.check
    assert check(header(0, epoch=4)).error is ErrorCode.NONE
    assert check(header(2, epoch=4)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert check(header(2, epoch=2)).error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_refusal_says_what_is_known_of_the_producer() -> None:
    check = log_of([batch(0, 2, epoch=3)], False).producers.check
    assert check(header(2, epoch=2)).message == "Epoch 2 of producer 7 is older than 3"
    assert check(header(5, epoch=4)).message == "A new epoch of producer 7 begins with sequence 0, not 5"
    assert check(header(5, epoch=3)).message == "Sequence 5 of producer 7 where 2 is next"
    assert check(header(2, epoch=3)).message == ""


def test_a_forgotten_producer_may_begin_anywhere() -> None:
    assert Producers().check(header(99)).error is ErrorCode.NONE
    assert Producers().check(header_at(encode([Record(None, None)]))).error is ErrorCode.NONE


def test_sequences_wrap_around() -> None:
    log = log_of([batch(SEQUENCE_MAX - 1, 3)], False)
    assert log.producers[ID].last_sequence == 0
    assert log.producers.check(header(1)).error is ErrorCode.NONE


def test_after_only_a_marker_of_its_epoch_a_producer_begins_with_zero(reopened: bool) -> None:
    log = log_of([marker(commits=True, epoch=2)], reopened)
    assert log.producers.check(header(0, epoch=2)).error is ErrorCode.NONE
    assert log.producers.check(header(1, epoch=2)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_stable_offset_is_the_first_of_the_earliest_open_transaction(reopened: bool) -> None:
    parts = [
        batch(0),
        batch(1, transactional=True),
        batch(0, transactional=True, producer_id=8),
        batch(2, transactional=True),
    ]
    assert log_of(parts, reopened).last_stable_offset == 1
    assert log_of([*parts, marker(commits=True)], reopened).last_stable_offset == 2
    ended = log_of([*parts, marker(commits=True), marker(commits=False, producer_id=8)], reopened)
    assert ended.last_stable_offset == ended.end_offset == 6


def test_aborted_transactions_are_told_for_the_offsets_they_touch(reopened: bool) -> None:
    log = log_of(
        [batch(0), batch(1, 2, transactional=True), batch(3, transactional=True), marker(commits=False)], reopened
    )
    aborted = log.collect_aborted_transactions(0, 100)
    assert [(a.producer_id, a.first_offset, a.last_offset, a.last_stable_offset) for a in aborted] == [(ID, 1, 4, 5)]
    assert log.collect_aborted_transactions(4, 5) == aborted
    assert log.collect_aborted_transactions(0, 2) == aborted
    assert log.collect_aborted_transactions(0, 1) == []
    assert log.collect_aborted_transactions(5, 9) == []
    log.delete_before(5)
    assert log.collect_aborted_transactions(0, 100) == []


def test_an_epoch_bumped_by_the_marker_ends_the_transaction_of_the_one_before(reopened: bool) -> None:
    log = log_of([batch(0, epoch=2, transactional=True), marker(commits=False, epoch=3)], reopened)
    assert log.last_stable_offset == log.end_offset
    assert [a.first_offset for a in log.collect_aborted_transactions(0, 9)] == [0]


def test_idle_producers_are_forgotten_but_not_in_a_transaction() -> None:
    log = log_of([batch(0), batch(0, transactional=True, producer_id=8)], False)
    log.producers.forget_idle(before_ms=1000)
    assert [producer_id for producer_id, _ in log.producers.items()] == [ID, 8]
    log.producers.forget_idle(before_ms=1001)
    assert [producer_id for producer_id, _ in log.producers.items()] == [8]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_open_and_what_was_aborted_is_found_as_by_a_search_of_everything(seed: int) -> None:
    dice = Random(seed)
    log = Log.open(CrashingDisk(), DIRECTORY)
    opened: dict[int, int] = {}
    aborted: list[tuple[int, int, int]] = []  # producer id, first and last offset
    sequences: Counter[int] = Counter()
    for _ in range(60):
        producer_id, end = dice.randrange(6), log.end_offset
        if producer_id in opened and dice.random() < 0.5:
            commits = dice.random() < 0.3
            log.append(marker(commits, producer_id=producer_id))
            first = opened.pop(producer_id)
            aborted += [(producer_id, first, end)] * (not commits)
        else:
            log.append(batch(sequences[producer_id], transactional=True, producer_id=producer_id))
            sequences[producer_id] += 1
            opened.setdefault(producer_id, end)
        assert log.last_stable_offset == min(opened.values(), default=log.end_offset)
    for producers in (log.producers, Log.open(log.files, DIRECTORY).producers):
        for first in range(0, 60, 3):
            for end in range(first + 1, 61, 4):
                found = [
                    (a.producer_id, a.first_offset, a.last_offset)
                    for a in producers.find_aborted_transactions(first, end)
                ]
                assert found == [one for one in aborted if one[2] >= first and one[1] < end], (first, end)
    log.producers.forget_before(30)
    assert [a.last_offset for a in log.producers.aborted] == [last for _, _, last in aborted if last >= 30]


def test_a_read_does_not_look_at_each_producer_nor_at_each_aborted_transaction() -> None:
    class Counted(list[AbortedTransaction]):
        looks = 0

        def __getitem__(self, at: Any) -> Any:
            Counted.looks += 1
            return super().__getitem__(at)

        def __iter__(self) -> Any:
            raise AssertionError("it looks at each transaction")

    class Unwalked(dict[int, Producer]):
        def values(self) -> Any:
            raise AssertionError("it looks at each producer")

    log = Log.open(CrashingDisk(), DIRECTORY)
    for producer_id in range(1_000):
        log.append(batch(0, transactional=True, producer_id=producer_id))
        log.append(marker(False, producer_id=producer_id))
    producers = log.producers
    producers.aborted = Counted(producers.aborted)
    producers._producers = Unwalked(producers._producers)
    assert log.last_stable_offset == 2_000
    assert [one.producer_id for one in producers.find_aborted_transactions(1_000, 1_003)] == [500, 501]
    assert Counted.looks < 30


def test_a_batch_waits_for_an_earlier_one_that_was_to_begin_the_transaction() -> None:
    producers = Producers()
    producers.note_attempt(header(3), begins_at_zero=False, now_ms=10)
    producers.note_attempt(header(4), begins_at_zero=False, now_ms=11)
    assert producers.check(header(4)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(3)).error is ErrorCode.NONE
    producers.note_attempt(header(2), begins_at_zero=False, now_ms=12)
    assert producers.check(header(3)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.note_attempt(header(7, epoch=1), begins_at_zero=False, now_ms=13)
    assert producers.check(header(7, epoch=1)).error is ErrorCode.NONE
    producers.forget_idle(before_ms=10)
    assert producers.check(header(8, epoch=1)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.forget_idle(before_ms=11)
    assert producers.check(header(8, epoch=1)).error is ErrorCode.NONE


def test_a_transaction_that_has_begun_ends_the_wait() -> None:
    for data, epoch in ((batch(0, transactional=True), 0), (marker(False, epoch=1), 1)):
        producers = Producers()
        producers.note_attempt(header(0), begins_at_zero=True, now_ms=10)
        producers.learn(header_at(data), EndMarker(False, 0) if epoch else None)
        assert producers._attempts == {}


def learn(producers: Producers, producer_id: int, offset: int, attributes: int = 0) -> None:
    producers.learn(BatchHeader(offset, 0, 0, 2, 0, attributes, 0, 0, 0, producer_id, 0, 0, 1), None)


def test_logs_forget_their_oldest_producers_beyond_what_all_may_remember() -> None:
    """Those with an open transaction stay, and so does the latest, wherever the others are, and whoever goes on."""
    total = ProducerCount(most=40)
    one, two = Producers(), Producers()
    learn(one, 0, 0, attributes=0x10)
    one.share(total)
    two.share(total)
    for producer_id in range(1, 200):
        learn(one if producer_id % 2 else two, producer_id, producer_id)
        learn(two, 2, producer_id)
        assert total.count == len(one.items()) + len(two.items()) <= 42
    assert 0 in one and 199 in one and 198 in two and 2 in two and 4 not in two
    assert one.check(BatchHeader(0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 77, 1)).error == ErrorCode.NONE
    one.forget_idle(10**9)
    assert total.count == 1 + len(two.items())
    two.share(ProducerCount())
    assert total.count == 1


def test_attempts_of_a_log_are_bounded() -> None:
    producers = Producers()
    for producer_id in range(ATTEMPTS_MAX + 5):
        header = BatchHeader(0, 0, 0, 2, 0, 0x10, 0, 0, 0, producer_id, 0, 3, 1)
        producers.note_attempt(header, begins_at_zero=False, now_ms=0)
    early = BatchHeader(0, 0, 0, 2, 0, 0x10, 0, 0, 0, 4, 0, 5, 1)
    assert producers.check(early).error == ErrorCode.NONE
    assert producers.check(replace(early, producer_id=5)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class Written(NamedTuple):
    """A batch of a producer, and what the log lacked when it was learnt and since."""

    header: BatchHeader
    marker: EndMarker | None
    lacked: bool
    was_deleted_before: bool = False  # records of the log were deleted after this one was learnt


class KnownProducers:
    """What a log should know of its producers: told from all that they have written since they were last forgotten."""

    def __init__(self, most: Callable[[], int]) -> None:
        self.most = most  # how many more it may remember
        self.written: dict[int, list[Written]] = {}
        self.attempts: dict[int, list[tuple[int, int, bool, int]]] = {}
        """Epoch and first sequence, whether the producer counts from 0, and the time."""
        self.aborted: list[AbortedTransaction] = []
        self.lacks = False

    def of_epoch(self, producer_id: int) -> list[Written]:
        written = self.written[producer_id]
        others = [
            at for at, one in enumerate(written) if one.header.producer_epoch != written[-1].header.producer_epoch
        ]
        return written[others[-1] + 1 :] if others else written

    def data(self, producer_id: int) -> list[BatchHeader]:
        found = [one.header for one in self.of_epoch(producer_id)]
        return [one for one in found if not one.is_control and one.base_sequence >= 0]

    def open_since(self, producer_id: int) -> int | None:
        first = None
        for header, marker, *_ in self.written.get(producer_id, ()):
            if header.is_control:
                first = None if marker is not None else first
            elif header.is_transactional and header.count and first is None:
                first = header.base_offset
        return first

    def stable(self, end: int) -> int:
        return min([first for one in self.written if (first := self.open_since(one)) is not None], default=end)

    def forget(self, producer_ids: Iterable[int]) -> None:
        for producer_id in [one for one in producer_ids if self.open_since(one) is None]:
            del self.written[producer_id]

    def learn(self, header: BatchHeader, marker: EndMarker | None) -> None:
        producer_id = header.producer_id
        if producer_id not in self.written and self.most() < 1:
            first = [*self.written][:3]
            idle = [one for one in first if self.open_since(one) is None]
            self.forget(sorted(idle, key=lambda one: self.written[one][-1].header.last_offset)[:2])
            for one in first:
                if one in self.written:
                    self.written[one] = self.written.pop(one)
        first = self.open_since(producer_id)
        self.written.setdefault(producer_id, []).append(Written(header, marker, self.lacks))
        if header.is_transactional and (attempts := self.attempts.get(producer_id)):
            epoch = max(one[0] for one in attempts)
            if not (header.is_control and attempts[0][2] and epoch == header.producer_epoch):
                del self.attempts[producer_id]
        if first is not None and marker is not None and not marker.commits:
            stable = self.stable(header.next_offset)
            self.aborted.append(AbortedTransaction(producer_id, first, header.last_offset, stable))

    def note_attempt(self, header: BatchHeader, *, begins_at_zero: bool, now_ms: int) -> None:
        if header.producer_id not in self.attempts and len(self.attempts) == 3:
            del self.attempts[next(iter(self.attempts))]
        attempt = header.producer_epoch, header.base_sequence, begins_at_zero, now_ms
        self.attempts.setdefault(header.producer_id, []).append(attempt)

    def note_deletion(self) -> None:
        self.lacks = True
        for written in self.written.values():
            written[:] = [one._replace(was_deleted_before=True) for one in written]

    def may_lack_batches(self, producer_id: int) -> bool:
        if producer_id not in self.written:
            return self.lacks
        of_epoch = self.of_epoch(producer_id)
        first, *_ = of_epoch
        was_new = first is self.written[producer_id][0] and first.header.is_control and first.lacked
        return not self.data(producer_id) and (was_new or any(one.was_deleted_before for one in of_epoch))

    def check(self, header: BatchHeader) -> ErrorCode | int:
        """Return the error, or the offset of the batch that is repeated."""
        producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
        data: list[BatchHeader] = []
        if producer_id in self.written:
            known = self.written[producer_id][-1].header.producer_epoch
            data = self.data(producer_id)
            if epoch < known:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if epoch > known and sequence:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            for one in data[-5:] if epoch == known else ():
                if (one.base_sequence, one.count) == (sequence, header.count):
                    return one.base_offset
        if attempts := self.attempts.get(producer_id):
            is_new = not data and not self.may_lack_batches(producer_id)
            latest = max(one[0] for one in attempts)
            lowest = min(one[1] for one in attempts if one[0] == latest)
            if sequence > (0 if attempts[0][2] and is_new else lowest):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if producer_id not in self.written or epoch > known or self.may_lack_batches(producer_id):
            return ErrorCode.NONE
        after = (data[-1].base_sequence + data[-1].count) % 2**31 if data else 0
        return ErrorCode.NONE if sequence == after else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def check_marker(self, producer_id: int, epoch: int, marker: EndMarker, version: int) -> ErrorCode:
        written = self.written.get(producer_id, [])
        known = written[-1].header.producer_epoch if written else -1
        is_of_next = epoch == known and version >= 2 and self.open_since(producer_id) is not None
        if epoch < known or (is_of_next and epoch != EPOCH_MAX):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        fenced = marker.coordinator_epoch < coordinator_epoch_of(written)
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED if fenced else ErrorCode.NONE


def coordinator_epoch_of(written: list[Written]) -> int:
    return next((one.marker.coordinator_epoch for one in reversed(written) if one.marker is not None), -1)


def compare(producers: Producers, known: KnownProducers, end: int) -> None:
    assert [one for one, _ in producers.items()] == [*known.written]
    for producer_id, producer in producers.items():
        written, data = known.written[producer_id], known.data(producer_id)
        last = written[-1].header
        assert (producer.epoch, producer.last_offset) == (last.producer_epoch, last.last_offset)
        assert producer.last_timestamp == last.max_timestamp
        assert producer.first_open_offset == known.open_since(producer_id)
        assert producer.coordinator_epoch == coordinator_epoch_of(written)
        assert [(one.first_sequence, one.base_offset, one.last_offset, one.timestamp) for one in producer.batches] == [
            (one.base_sequence, one.base_offset, one.last_offset, one.max_timestamp) for one in data[-5:]
        ]
        assert producer.last_sequence == ((data[-1].base_sequence + data[-1].count - 1) % 2**31 if data else -1)
        assert set(producer.last_offsets) == {last.last_offset, *[one.last_offset for one in data[-1:]]}
        assert producers.get(producer_id) is producers[producer_id] is producer
    assert producers._without_batches <= set(known.written), "nothing is kept of those who are forgotten"
    assert producers.aborted == known.aborted
    indexed = [astuple(one) for one in known.aborted if one.last_offset >= end // 2]
    assert [*iter_unpack(">hqqqq", producers.transaction_index(end // 2))] == [(0, *one) for one in indexed]
    assert producers.last_stable_offset(end) == known.stable(end)


@pytest.mark.parametrize("seed", range(25))
def test_what_is_known_of_producers_is_told_from_all_that_they_have_written(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.producers.ATTEMPTS_MAX", 3)
    monkeypatch.setattr("storage.producers._FORGOTTEN_AT_ONCE", 2)
    monkeypatch.setattr("storage.producers._LOOKED_AT", 3)
    dice = Random(seed)
    total = ProducerCount(most=dice.choice((2, 6, 100)))
    pairs: list[tuple[Producers, KnownProducers]] = []

    def count() -> int:
        return sum(len(known.written) for _, known in pairs)

    for _ in range(2):
        pairs.append((Producers(), KnownProducers(lambda: total.most - count())))
        pairs[-1][0].share(total)

    def some_batch(known: KnownProducers, offset: int, now_ms: int) -> BatchHeader:
        """A batch that often follows on what its producer has written."""
        producer_id, epoch, sequence = dice.randrange(8), dice.randrange(3), dice.choice((0, 0, 1, 5, 2**31 - 2))
        if producer_id in known.written and dice.random() < 0.8:
            epoch = known.written[producer_id][-1].header.producer_epoch
            if data := known.data(producer_id):
                one = dice.choice([data[-1], *data])
                sequence = (one.base_sequence + dice.choice((0, one.count, one.count, one.count + 1))) % 2**31
        attributes, records = dice.choice((0, 0x10, 0x10)), dice.randint(1, 3)
        time = max(now_ms + dice.randint(-50, 50), 0)
        return BatchHeader(
            offset, 0, 0, 2, 0, attributes, records - 1, time, time, producer_id, epoch, sequence, records
        )

    for at in range(0, 400, 4):
        producers, known = dice.choice(pairs)
        one = some_batch(known, at, at)
        verdict, expected = producers.check(one), known.check(one)
        assert (verdict.error if verdict.duplicate is None else verdict.duplicate.base_offset) == expected, (at, one)
        ended = EndMarker(dice.random() < 0.5, dice.randrange(3))
        version = dice.choice((0, 1, 2))
        asked = one.producer_id, dice.choice((one.producer_epoch, one.producer_epoch + 1, EPOCH_MAX)), ended, version
        assert producers.check_marker(*asked) == known.check_marker(*asked), (at, asked)
        match dice.choice(("data", "data", "data", "data", "end", "end", "emptied", "attempt", "attempt", "forget")):
            case "data":
                one = replace(one, base_sequence=-1) if dice.random() < 0.1 else one
                one = replace(one, count=0) if dice.random() < 0.1 and one.base_sequence < 0 else one
                producers.learn(one, None)
                known.learn(one, None)
            case "end" | "emptied" as kind:
                is_whole = kind == "end"
                epoch = EPOCH_MAX if dice.random() < 0.05 else one.producer_epoch
                end = replace(one, attributes=0x30, producer_epoch=epoch, last_offset_delta=0, base_sequence=-1)
                end = replace(end, count=int(is_whole))
                producers.learn(end, ended if is_whole else None)
                known.learn(end, ended if is_whole else None)
            case "attempt":
                begins_at_zero = dice.random() < 0.5
                producers.note_attempt(one, begins_at_zero=begins_at_zero, now_ms=at)
                known.note_attempt(one, begins_at_zero=begins_at_zero, now_ms=at)
            case _:
                match dice.choice(("idle", "from", "deletion", "before")):
                    case "idle":
                        before = dice.randint(0, at)
                        producers.forget_idle(before)
                        known.forget(
                            [one for one in known.written if known.written[one][-1].header.max_timestamp < before]
                        )
                        known.attempts = {key: one for key, one in known.attempts.items() if one[0][3] >= before}
                    case "from":
                        producers.forget_from(first := dice.randrange(9))
                        known.forget([one for one in known.written if one >= first])
                    case "deletion":
                        producers.note_deletion()
                        known.note_deletion()
                    case _:
                        producers.forget_before(first := dice.randint(0, at))
                        known.aborted = [one for one in known.aborted if one.last_offset >= first]
        for producers, known in pairs:
            compare(producers, known, at + 4)
        assert total.count == count()
    producers, known = pairs[0]
    producers.share(ProducerCount())
    assert total.count == len(pairs[1][1].written)
