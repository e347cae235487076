"""What the stories do not show of where partitions begin and end."""

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


def test_records_of_a_compacted_topic_are_not_deleted(broker: Broker) -> None:
    broker.create("latest", cleanup_policy="compact")
    for topic, error in (("latest", ErrorCode.POLICY_VIOLATION), ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        result = broker.ask(delete_records(topic, {0: -1})).topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (error, -1)
