"""Where partitions begin and end, and which record is the first of a time."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsResponsePartition
from tests.dataplane.broker import NOW, Broker, batch
from tests.requests import delete_records, list_offsets

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
    return broker.ask(list_offsets(topic, {0: timestamp}, **fields), version=version).topics[0].partitions[0]


def test_readers_of_committed_records_stop_at_an_open_transaction(broker: Broker) -> None:
    producer_id, epoch = broker.producer("x")
    open_ = batch(
        "d", at_ms=NOW + 9, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
    )
    broker.produce("t", 0, open_, txn="x")
    assert [ask(broker, LATEST, isolation_level=level).offset for level in (0, 1)] == [7, 6]
    assert [ask(broker, NOW + 5, isolation_level=level).offset for level in (0, 1)] == [6, -1]


def delete(broker: Broker, offset: int, topic: str = "t") -> tuple[int, int]:
    result = broker.ask(delete_records(topic, {0: offset})).topics[0].partitions[0]
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
