"""Requests over many partitions are decided in steps: what one of them does is bounded, whatever is asked for.

The work of a step is counted in what it does, not in time.
"""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.dataplane import dataplane
from coordinator.dataplane.fetch import READS_MAX
from coordinator.dataplane.pace import OPEN_WORK, STEP_WORK
from coordinator.dataplane.topic_logs import TopicLogs
from protocol.errors import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsRequestPartition, ListOffsetsRequestTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from storage.log import Log
from tests.dataplane.broker import NODES, NOW, Broker, batch, call, fetch_request
from tests.storage.crashing_disk import CrashingDisk

PARTITIONS = 1_000
EACH = range(PARTITIONS)


def ask_in_steps(broker: Broker, api_key: int, request: Any) -> tuple[Any, list[Counter[str]]]:
    """Return the response to a request, and how often each noted method was called in each of its steps."""
    calls: list[Counter[str]] = [Counter()]
    CALLS.clear()
    response = broker.node.handle(api_key, request, call(request), NODES)
    while True:
        calls[-1].update(CALLS)
        CALLS.clear()
        if response is not None or not broker.node.has_steps:
            return response, calls
        calls.append(Counter())
        broker.node.step()
        broker.node.flush()
        response = next((answer for _, answer in broker.node.replies()), None)


CALLS = Counter[str]()  # of the noted methods


def note(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
    """Count the calls of a method."""
    method: Callable[..., Any] = getattr(owner, name)

    def noting(*args: Any, **named: Any) -> Any:
        CALLS[name] += 1
        return method(*args, **named)

    monkeypatch.setattr(owner, name, noting)


def written(disk: CrashingDisk | None = None) -> Broker:
    """A broker with a topic of many partitions, each with a record."""
    broker = Broker(disk, topics={"t": PARTITIONS})
    answer = broker.ask(produce_request(*EACH))
    assert {one.error_code for one in answer.responses[0].partition_responses} == {0}
    return broker


def produce_request(*partitions: int) -> ProduceRequest:
    data = tuple([ProduceRequestPartitionData(index, batch("a")) for index in partitions])
    return ProduceRequest(None, -1, 1000, (ProduceRequestTopicData("t", partition_data=data),))


def fetch_of_all(**fields: Any) -> FetchRequest:
    asked = tuple([FetchRequestPartition(index, partition_max_bytes=1 << 20) for index in EACH])
    return FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, "topics": (FetchRequestTopic("t", partitions=asked),), **fields}
    )


def test_a_produce_makes_a_log_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(topics={"t": 50})
    note(monkeypatch, Log, "_begin")
    response, calls = ask_in_steps(broker, 0, produce_request(*range(50)))
    assert [one.base_offset for one in response.responses[0].partition_responses] == [0] * 50
    assert sum(step["_begin"] for step in calls) == 50
    assert max(step["_begin"] for step in calls) == 1


def test_records_of_a_partition_are_deleted_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = written()
    note(monkeypatch, Log, "delete_before")
    asked = tuple([DeleteRecordsRequestPartition(index, -1) for index in EACH])
    response, calls = ask_in_steps(broker, 21, DeleteRecordsRequest((DeleteRecordsRequestTopic("t", asked),)))
    assert [(one.partition_index, one.low_watermark) for one in response.topics[0].partitions] == [(n, 1) for n in EACH]
    assert sum(step["delete_before"] for step in calls) == PARTITIONS
    assert max(step["delete_before"] for step in calls) == 1


@pytest.mark.parametrize("timestamp", [0, NOW, -3])
def test_offsets_by_time_are_looked_up_in_steps(timestamp: int, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = written()
    note(monkeypatch, Log, "offset_for_time")
    asked = tuple([ListOffsetsRequestPartition(index, timestamp=timestamp) for index in EACH])
    response, calls = ask_in_steps(broker, 2, ListOffsetsRequest(-1, topics=(ListOffsetsRequestTopic("t", asked),)))
    assert {(one.offset, one.timestamp) for one in response.topics[0].partitions} == {(0, NOW)}
    assert [one.partition_index for one in response.topics[0].partitions] == list(EACH)
    assert sum(step["offset_for_time"] for step in calls) == PARTITIONS
    assert max(step["offset_for_time"] for step in calls) <= 25


REQUESTS = (
    (2, ListOffsetsRequest(-1, topics=(ListOffsetsRequestTopic("t", tuple(map(ListOffsetsRequestPartition, EACH))),))),
    (1, fetch_of_all()),
    (
        23,
        OffsetForLeaderEpochRequest(
            -1,
            (
                OffsetForLeaderEpochRequestTopic(
                    "t", tuple([OffsetForLeaderEpochRequestPartition(index, -1, 0) for index in EACH])
                ),
            ),
        ),
    ),
    (61, DescribeProducersRequest((DescribeProducersRequestTopic("t", tuple(EACH)),))),
    (0, produce_request(*EACH)),
)


@pytest.mark.parametrize(("api_key", "request_"), REQUESTS, ids=[type(one).__name__ for _, one in REQUESTS])
def test_logs_are_opened_in_steps(api_key: int, request_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a start all of them are closed."""
    disk = CrashingDisk()
    written(disk).node.close()
    broker = Broker(disk)
    note(monkeypatch, Log, "open")
    _, calls = ask_in_steps(broker, api_key, request_)
    assert sum(step["open"] for step in calls) == PARTITIONS
    assert max(step["open"] for step in calls) <= STEP_WORK // OPEN_WORK + 1


@pytest.mark.parametrize(("api_key", "request_"), REQUESTS[:4], ids=[type(one).__name__ for _, one in REQUESTS[:4]])
def test_partitions_are_looked_up_in_steps(api_key: int, request_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = written()
    note(monkeypatch, TopicLogs, "is_whole")
    response, calls = ask_in_steps(broker, api_key, request_)
    assert len(calls) > 2
    if api_key != 1:  # what a Fetch reads is bounded in another way
        assert max(step["is_whole"] for step in calls) <= STEP_WORK
    topic = response.responses[0] if api_key == 1 else response.topics[0]
    assert [getattr(one, "partition_index", getattr(one, "partition", None)) for one in topic.partitions] == list(EACH)
    assert {one.error_code for one in topic.partitions} == {ErrorCode.NONE}


# -- Fetch -----------------------------------------------------------------------------------------------------------------


def test_a_fetch_reads_so_many_partitions_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = written()
    note(monkeypatch, Log, "read")
    response, calls = ask_in_steps(broker, 1, fetch_of_all())
    found = [bool(one.records) for one in response.responses[0].partitions]
    assert found == [True] * READS_MAX + [False] * (PARTITIONS - READS_MAX)
    assert max(step["read"] for step in calls) == READS_MAX


def test_a_response_holds_four_mebibytes() -> None:
    """Memory is made, filled and sent at once: 46 MiB of it for a response of 15 took a machine 180 ms."""
    broker = Broker(topics={"t": 2})
    size = len(batch("a" * 900_000))
    for partition in (0, 1):
        for _ in range(6):
            broker.produce("t", partition, batch("a" * 900_000))
    asked = tuple([FetchRequestPartition(index, partition_max_bytes=1 << 30) for index in (0, 1)])
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 30, topics=(FetchRequestTopic("t", partitions=asked),)
    )
    assert [len(one.records) for one in broker.ask(request).responses[0].partitions] == [4 * size, 0]


@pytest.mark.parametrize("min_bytes", [4_194_304, 1 << 30])
def test_a_full_response_waits_for_no_more(min_bytes: int) -> None:
    broker = Broker(topics={"t": 1})
    request = fetch_request("t", max_wait_ms=500, min_bytes=min_bytes, max_bytes=1 << 30, partition_max_bytes=1 << 30)
    for _ in range(2):
        broker.produce("t", 0, batch("a" * 900_000))
    assert broker.ask(request, ticket=5) is None
    for _ in range(4):
        broker.produce("t", 0, batch("a" * 900_000))
    ((ticket, response),) = broker.replies()
    assert ticket == 5
    assert len(response.responses[0].partitions[0].records) == 4 * len(batch("a" * 900_000))


def test_fetches_that_one_append_wakes_are_answered_over_some_turns() -> None:
    broker = Broker(topics={"t": 1})
    tickets = list(range(10, 40))
    for ticket in tickets:
        assert broker.fetch("t", ticket=ticket, max_wait_ms=500, max_bytes=1 << 30) is None
    broker.produce("t", 0, batch("a" * 900_000))
    answered: list[int] = []
    for _ in tickets:
        assert broker.node.next_poll_ms() == 0 or len(answered) == len(tickets)
        some = [ticket for ticket, _ in broker.node.replies()]
        broker.node.flush()
        assert len(some) <= dataplane.REPLIES_BYTES // 900_000 + 1
        answered += some
    assert answered == tickets


def test_fetches_whose_wait_is_over_are_answered_over_some_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataplane, "REPLIES_WORK", 10 * (dataplane.FETCH_WORK + 1))
    broker = Broker(topics={"t": 1})
    tickets = list(range(10, 40))
    for ticket in tickets:
        assert broker.fetch("t", ticket=ticket, max_wait_ms=500) is None
    broker.real_ms = 1_000
    answered = [[ticket for ticket, _ in broker.node.replies()] for _ in range(4)]
    assert [len(some) for some in answered] == [10, 10, 10, 0]
    assert sorted(itertools.chain(*answered)) == tickets
