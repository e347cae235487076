"""Sequences, epochs and transactions of producers, learnt from batches."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from protocol.record_batch import BatchHeader, encode, encode_marker, header_at
from protocol.records import EndMarker, Record
from storage.log import Log
from storage.producers import SEQUENCE_MAX, Producers
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
    aborted = log.collect_aborted(0, 100)
    assert [(a.producer_id, a.first_offset, a.last_offset, a.last_stable_offset) for a in aborted] == [(ID, 1, 4, 5)]
    assert log.collect_aborted(4, 5) == aborted
    assert log.collect_aborted(0, 2) == aborted
    assert log.collect_aborted(0, 1) == []
    assert log.collect_aborted(5, 9) == []
    log.delete_before(5)
    assert log.collect_aborted(0, 100) == []


def test_an_epoch_bumped_by_the_marker_ends_the_transaction_of_the_one_before(reopened: bool) -> None:
    log = log_of([batch(0, epoch=2, transactional=True), marker(commits=False, epoch=3)], reopened)
    assert log.last_stable_offset == log.end_offset
    assert [a.first_offset for a in log.collect_aborted(0, 9)] == [0]


def test_idle_producers_are_forgotten_but_not_in_a_transaction() -> None:
    log = log_of([batch(0), batch(0, transactional=True, producer_id=8)], False)
    log.producers.forget_idle(before_ms=1000)
    assert [producer_id for producer_id, _ in log.producers.items()] == [ID, 8]
    log.producers.forget_idle(before_ms=1001)
    assert [producer_id for producer_id, _ in log.producers.items()] == [8]
