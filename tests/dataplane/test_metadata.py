"""Which topics and brokers clients are told of."""

from typing import Any

import pytest

from coordinator.core.catalog.records import CatalogRecord, TopicKey, TopicValue
from coordinator.core.result import Result
from coordinator.dataplane.brokers import Broker as Node
from coordinator.dataplane.brokers import Where
from protocol.errors import ErrorCode
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


def test_a_missing_topic_is_created_when_a_client_asks_for_it(broker: Broker) -> None:
    topic = ask(broker, "new", "t", "new")["new"]
    assert (topic.error_code, len(topic.partitions)) == (0, 3)
    assert topic.topic_id not in (bytes(16), broker.ledger.catalog.topics_by_name["t"].id)
    again = Broker(broker.files.copy(), num_partitions=3)
    assert ask(again, "new")["new"] == topic


@pytest.mark.parametrize("id_comes_first", [False, True])
def test_where_a_topic_is_asked_for_by_its_id_none_is_created(broker: Broker, id_comes_first: bool) -> None:
    """And those by name are not looked at. Kafka: `KafkaApis.handleTopicMetadataRequest`."""
    known = broker.ledger.catalog.topics_by_name["t"].id
    asked = [MetadataRequestTopic(topic_id=known, name=None), MetadataRequestTopic(name="new")]
    answer = broker.ask(MetadataRequest(tuple(asked if id_comes_first else asked[::-1])), version=12)
    assert [topic.name for topic in answer.topics] == ["t"]
    assert "new" not in broker.ledger.catalog.topics_by_name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../t", "a\0b", "é", "a" * 250, "a b"])
def test_what_is_no_name_is_not_created(broker: Broker, name: str) -> None:
    before = broker.files.contents()
    assert ask(broker, name)[name].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert broker.files.contents() == before


@pytest.mark.parametrize("name", ["__muster_catalog", "__cluster_metadata", "__transaction_state"])
def test_reserved_names_are_not_created(broker: Broker, name: str) -> None:
    assert ask(broker, name)[name].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert name not in broker.ledger.catalog.topics_by_name


def test_leaders_go_round_the_brokers_and_copies_are_as_many_as_can_be(broker: Broker) -> None:
    nodes = Where((Node(1, "a", 1), Node(2, "b", 2), Node(3, "c", 3)))
    broker.node.engine.record(Result(records=(CatalogRecord(TopicKey("r"), TopicValue(b"r" * 16, 4, 2)),)), NOW)
    request = MetadataRequest((MetadataRequestTopic(name="r"),))
    answer = broker.plane.handle(request, call(request), nodes).response
    assert [p.replica_nodes for p in answer.topics[0].partitions] == [(1, 2), (2, 3), (3, 1), (1, 2)]
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(1, "a", 1), (2, "b", 2), (3, "c", 3)]
    assert (answer.controller_id, answer.cluster_id) == (1, broker.node.cluster_id)


@pytest.mark.parametrize(
    ("names", "cursor", "expected"),
    [
        (("t", "no", "t"), ("t", -1), [(name, ErrorCode.INVALID_REQUEST) for name in ("t", "no", "t")]),
        ((), ("t", -(2**31)), []),
        (("t",), ("s", 0), [("t", ErrorCode.INVALID_REQUEST)]),
        ((), ("s", 0), [("t", ErrorCode.NONE)]),
        (("t",), ("t", 2**31 - 1), [("t", ErrorCode.NONE)]),
    ],
)
def test_a_cursor_is_of_a_partition_of_one_of_the_topics(
    broker: Broker, names: tuple[str, ...], cursor: tuple[str, int], expected: list[tuple[str, ErrorCode]]
) -> None:
    """Kafka: `DescribeTopicPartitionsRequestHandler`."""
    topics = tuple([DescribeTopicPartitionsRequestTopic(name) for name in names])
    where = DescribeTopicPartitionsRequestCursor(*cursor)
    answer = broker.ask(DescribeTopicPartitionsRequest(topics, 10, where), version=0)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == expected
    assert answer.next_cursor is None
