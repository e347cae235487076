"""Sequences, epochs and transactions of producers, learnt from batches."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from protocol.errors import ErrorCode
from protocol.record_batch import BatchHeader, encode, encode_marker, header_at
from protocol.records import EndMarker, Record
from storage.log import Log
from storage.producers import ATTEMPTS_MAX, SEQUENCE_MAX, AbortedTransaction, Producer, ProducerCount, Producers
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
    """Those with an open transaction stay, and so does the latest, wherever the others are."""
    total = ProducerCount(most=40)
    one, two = Producers(), Producers()
    learn(one, 0, 0, attributes=0x10)
    one.share(total)
    two.share(total)
    for producer_id in range(1, 200):
        learn(one if producer_id % 2 else two, producer_id, producer_id)
        assert total.count == len(one.items()) + len(two.items()) <= 42
    assert 0 in one and 199 in one and 198 in two and 2 not in two
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
