"""What the stories do not show of where partitions begin and end."""

from msgspec.structs import replace

from protocol.errors import ErrorCode
from tests.dataplane.broker import NOW, Broker, batch
from tests.requests import delete_records, list_offsets


def test_readers_of_committed_records_stop_at_an_open_transaction(broker: Broker) -> None:
    producer_id, epoch = broker.producer("x")
    ids = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 0}
    broker.produce("t", 0, batch("a"))
    broker.produce("t", 0, batch("b", at_ms=NOW + 9, transactional=True, **ids), txn="x")
    for time, expected in ((-1, [2, 1]), (NOW + 5, [1, -1])):  # -1 is the end
        answers = [broker.ask(list_offsets("t", {0: time}, isolation_level=level), version=10) for level in (0, 1)]
        assert [answer.topics[0].partitions[0].offset for answer in answers] == expected
        by_replica = replace(list_offsets("t", {0: time}, isolation_level=1), replica_id=1)
        assert broker.ask(by_replica, version=10).topics[0].partitions[0].offset == expected[0], (
            "a replica has all records"
        )


def test_the_last_stable_offset_is_not_before_the_start(broker: Broker) -> None:
    """A reader of committed records that begins at the end would be out of range for as long as the transaction lasts.

    Kafka: `UnifiedLog.maybeIncrementFirstUnstableOffset`.
    """
    producer_id, epoch = broker.producer("x")
    for number in range(3):
        ids = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": number}
        broker.produce("t", 0, batch("a", transactional=True, **ids), txn="x")
    broker.ask(delete_records("t", {0: 2}))
    end = broker.ask(list_offsets("t", {0: -1}, isolation_level=1), version=10).topics[0].partitions[0].offset
    data = broker.fetch("t", 0, end, isolation_level=1)
    assert (end, data.error_code, data.last_stable_offset, data.records) == (2, ErrorCode.NONE, 2, b"")


def test_records_of_a_compacted_topic_are_not_deleted(broker: Broker) -> None:
    broker.create("latest", cleanup_policy="compact")
    for topic, error in (("latest", ErrorCode.POLICY_VIOLATION), ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        result = broker.ask(delete_records(topic, {0: -1})).topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (error, -1)
