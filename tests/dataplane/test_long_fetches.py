"""A fetch of many partitions is read in steps, while others append, delete topics and leave, and time passes."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.dataplane import fetch as fetch_module
from coordinator.dataplane import pace
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from storage.log import Log
from tests.dataplane.broker import NODES, Broker, batch, call, response_of
from tests.requests import fetch_all, produce

COUNT = 6  # of partitions
SIZE = len(batch("a"))
TICKET = 7


@pytest.fixture(autouse=True, scope="module")
def small_steps() -> Iterator[None]:
    """Three partitions are many, and each is read in a step of its own."""
    with patch.object(fetch_module, "READS_MAX", 3), patch.object(pace, "STEP_WORK", 1):
        yield


class Reader:
    """One client that fetches all partitions, and what others do between two steps of its fetch."""

    def __init__(self, min_bytes: int, max_wait_ms: int, before: Iterable[int] = (), **fields: Any) -> None:
        """`before` are partitions that have a record already when it asks."""
        self.broker = Broker(topics={"t": COUNT, "other": COUNT})
        for partition in range(COUNT):  # so that there are logs
            self.broker.produce("t", partition, batch("z"))
        self.engine, self.plane = self.broker.node.engine, self.broker.plane
        self.min_bytes, self.until_ms = min_bytes, self.broker.real_ms + max_wait_ms
        self.appended = dict.fromkeys(range(COUNT), 0)
        for partition in before:
            self.append(partition)
        request = fetch_all("t", dict.fromkeys(range(COUNT), 1), max_wait_ms=max_wait_ms, min_bytes=min_bytes, **fields)
        self.answer = response_of(self.engine.handle(1, request, call(request, TICKET), NODES))
        self.take()

    def append(self, partition: int) -> None:
        request = produce("t", {partition: batch("a")})
        assert response_of(self.engine.handle(0, request, call(request, 1), NODES)) is not None
        self.appended[partition] += SIZE
        self.engine.flush()

    def step(self, others: AbstractSet[int] = frozenset()) -> None:
        if self.engine.unfinished:
            self.engine.long_requests.step()
            self.engine.flush()
        self.take(others)

    def take(self, others: AbstractSet[int] = frozenset()) -> None:
        for ticket, outcome in self.engine.replies():
            if ticket in others:
                continue
            assert ticket == TICKET and self.answer is None, "it is answered once"
            self.answer = response_of(outcome)

    def settle(self, others: AbstractSet[int] = frozenset()) -> None:
        """Do all that can be done now. `others` are tickets of other requests."""
        self.take(others)
        for _ in range(10_000):
            if not self.engine.unfinished and self.plane.next_poll_ms() != 0:
                return
            self.step(others)
        pytest.fail("it is read again and again")

    @property
    def may_have_enough(self) -> bool:
        """Enough bytes, or as many partitions with records as a response has, which need not be noticed at once."""
        return sum(self.appended.values()) >= self.min_bytes or sum(map(bool, self.appended.values())) >= 3

    def records(self) -> dict[int, int]:
        return {one.partition_index: len(one.records) for one in self.answer.responses[0].partitions}

    def holds_nothing(self) -> bool:
        state = self.plane._state
        return (state.read_bytes, len(state.polls), state.polls._by_partition, state.polls._by_deadline) == (
            0,
            0,
            {},
            {},
        )


@given(st.integers(1, 5), st.sampled_from((0, 300)), st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_it_is_answered_when_there_is_enough_or_its_time_is_up(batches: int, wait_ms: int, dice: Random) -> None:
    reader = Reader(batches * SIZE, wait_ms, [dice.randrange(COUNT) for _ in range(dice.randrange(3))])
    for _ in range(dice.randrange(30)):
        if reader.answer is not None:
            break
        match dice.randrange(7):
            case 6:  # a transaction may have ended: it is read again
                reader.plane._state.polls.wake(("t", dice.randrange(COUNT)))
            case 0:
                reader.append(dice.randrange(COUNT))
            case 1:
                reader.broker.real_ms += dice.choice((1, 50, 500))
            case 2:
                reader.settle()
                ends_ms = reader.plane.next_poll_ms()
                assert (reader.answer is not None) == (ends_ms is None)
                if sum(reader.appended.values()) >= reader.min_bytes:
                    assert reader.answer is not None, "there is enough"
                else:
                    assert reader.answer is not None or ends_ms > reader.broker.real_ms, "it has waited long enough"
            case _:
                reader.step()
    reader.settle()
    if reader.answer is None and dice.random() < 0.5:
        while sum(reader.appended.values()) < reader.min_bytes:
            reader.append(dice.randrange(COUNT))
        reader.settle()
        assert reader.answer is not None, "there is enough"
    if reader.answer is None:
        reader.broker.real_ms += 10_000
        reader.settle()
    told = reader.records()
    assert reader.may_have_enough or reader.broker.real_ms >= reader.until_ms
    assert all(told[index] <= size for index, size in reader.appended.items())
    assert list(told) == list(range(COUNT))
    assert reader.holds_nothing()


@given(st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_nothing_is_kept_for_who_leaves_between_two_steps(dice: Random) -> None:
    reader = Reader(3 * SIZE, 300)
    reader.append(0)
    for _ in range(dice.randrange(12)):
        reader.step()
        reader.append(1) if dice.random() < 0.1 else None
    if reader.answer is None:
        reader.engine.forget(TICKET)
    reader.broker.real_ms += 10_000
    reader.settle()
    assert reader.holds_nothing()


@pytest.mark.parametrize("steps", range(2 * COUNT))
def test_one_whose_topic_is_deleted_between_two_steps_waits_for_nothing(steps: int) -> None:
    reader = Reader(3 * SIZE, 10**6)
    for _ in range(steps):
        reader.step()
    request = DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState("t"),))
    reader.engine.handle(20, request, call(request, 1), NODES)
    reader.settle(others={1})
    errors = {one.error_code for one in reader.answer.responses[0].partitions}
    assert errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert reader.holds_nothing()


def test_records_count_while_the_answer_is_made() -> None:
    """Else many such fetches together would hold more than may be held for clients."""
    reader = Reader(3 * SIZE, 300)
    for partition in range(COUNT):
        reader.append(partition)
    held = set[int]()
    for _ in range(50):
        reader.step()
        held.add(reader.plane._state.read_bytes)
    assert reader.answer is not None
    assert {SIZE, 2 * SIZE, 3 * SIZE} <= held, "each partition that was read"
    assert reader.holds_nothing()


def test_one_that_fails_between_two_steps_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(COUNT * SIZE, 300)
    for partition in range(COUNT):
        reader.append(partition)
    reader.step()

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(Log, "fetch", fail)
    reader.settle()
    assert reader.answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert reader.holds_nothing()


def test_a_session_hears_of_what_has_changed() -> None:
    reader = Reader(1, 0, session_epoch=0)
    reader.settle()
    offsets: dict[int, int] = {}  # those that have changed
    for epoch, news in enumerate(((4, 2), (2, 0), (), (5,)), 1):
        for partition in news:
            reader.append(partition)
        request = fetch_all("t", offsets, session_id=reader.answer.session_id, session_epoch=epoch)
        answer = reader.broker.ask(request)
        told = [one.partition_index for topic in answer.responses for one in topic.partitions]
        assert sorted(told) == sorted(news)
        offsets = {partition: 1 + reader.appended[partition] // SIZE for partition in news}
