"""Commit offsets of many groups until it is terminated: plainly, in transactions that end either way, and as members.

python -m tests.pipeline.staged.load HOST:PORT
"""

import sys
from itertools import count
from random import Random
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

GROUPS, PARTITIONS = 12, 6
TOPIC = "load"


def main() -> None:
    servers, dice = {"bootstrap.servers": sys.argv[1], "log_level": 0}, Random(1)
    admin = AdminClient(servers)
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        future.result(30)
    producers = [Producer({**servers, "transactional.id": f"load-{number}"}) for number in range(2)]
    for producer in producers:
        producer.init_transactions(60)
    readers = [Consumer({**servers, "group.id": f"plain-{number}"}) for number in range(GROUPS)]
    for step in count():
        at = [TopicPartition(TOPIC, number, step * 10 + number) for number in range(PARTITIONS)]
        for reader in readers:
            reader.commit(offsets=at, asynchronous=True)
            reader.poll(0)
        for producer in producers:
            commit_in_transaction(producer, readers[0], at, is_kept=dice.random() < 0.7)
        if step % 20 == 0:
            come_and_go(servers, f"members-{dice.randrange(3)}")
        if step % 50 == 49:
            delete(admin, f"plain-{dice.randrange(1, GROUPS)}")


def commit_in_transaction(producer: Producer, reader: Consumer, at: list[TopicPartition], *, is_kept: bool) -> None:
    """One transaction with offsets and a record."""
    producer.begin_transaction()
    producer.produce(TOPIC, b"x", partition=0)
    producer.send_offsets_to_transaction(at, reader.consumer_group_metadata(), 30)
    if is_kept:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def come_and_go(servers: dict[str, Any], group: str) -> None:
    """A member joins, consumes for a moment, and leaves."""
    member = Consumer({**servers, "group.id": group, "auto.offset.reset": "earliest"})
    member.subscribe([TOPIC])
    for _ in range(5):
        member.poll(0.2)
    member.close()


def delete(admin: AdminClient, group: str) -> None:
    """Delete the offsets of a group, if it may be deleted now."""
    try:
        for future in admin.delete_consumer_groups([group]).values():
            future.result(30)
        admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(f"{group}-tool", [TopicPartition(TOPIC, 0, 1)])]
        )
    except KafkaException:
        return


if __name__ == "__main__":
    main()
