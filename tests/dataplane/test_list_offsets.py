"""Where partitions begin and end, and which record is the first of a time."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponsePartition,
)
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from tests.dataplane.broker import NOW, Broker, batch

LATEST, EARLIEST, GREATEST = -1, -2, -3


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    broker.create("t")
    for hour, value in enumerate("abc"):
        broker.produce("t", 0, batch(value, value, at_ms=NOW + hour))
    broker.create("empty")
    return broker


def ask(
    broker: Broker, timestamp: int, topic: str = "t", version: int = 10, **fields: int
) -> ListOffsetsResponsePartition:
    one = ListOffsetsRequestPartition(0, fields.pop("current_leader_epoch", -1), timestamp)
    topics = (ListOffsetsRequestTopic(topic, (one,)),)
    return broker.ask(ListOffsetsRequest(-1, topics=topics, **fields), version=version).topics[0].partitions[0]


@pytest.mark.parametrize(
    ("timestamp", "offset", "found_ms"),
    [
        (LATEST, 6, -1),
        (EARLIEST, 0, -1),
        (-4, 0, -1),
        (GREATEST, 4, NOW + 2),
        (-5, -1, -1),
        (0, 0, NOW),
        (NOW + 1, 2, NOW + 1),
        (NOW + 2, 4, NOW + 2),
        (NOW + 3, -1, -1),
    ],
)
def test_offsets_by_time(broker: Broker, timestamp: int, offset: int, found_ms: int) -> None:
    found = ask(broker, timestamp)
    assert (found.error_code, found.offset, found.timestamp) == (0, offset, found_ms)
    assert found.leader_epoch == (0 if offset >= 0 else -1)


@pytest.mark.parametrize(("timestamp", "offset"), [(LATEST, 0), (EARLIEST, 0), (GREATEST, -1), (0, -1)])
def test_in_a_partition_without_records(broker: Broker, timestamp: int, offset: int) -> None:
    assert ask(broker, timestamp, "empty").offset == offset


@pytest.mark.parametrize(("timestamp", "since"), [(GREATEST, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)])
def test_special_times_are_for_those_who_know_them(broker: Broker, timestamp: int, since: int) -> None:
    for version in range(1, 12):
        expected = ErrorCode.NONE if version >= since else ErrorCode.UNSUPPORTED_VERSION
        assert ask(broker, timestamp, version=version).error_code == expected


def test_what_cannot_be_answered(broker: Broker) -> None:
    assert ask(broker, LATEST, "u").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(broker, LATEST, current_leader_epoch=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    twice = ListOffsetsRequestTopic("t", (ListOffsetsRequestPartition(0), ListOffsetsRequestPartition(0)))
    (result,) = broker.ask(ListOffsetsRequest(-1, topics=(twice,))).topics[0].partitions
    assert result.error_code == ErrorCode.INVALID_REQUEST


def test_readers_of_committed_records_stop_at_an_open_transaction(broker: Broker) -> None:
    producer_id, epoch = broker.producer("x")
    open_ = batch(
        "d", at_ms=NOW + 9, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
    )
    broker.produce("t", 0, open_, txn="x")
    assert [ask(broker, LATEST, isolation_level=level).offset for level in (0, 1)] == [7, 6]
    assert [ask(broker, NOW + 5, isolation_level=level).offset for level in (0, 1)] == [6, -1]


def delete(broker: Broker, offset: int, topic: str = "t") -> tuple[int, int]:
    one = DeleteRecordsRequestTopic(topic, (DeleteRecordsRequestPartition(0, offset),))
    result = broker.ask(DeleteRecordsRequest((one,))).topics[0].partitions[0]
    return result.error_code, result.low_watermark


def test_records_are_deleted(broker: Broker) -> None:
    assert delete(broker, 3) == (0, 3)
    assert ask(broker, EARLIEST).offset == 3
    assert ask(broker, 0).offset == 3
    assert broker.fetch("t", offset=2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete(broker, 1) == (0, 3)  # an offset before the start changes nothing
    assert delete(broker, 7) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(broker, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(broker, -1) == (0, 6)
    assert Broker(broker.files.copy()).fetch("t", offset=6).log_start_offset == 6
    assert broker.produce("t", 0, batch("d")).base_offset == 6


def test_records_of_a_compacted_topic_are_not_deleted(broker: Broker) -> None:
    broker.create("latest", cleanup_policy="compact")
    assert delete(broker, -1, "latest") == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete(broker, -1, "u") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_where_the_epoch_ends(broker: Broker) -> None:
    def ends(epoch: int, current: int = -1, topic: str = "t") -> tuple[int, int, int]:
        one = OffsetForLeaderEpochRequestPartition(0, current, epoch)
        request = OffsetForLeaderEpochRequest(-2, (OffsetForLeaderEpochRequestTopic(topic, (one,)),))
        found = broker.ask(request, version=4).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert ends(0) == (0, 0, 6)
    assert ends(5) == (0, -1, -1)
    assert ends(0, current=1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert ends(0, topic="u") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


def test_producers_are_described(broker: Broker) -> None:
    producer_id, epoch = broker.producer("x")
    open_ = batch("d", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
    broker.produce("t", 0, open_, txn="x")
    request = DescribeProducersRequest((DescribeProducersRequestTopic("t", (0, 5)),))
    known, unknown = broker.ask(request).topics[0].partitions
    (state,) = known.active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (producer_id, epoch, 0)
    assert (state.current_txn_start_offset, state.last_timestamp) == (6, NOW)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
