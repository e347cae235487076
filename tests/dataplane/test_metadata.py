"""Which topics and brokers clients are told of."""

from typing import Any

import pytest

from coordinator.core.catalog.records import CatalogRecord, TopicKey, TopicValue
from coordinator.core.result import Result
from coordinator.dataplane.brokers import Broker as Node
from coordinator.dataplane.brokers import Where
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopic,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.dataplane.broker import NOW, Broker, call


@pytest.fixture
def broker() -> Broker:
    broker = Broker(num_partitions=3)
    broker.create("t", partitions=2)
    return broker


def ask(broker: Broker, *names: str, version: int = 13, **fields: Any) -> dict[str | None, Any]:
    topics = tuple(MetadataRequestTopic(name=name) for name in names)
    answer = broker.ask(MetadataRequest(topics, **fields), version=version)
    return {topic.name: topic for topic in answer.topics}


def test_a_topic_and_its_leader(broker: Broker) -> None:
    topic = ask(broker, "t")["t"]
    assert (topic.error_code, topic.topic_id) == (0, broker.ledger.catalog.topics_by_name["t"].id)
    assert [(p.partition_index, p.leader_id, p.leader_epoch, p.isr_nodes) for p in topic.partitions] == [
        (0, 0, 0, (0,)),
        (1, 0, 0, (0,)),
    ]


def test_all_topics_are_asked_for_by_null_and_in_version_0_by_none(broker: Broker) -> None:
    assert [t.name for t in broker.ask(MetadataRequest(None)).topics] == ["__consumer_offsets", "t"]
    assert [t.name for t in broker.ask(MetadataRequest(()), version=0).topics] == ["__consumer_offsets", "t"]
    assert broker.ask(MetadataRequest(()), version=1).topics == ()


def test_a_missing_topic_is_created_when_a_client_asks_for_it(broker: Broker) -> None:
    topic = ask(broker, "new", "t", "new")["new"]
    assert (topic.error_code, len(topic.partitions)) == (0, 3)
    assert topic.topic_id not in (bytes(16), broker.ledger.catalog.topics_by_name["t"].id)
    again = Broker(broker.files.copy(), num_partitions=3)
    assert ask(again, "new")["new"] == topic


@pytest.mark.parametrize("version", [4, 13])
def test_but_not_when_it_asks_not_to(broker: Broker, version: int) -> None:
    topic = ask(broker, "new", version=version, allow_auto_topic_creation=False)["new"]
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "new" not in broker.ledger.catalog.topics_by_name


def test_nor_when_the_server_does_not() -> None:
    broker = Broker(auto_create_topics_enable=False)
    assert ask(broker, "new")["new"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../t", "a\0b", "é", "a" * 250, "a b"])
def test_what_is_no_name_is_not_created(broker: Broker, name: str) -> None:
    before = broker.files.contents()
    assert ask(broker, name)[name].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert broker.files.contents() == before


@pytest.mark.parametrize("name", ["__muster_catalog", "__cluster_metadata", "__transaction_state"])
def test_reserved_names_are_not_created(broker: Broker, name: str) -> None:
    assert ask(broker, name)[name].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert name not in broker.ledger.catalog.topics_by_name


def test_by_id(broker: Broker) -> None:
    topic_id = broker.ledger.catalog.topics_by_name["t"].id
    asked = (MetadataRequestTopic(topic_id, None), MetadataRequestTopic(b"?" * 16, None))
    known, unknown = broker.ask(MetadataRequest(asked), version=12).topics
    assert (known.name, known.error_code) == ("t", 0)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (None, b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID)
    refused = broker.ask(MetadataRequest(asked), version=11).topics
    assert {topic.error_code for topic in refused} == {ErrorCode.INVALID_REQUEST}
    assert set(broker.ledger.catalog.topics_by_name) == {"__consumer_offsets", "t"}


def test_the_offsets_topic_is_internal(broker: Broker) -> None:
    assert {name: topic.is_internal for name, topic in ask(broker, "t", "__consumer_offsets").items()} == {
        "t": False,
        "__consumer_offsets": True,
    }


def test_operations_are_told_when_asked_for(broker: Broker) -> None:
    assert ask(broker, "t")["t"].topic_authorized_operations == -(2**31)
    assert ask(broker, "t", include_topic_authorized_operations=True)["t"].topic_authorized_operations == 3576
    answer = broker.ask(MetadataRequest(None, include_cluster_authorized_operations=True), version=8)
    assert answer.cluster_authorized_operations == 8096


def test_leaders_go_round_the_brokers_and_copies_are_as_many_as_can_be(broker: Broker) -> None:
    nodes = Where((Node(1, "a", 1), Node(2, "b", 2), Node(3, "c", 3)))
    broker.node.record(Result(records=(CatalogRecord(TopicKey("r"), TopicValue(b"r" * 16, 4, 2)),)), NOW)
    request = MetadataRequest((MetadataRequestTopic(name="r"),))
    answer = broker.plane.handle(request, call(request), nodes)
    assert [p.replica_nodes for p in answer.topics[0].partitions] == [(1, 2), (2, 3), (3, 1), (1, 2)]
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(1, "a", 1), (2, "b", 2), (3, "c", 3)]
    assert (answer.controller_id, answer.cluster_id) == (1, broker.node.cluster_id)


def test_the_cluster_is_described(broker: Broker) -> None:
    answer = broker.ask(DescribeClusterRequest())
    assert (answer.error_code, answer.cluster_id, [b.broker_id for b in answer.brokers]) == (
        0,
        broker.node.cluster_id,
        [0],
    )
    controllers = broker.ask(DescribeClusterRequest(endpoint_type=2))
    assert controllers.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert broker.ask(DescribeClusterRequest(endpoint_type=9)).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def test_partitions_are_described_a_page_at_a_time(broker: Broker) -> None:
    broker.create("u", partitions=5)
    pages: list[list[tuple[str, int]]] = []
    cursor = None
    while True:
        answer = broker.ask(DescribeTopicPartitionsRequest((), 3, cursor))
        pages.append([(t.name, p.partition_index) for t in answer.topics for p in t.partitions])
        if answer.next_cursor is None:
            break
        cursor = DescribeTopicPartitionsRequestCursor(answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    assert pages == [
        [("__consumer_offsets", 0), ("__consumer_offsets", 1), ("__consumer_offsets", 2)],
        [("__consumer_offsets", 3), ("t", 0), ("t", 1)],
        [("u", 0), ("u", 1), ("u", 2)],
        [("u", 3), ("u", 4)],
    ]
    (missing,) = broker.ask(DescribeTopicPartitionsRequest((DescribeTopicPartitionsRequestTopic("x"),))).topics
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
