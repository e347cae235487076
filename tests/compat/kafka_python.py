"""How tests poll kafka-python's consumer, which by itself may forget a join that outlasts a poll."""

from typing import Any

from kafka import KafkaConsumer


def poll(consumer: KafkaConsumer, timeout_ms: int) -> dict[Any, Any]:
    """Poll, and have the next poll go on with a join that this one has not ended.

    The leader of a group joins again when it sees that its topics have changed. Up to 3.0.12 the client takes the change
    for done as soon as it has assigned the partitions (`_perform_assignment`, `need_rejoin`). If the poll ends between
    that and the response to SyncGroup, no later poll takes the response: the consumer has no partitions, and sends no
    heartbeat, for good. It happens on any broker, to one poll in some hundred on a busy machine.
    """
    records: dict[Any, Any] = consumer.poll(timeout_ms)
    if consumer._coordinator.rejoining:
        consumer._coordinator.request_rejoin()
    return records
