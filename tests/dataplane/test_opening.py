"""A log is opened when it is first used after a start, in steps: all of it is read, which takes a second for 200,000
batches."""

from collections import Counter
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.runtime.janitor import Janitor
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from protocol.messages.share_fetch import ShareFetchRequest, ShareFetchRequestPartition, ShareFetchRequestTopic
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestWritableTxnMarker,
    WriteTxnMarkersRequestWritableTxnMarkerTopic,
)
from storage import recovery
from tests.dataplane.broker import NODES, NOW, VERSIONS, Broker, batch, call, response_of
from tests.dataplane.stepping import CALLS, ask_in_steps, note
from tests.requests import delete_records, fetch, list_offsets, produce
from tests.storage.crashing_disk import CrashingDisk

BATCHES: Final = 10
STEP: Final = 3  # batches
MARKER: Final = WriteTxnMarkersRequestWritableTxnMarker(
    7, 0, False, (WriteTxnMarkersRequestWritableTxnMarkerTopic("t", (0,)),)
)
REQUESTS: Final = (
    (0, produce("t", {0: batch("a")})),
    (1, fetch("t")),
    (2, list_offsets("t", {0: -1})),
    (2, list_offsets("t", {0: NOW})),
    (21, delete_records("t", {0: 5})),
    (
        23,
        OffsetForLeaderEpochRequest(
            -1, (OffsetForLeaderEpochRequestTopic("t", (OffsetForLeaderEpochRequestPartition(0, -1, 0),)),)
        ),
    ),
    (27, WriteTxnMarkersRequest((MARKER,))),
    (61, DescribeProducersRequest((DescribeProducersRequestTopic("t", (0,)),))),
)
READS: Final = (fetch("t", max_wait_ms=0), list_offsets("t", {0: -1}), list_offsets("t", {0: NOW}))


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "STEP_BATCHES", STEP)


JOIN: Final = ShareGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=("t",))


def restart_after(*requests: Any) -> Broker:
    """A broker that has just started, with a topic of some batches, and what these requests have led to."""
    disk = CrashingDisk()
    before = Broker(disk, topics={"t": 1})
    for request in requests:
        before.ask(request)
    for _ in range(BATCHES):
        before.produce("t", 0, batch("a"))
    before.node.close()
    return Broker(disk)


@pytest.mark.parametrize(("api_key", "request_"), REQUESTS, ids=[type(one).__name__ for _, one in REQUESTS])
def test_a_log_is_opened_in_steps(api_key: int, request_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broker, again = restart_after(), restart_after()
    assert again.fetch("t").records  # which opens it
    note(monkeypatch, recovery._Reader, "_take")
    response, calls = ask_in_steps(broker, api_key, request_)
    assert response == ask_in_steps(again, api_key, request_)[0]
    assert sum(step["_take"] for step in calls) == BATCHES
    assert max(step["_take"] for step in calls) <= 2 * STEP  # a handler that has begun by itself goes on once


def test_the_end_of_a_transaction_opens_a_log_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = restart_after()
    producer = broker.producer("x")
    topics = (AddPartitionsToTxnRequestTopic("t", (0,)),)
    broker.ask(AddPartitionsToTxnRequest((), "x", *producer, topics), version=3)
    note(monkeypatch, recovery._Reader, "_take")
    monkeypatch.setitem(VERSIONS, EndTxnRequest, 3)
    response, calls = ask_in_steps(broker, 26, EndTxnRequest("x", *producer, True))
    assert response.error_code == ErrorCode.NONE
    while broker.node.engine.unfinished:
        broker.node.engine.long_requests.step()
        calls.append(Counter(CALLS))
        CALLS.clear()
    assert sum(step["_take"] for step in calls) == BATCHES
    assert max(step["_take"] for step in calls) <= 2 * STEP
    assert broker.plane._state.logs.log("t", 0).end_offset == BATCHES + 1


def test_upkeep_opens_a_log_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, counts = restart_after(), list[int]()
    take = recovery._Reader._take
    monkeypatch.setattr(recovery._Reader, "_take", lambda *given: (counts.append(len(steps)), take(*given)))
    steps: list[None] = []
    for _ in Janitor(broker.node, NOW).round(NOW + 10**10):
        steps.append(None)
    assert len(counts) == BATCHES
    assert max(map(counts.count, counts)) == STEP


def test_a_share_group_opens_a_log_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = restart_after(JOIN)
    topic_id = broker.ledger.catalog.topics_by_name["t"].id
    note(monkeypatch, recovery._Reader, "_take")
    asked = ShareFetchRequest("g", "m", 0, topics=(ShareFetchRequestTopic(topic_id, (ShareFetchRequestPartition(0),)),))
    _, calls = ask_in_steps(broker, 78, asked)
    assert sum(step["_take"] for step in calls) == BATCHES
    assert max(step["_take"] for step in calls) <= 2 * STEP


ACTIONS: Final = st.lists(st.sampled_from(["ask", "step", "leave", "delete", "append"]), max_size=12)


@given(ACTIONS)
def test_whatever_happens_meanwhile_nothing_is_left_half_open(actions: list[str]) -> None:
    """Clients that ask for the same log, and leave, and a topic that goes: those that stay hear what is true."""
    broker = restart_after()
    engine, logs, is_there = broker.node.engine, broker.plane._state.logs, True
    asked = dict[int, Any]()
    heard = dict[int, Any]()
    appended = BATCHES
    for ticket, action in enumerate(actions, 100):
        if action == "ask":
            asked[ticket] = READS[ticket % len(READS)]
            key = 1 if asked[ticket] is READS[0] else 2
            answer = response_of(engine.handle(key, asked[ticket], call(asked[ticket], ticket), NODES))
            heard |= {} if answer is None else {ticket: answer}
        elif action == "step" and engine.unfinished:
            engine.long_requests.step()
        elif action == "leave" and asked:
            engine.forget(left := next(reversed(asked)))
            del asked[left]
            heard.pop(left, None)
        elif action == "append" and is_there:  # by a way that opens it at once
            log = logs.log("t", 0)
            logs.append(("t", 0), log, batch("b"), NOW, NOW)
            appended += 1
        elif action == "delete" and is_there:
            request = DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState("t"),))
            engine.handle(20, request, call(request, 99), NODES)
            is_there = False
        heard |= {ticket: response_of(outcome) for ticket, outcome in engine.replies() if ticket in asked}
    while engine.unfinished:
        engine.long_requests.step()
        engine.flush()
        heard |= {ticket: response_of(outcome) for ticket, outcome in engine.replies() if ticket in asked}
    assert heard.keys() == asked.keys()
    assert not logs._opening
    assert not logs.closed_partitions
    assert is_there or all(topic != "t" for (topic, _), _ in logs.open_logs())
    for ticket, response in heard.items():
        topic = (response.responses if asked[ticket] is READS[0] else response.topics)[0]
        (one,) = topic.partitions
        assert one.error_code in ({0} if is_there else {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        if asked[ticket] is READS[1] and not one.error_code:
            assert BATCHES <= one.offset <= appended
    if is_there:
        assert logs.log("t", 0).end_offset == appended
