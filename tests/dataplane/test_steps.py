"""Requests over many partitions are decided in steps: what one of them does is bounded, whatever is asked for.

The work of a step is counted in what it does, not in time.
"""

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.core.catalog import create_topics as create_topics_module
from coordinator.core.catalog.describe_configs import STEP_RESOURCES
from coordinator.core.decision import PARKED
from coordinator.core.result import STEP_ENTRIES
from coordinator.dataplane import dataplane, metadata
from coordinator.dataplane.fetch import READS_MAX
from coordinator.dataplane.metadata import STEP_PARTITIONS
from coordinator.dataplane.pace import APPEND_WORK, OPEN_WORK, READ_WORK, STEP_WORK
from coordinator.dataplane.state import State
from coordinator.dataplane.topic_logs import TopicLogs
from coordinator.runtime.ledger import Ledger
from protocol.errors import ErrorCode
from protocol.messages import alter_configs, incremental_alter_configs
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from protocol.messages.produce import ProduceRequest
from protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestWritableTxnMarker,
    WriteTxnMarkersRequestWritableTxnMarkerTopic,
)
from storage import layout, removal
from storage.log import DELETED_AT_ONCE, Log
from tests.dataplane.broker import NODES, NOW, Broker, batch, call
from tests.dataplane.stepping import CALLS, ask_in_steps, note
from tests.requests import create_topics, delete_records, fetch, fetch_all, list_offsets, produce
from tests.storage.crashing_disk import CrashingDisk

PARTITIONS = 1_000
EACH = range(PARTITIONS)


def fill_partitions(disk: CrashingDisk | None = None) -> Broker:
    """Start a broker with a topic of many partitions, each with a record."""
    broker = Broker(disk, topics={"t": PARTITIONS})
    answer = broker.ask(produce_request(*EACH))
    assert {one.error_code for one in answer.responses[0].partition_responses} == {0}
    return broker


def produce_request(*partitions: int) -> ProduceRequest:
    return produce("t", dict.fromkeys(partitions, batch("a")))


def test_a_produce_makes_a_log_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(topics={"t": 50})
    note(monkeypatch, Log, "_begin")
    response, calls = ask_in_steps(broker, 0, produce_request(*range(50)))
    assert [one.base_offset for one in response.responses[0].partition_responses] == [0] * 50
    assert sum(step["_begin"] for step in calls) == 50
    assert max(step["_begin"] for step in calls) == 1


def test_an_administrators_markers_are_written_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = fill_partitions()
    note(monkeypatch, Log, "append")
    topic = WriteTxnMarkersRequestWritableTxnMarkerTopic("t", tuple(EACH))
    markers = (WriteTxnMarkersRequestWritableTxnMarker(7, 0, False, (topic,)),)
    response, calls = ask_in_steps(broker, 27, WriteTxnMarkersRequest(markers))
    partitions = response.markers[0].topics[0].partitions
    assert [(one.partition_index, one.error_code) for one in partitions] == [(index, 0) for index in EACH]
    assert sum(step["append"] for step in calls) == PARTITIONS
    assert max(step["append"] for step in calls) <= STEP_WORK // APPEND_WORK


def test_topics_that_metadata_creates_are_created_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    names = [f"t{number}" for number in range(3 * STEP_ENTRIES)]
    note(monkeypatch, create_topics_module, "_facts")
    request = MetadataRequest(tuple([MetadataRequestTopic(name=name) for name in names]))
    response, calls = ask_in_steps(broker, 3, request)
    assert [(one.name, one.error_code, len(one.partitions)) for one in response.topics] == [(n, 0, 1) for n in names]
    assert max(step["_facts"] for step in calls) == STEP_ENTRIES


def test_many_partitions_are_described_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "AT_ONCE_PARTITIONS", STEP_PARTITIONS)
    broker = Broker(topics={f"t{number}": STEP_PARTITIONS // 2 for number in range(8)} | {"small": 1})
    note(monkeypatch, State, "replicas")
    response, calls = ask_in_steps(broker, 3, MetadataRequest(None))
    assert sum(len(one.partitions) for one in response.topics) == 4 * STEP_PARTITIONS + 1 + 4
    assert max(step["replicas"] for step in calls) <= 2 * STEP_PARTITIONS
    few = MetadataRequest((MetadataRequestTopic(name="small"),))
    assert len(ask_in_steps(broker, 3, few)[1]) == 1, "at once"
    by_id = tuple([MetadataRequestTopic(one.topic_id, None) for one in response.topics])
    again, calls = ask_in_steps(broker, 3, MetadataRequest(by_id))
    assert again == response
    assert len(calls) > 2


def test_a_topic_that_goes_while_all_are_described_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "AT_ONCE_PARTITIONS", STEP_PARTITIONS)
    broker = Broker(topics={f"t{number}": STEP_PARTITIONS for number in range(4)})
    request = MetadataRequest(None)
    assert broker.node.engine.handle(3, request, call(request, ticket=9), NODES) is PARKED
    broker.delete("t3")
    ((_, response),) = [reply for reply in broker.replies() if reply[0] == 9]
    assert {one.name for one in response.topics} == {"__consumer_offsets", "t0", "t1", "t2"}


def test_records_of_a_partition_are_deleted_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = fill_partitions()
    note(monkeypatch, Log, "delete_before")
    response, calls = ask_in_steps(broker, 21, delete_records("t", dict.fromkeys(EACH, -1)))
    assert [(one.partition_index, one.low_watermark) for one in response.topics[0].partitions] == [(n, 1) for n in EACH]
    assert sum(step["delete_before"] for step in calls) == PARTITIONS
    assert max(step["delete_before"] for step in calls) == 1


@pytest.mark.parametrize("by", ["DeleteRecords", "retention"])
def test_segments_of_one_log_are_deleted_in_steps(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    broker.create("s", segment_ms="1")
    for number in range(2 * DELETED_AT_ONCE + 20):
        broker.produce("s", 0, batch("a", at_ms=NOW + 10 * number))
    note(monkeypatch, layout, "remove_if_possible")
    if by == "DeleteRecords":
        response, calls = ask_in_steps(broker, 21, delete_records("s", {0: -1}))
        assert response.topics[0].partitions[0].low_watermark == 2 * DELETED_AT_ONCE + 20
    else:
        calls = [Counter(CALLS)]
        for _ in broker.plane.tend(NOW + 10**10):
            calls.append(Counter(CALLS))
            CALLS.clear()
    suffixes = len(layout.INDEXES) + 1
    assert sum(step["remove_if_possible"] for step in calls) == suffixes * (2 * DELETED_AT_ONCE + 20)
    assert max(step["remove_if_possible"] for step in calls) == suffixes * DELETED_AT_ONCE
    names = [name for name in broker.files.list("data/s-0") if name.endswith(".log")]
    assert len(names) == 1


@pytest.mark.parametrize(
    ("timestamp", "look_up"), [(0, "offset_for_time"), (NOW, "offset_for_time"), (-3, "latest_time")]
)
def test_offsets_by_time_are_looked_up_in_steps(timestamp: int, look_up: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = fill_partitions()
    note(monkeypatch, Log, look_up)
    response, calls = ask_in_steps(broker, 2, list_offsets("t", dict.fromkeys(EACH, timestamp)))
    assert {(one.offset, one.timestamp) for one in response.topics[0].partitions} == {(0, NOW)}
    assert [one.partition_index for one in response.topics[0].partitions] == list(EACH)
    assert sum(step[look_up] for step in calls) == PARTITIONS
    assert max(step[look_up] for step in calls) <= 25


FETCH_ALL = fetch_all("t", dict.fromkeys(EACH, 0))
REQUESTS = (
    (2, list_offsets("t", dict.fromkeys(EACH, 0))),
    (1, FETCH_ALL),
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
    fill_partitions(disk).node.close()
    broker = Broker(disk)
    note(monkeypatch, Log, "open_in_steps")
    _, calls = ask_in_steps(broker, api_key, request_)
    assert sum(step["open_in_steps"] for step in calls) == PARTITIONS
    assert max(step["open_in_steps"] for step in calls) <= STEP_WORK // OPEN_WORK + 1


def test_producers_of_one_partition_are_described_in_steps() -> None:
    broker = Broker(topics={"t": 1})
    for producer_id in range(2 * STEP_WORK):
        written = batch("a", producer_id=producer_id, producer_epoch=0, base_sequence=0)
        broker.ask(produce("t", {0: written}))
    request = DescribeProducersRequest((DescribeProducersRequestTopic("t", (0,)),))
    response, steps = ask_in_steps(broker, 61, request)
    assert len(response.topics[0].partitions[0].active_producers) == 2 * STEP_WORK
    assert len(steps) == 3


@pytest.mark.parametrize(("api_key", "request_"), REQUESTS[:4], ids=[type(one).__name__ for _, one in REQUESTS[:4]])
def test_partitions_are_looked_up_in_steps(api_key: int, request_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = fill_partitions()
    note(monkeypatch, TopicLogs, "try_open")
    response, calls = ask_in_steps(broker, api_key, request_)
    assert len(calls) > 2
    if api_key != 1:  # what a Fetch reads is bounded in another way
        assert max(step["try_open"] for step in calls) <= STEP_WORK
    topic = response.responses[0] if api_key == 1 else response.topics[0]
    assert [getattr(one, "partition_index", getattr(one, "partition", None)) for one in topic.partitions] == list(EACH)
    assert {one.error_code for one in topic.partitions} == {ErrorCode.NONE}


# -- Fetch -----------------------------------------------------------------------------------------------------------------


def test_a_fetch_reads_so_many_partitions_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = fill_partitions()
    note(monkeypatch, Log, "fetch")
    response, calls = ask_in_steps(broker, 1, FETCH_ALL)
    found = [bool(one.records) for one in response.responses[0].partitions]
    assert found == [True] * READS_MAX + [False] * (PARTITIONS - READS_MAX)
    assert max(step["fetch"] for step in calls) == STEP_WORK // READ_WORK


def test_a_response_holds_four_mebibytes() -> None:
    """Memory is made, filled and sent at once: 46 MiB of it for a response of 15 took a machine 180 ms."""
    broker = Broker(topics={"t": 2})
    size = len(batch("a" * 900_000))
    for partition in (0, 1):
        for _ in range(6):
            broker.produce("t", partition, batch("a" * 900_000))
    request = fetch_all("t", {0: 0, 1: 0}, max_bytes=1 << 30, partition_max_bytes=1 << 30)
    assert [len(one.records) for one in broker.ask(request).responses[0].partitions] == [4 * size, 0]


@pytest.mark.parametrize("min_bytes", [4_194_304, 1 << 30])
def test_a_full_response_waits_for_no_more(min_bytes: int) -> None:
    broker = Broker(topics={"t": 1})
    request = fetch("t", max_wait_ms=500, min_bytes=min_bytes, max_bytes=1 << 30, partition_max_bytes=1 << 30)
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
        assert broker.node.engine.next_poll_ms() == 0 or len(answered) == len(tickets)
        some = [ticket for ticket, _ in broker.node.engine.replies()]
        broker.node.engine.flush()
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
    answered = [[ticket for ticket, _ in broker.node.engine.replies()] for _ in range(4)]
    assert [len(some) for some in answered] == [10, 10, 10, 0]
    assert sorted(itertools.chain(*answered)) == tickets


# -- topics and settings ---------------------------------------------------------------------------------------------------

NAMES = tuple([f"n{number}" for number in range(1_000)])


def broker_of_topics() -> Broker:
    return Broker(topics=dict.fromkeys(NAMES, 1))


def records_a_step(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records of the catalog each step has written, which others have read by then."""
    found: list[int] = []
    write = Ledger.record

    def noting(ledger: Ledger, result: Any, now_ms: int) -> Any:
        found.append(len(result.records))
        return write(ledger, result, now_ms)

    monkeypatch.setattr(Ledger, "record", noting)
    return found


def test_topics_are_created_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, found = Broker(topics={"t": 1}), records_a_step(monkeypatch)
    asked = tuple([CreateTopicsRequestCreatableTopic(name, 1, 1) for name in (*NAMES, "t", "n1", "twice", "twice")])
    response, calls = ask_in_steps(broker, 19, CreateTopicsRequest(asked))
    codes = {one.name: one.error_code for one in response.topics}
    assert len(response.topics) == len(codes) == len(NAMES) + 2
    assert codes.pop("t") == ErrorCode.TOPIC_ALREADY_EXISTS
    assert codes.pop("n1") == codes.pop("twice") == ErrorCode.INVALID_REQUEST
    assert set(codes.values()) == {ErrorCode.NONE}
    assert len(broker.ledger.catalog.topics_by_name.keys() & set(NAMES)) == len(NAMES) - 1
    assert max(found) == STEP_ENTRIES
    assert len(calls) == len(NAMES) // STEP_ENTRIES


def test_to_validate_topics_in_steps_creates_none_and_counts_all() -> None:
    """The 1,000 topics are one more than there is room for."""
    broker = Broker(topics={"t": 1})
    catalog = broker.ledger.catalog
    catalog.settings = replace(catalog.settings, partitions_max=catalog.partitions + len(NAMES) - 1)
    for is_done in (False, True):
        request = create_topics(dict.fromkeys(NAMES, 1), validate_only=not is_done)
        response, _ = ask_in_steps(broker, 19, request)
        assert [one.error_code for one in response.topics] == [0] * (len(NAMES) - 1) + [ErrorCode.POLICY_VIOLATION]
        assert ("n0" in broker.ledger.catalog.topics_by_name) == is_done


def test_topics_grow_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, found = broker_of_topics(), records_a_step(monkeypatch)
    asked = tuple([CreatePartitionsRequestTopic(name, 3, None) for name in (*NAMES, "missing")])
    response, _ = ask_in_steps(broker, 37, CreatePartitionsRequest(asked))
    assert [one.error_code for one in response.results] == [0] * len(NAMES) + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert {broker.ledger.catalog.topics_by_name[name].partitions for name in NAMES} == {3}
    assert max(found) == STEP_ENTRIES


@pytest.mark.parametrize("api_key", [33, 44])
def test_settings_are_altered_in_steps(api_key: int, monkeypatch: pytest.MonkeyPatch) -> None:
    broker, found = broker_of_topics(), records_a_step(monkeypatch)
    request: Any
    if api_key == 33:
        set_ = (alter_configs.AlterConfigsRequestAlterableConfig("retention.ms", "7"),)
        entries = [alter_configs.AlterConfigsRequestResource(2, name, set_) for name in (*NAMES, "missing")]
        request = alter_configs.AlterConfigsRequest(tuple(entries))
    else:
        change = (incremental_alter_configs.IncrementalAlterConfigsRequestAlterableConfig("retention.ms", 0, "7"),)
        resource = incremental_alter_configs.IncrementalAlterConfigsRequestResource
        changed = tuple([resource(2, name, change) for name in (*NAMES, "missing")])
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(changed)
    response, _ = ask_in_steps(broker, api_key, request)
    assert [one.error_code for one in response.responses] == [0] * len(NAMES) + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert {broker.ledger.catalog.setting(name, "retention.ms") for name in NAMES} == {"7"}
    assert max(found) == STEP_ENTRIES


THROTTLED = "leader.replication.throttled.replicas"


def incremental(operation: int, values: Mapping[str, str], setting: str = THROTTLED) -> Any:
    entries = [
        incremental_alter_configs.IncrementalAlterConfigsRequestResource(
            2,
            name,
            (incremental_alter_configs.IncrementalAlterConfigsRequestAlterableConfig(setting, operation, value),),
        )
        for name, value in values.items()
    ]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(tuple(entries))


def test_long_lists_are_altered_in_steps_of_their_own() -> None:
    """A step is over by the words that it looks at, not by the resources that they belong to."""
    broker = Broker(topics=dict.fromkeys(NAMES[:20], 1))
    long = ",".join([f"{number}:1" for number in range(4_000)])
    response, calls = ask_in_steps(broker, 44, incremental(0, dict.fromkeys(NAMES[:20], long)))
    assert {one.error_code for one in response.responses} == {0}
    assert len(calls) >= 10
    response, calls = ask_in_steps(broker, 44, incremental(2, dict.fromkeys(NAMES[:20], "1:1,9999:1," + long)))
    assert {one.error_code for one in response.responses} == {0}
    assert len(calls) >= 20
    assert broker.ledger.catalog.setting(NAMES[0], THROTTLED) == f"{long},9999:1"


def test_a_value_that_no_record_can_hold_is_refused_for_itself() -> None:
    """APPEND makes it of two that each could be sent. The resources beside it, before and after, are changed."""
    broker = Broker(topics=dict.fromkeys(NAMES[:251], 1))
    first = ",".join([f"{number}:1" for number in range(4_000)])
    more = ",".join([f"{number}:2" for number in range(4_000)])
    assert broker.ask(incremental(0, {NAMES[1]: first})).responses[0].error_code == 0
    values = dict.fromkeys(NAMES[:251], "1:1") | {NAMES[1]: more}
    response, _ = ask_in_steps(broker, 44, incremental(2, values))
    errors = {one.resource_name: one.error_code for one in response.responses}
    assert errors == dict.fromkeys(NAMES[:251], 0) | {NAMES[1]: ErrorCode.INVALID_CONFIG}
    (refused,) = [one for one in response.responses if one.error_code]
    assert "bytes, of at most 32767" in refused.error_message
    assert broker.ledger.catalog.setting(NAMES[1], THROTTLED) == first
    assert broker.ledger.catalog.setting(NAMES[250], THROTTLED) == "1:1"


def test_settings_are_described_in_steps() -> None:
    broker = broker_of_topics()
    asked = tuple([DescribeConfigsRequestResource(2, name, None) for name in NAMES])
    response, calls = ask_in_steps(broker, 32, DescribeConfigsRequest(asked))
    assert [one.resource_name for one in response.results] == list(NAMES)
    assert len(calls) == len(NAMES) // STEP_RESOURCES + 1


def test_topics_are_deleted_in_steps_and_so_are_their_files(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = CrashingDisk()
    broker = fill_partitions(disk)
    broker.create("u", partitions=150)
    broker.create("v", partitions=150)
    note(monkeypatch, removal, "_remove_in_steps")
    asked = tuple(map(DeleteTopicsRequestDeleteTopicState, ("t", "u", "v", "missing")))
    response, calls = ask_in_steps(broker, 20, DeleteTopicsRequest(asked))
    assert [one.error_code for one in response.responses] == [0, 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert not broker.ledger.catalog.topics_by_name.keys() & {"t", "u", "v"}
    assert len(calls) >= 2
    broker.create("t", partitions=PARTITIONS)
    assert broker.fetch("t").high_watermark == 0, "it is another topic, though files of the old one are there"
    left = []
    while broker.node.engine.unfinished:
        CALLS.clear()
        broker.node.engine.long_requests.step()
        left.append(CALLS["_remove_in_steps"])
    assert max([step["_remove_in_steps"] for step in calls] + left) == 1
    assert not [name for name in disk.list("data") if name.startswith("muster.deleted")]


def test_topics_are_deleted_without_a_look_at_all_that_the_data_directory_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have a directory for each of 200,000 partitions: to look at them took half a second for each topic."""
    disk, looks = CrashingDisk(), list[str]()
    broker = Broker(disk, topics=dict.fromkeys("tuvw", 2))
    for name in "tuv":
        broker.produce(name, 0, batch("a"))
    broker.delete("t")
    see = CrashingDisk.list
    monkeypatch.setattr(
        CrashingDisk, "list", lambda disk, directory: (looks.append(directory), see(disk, directory))[1]
    )
    broker.produce("u", 1, batch("a"))  # directories that were made since
    broker.produce("w", 1, batch("a"))
    for name in "uvw":
        broker.delete(name)
    assert "data" not in looks
    left = {name for name in see(disk, "data") if name[:2] in ("t-", "u-", "v-", "w-")}
    assert not left
    broker.create("u", 2)
    assert [broker.fetch("u", index).high_watermark for index in (0, 1)] == [0, 0]
