"""Released clients in transactions: what committed is read once, what aborted is not, and a worker that dies is fenced."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.live import Muster

ROUNDS = 6


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    with Muster(tmp_path, "--topic", "in:1", "--topic", "out:1") as server:
        yield server


def transactional(bootstrap: str, name: str = "copier") -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "reconnect.backoff.max.ms": 500})
    producer.init_transactions(20)
    return producer


def reader(bootstrap: str, group: str = "unused", isolation: str = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "isolation.level": isolation,
            "auto.offset.reset": "earliest", "enable.auto.commit": False, "reconnect.backoff.max.ms": 500,
        }
    )  # fmt: skip


def read(bootstrap: str, topic: str, count: int, isolation: str = "read_committed") -> list[str]:
    """At least `count` records from the beginning, and what comes in the second after them."""
    consumer = reader(bootstrap, isolation=isolation)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        batch = consumer.consume(500, 1.0)
        found += [one.value().decode() for one in batch if not one.error()]
        if not batch and len(found) >= count:
            break
    consumer.close()
    return found


def test_committed_records_are_read_and_aborted_ones_are_not(muster: Muster) -> None:
    producer = transactional(muster.kafka)
    for number in range(4):
        producer.begin_transaction()
        producer.produce("out", f"{number}", partition=0)
        if number % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    assert read(muster.kafka, "out", 2) == ["0", "2"]
    assert read(muster.kafka, "out", 2, "read_uncommitted")[:1] == ["0"]


def test_a_second_instance_fences_the_first(muster: Muster) -> None:
    first = transactional(muster.kafka)
    first.begin_transaction()
    first.produce("out", "of the first", partition=0)
    first.flush(10)
    second = transactional(muster.kafka)
    second.begin_transaction()
    second.produce("out", "of the second", partition=0)
    second.commit_transaction(20)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(20)
    assert refused.value.args[0].fatal()
    assert read(muster.kafka, "out", 1) == ["of the second"]


def test_aiokafka_commits_and_aborts(muster: Muster) -> None:
    async def run() -> None:
        from aiokafka import AIOKafkaProducer

        async with AIOKafkaProducer(bootstrap_servers=muster.kafka, transactional_id="aio") as producer:
            for number in range(4):
                await producer.begin_transaction()
                await producer.send_and_wait("out", str(number).encode(), partition=0)
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert read(muster.kafka, "out", 2) == ["0", "2"]


def test_kafka_python_commits_and_aborts(muster: Muster) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=muster.kafka, transactional_id="python")
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.send("out", str(number).encode(), partition=0).get(20)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    assert read(muster.kafka, "out", 2) == ["0", "2"]


def copy(bootstrap: str, upto: int) -> None:
    """Copy records from `in` to `out`, records and offsets in one transaction, until as many as `upto` are done."""
    consumer = reader(bootstrap, "copiers")
    consumer.subscribe(["in"])
    producer = transactional(bootstrap)
    deadline, done = time.monotonic() + 40, 0
    while done < upto and time.monotonic() < deadline:
        batch = [one for one in consumer.consume(10, 0.5) if not one.error()]
        if not batch:
            continue
        producer.begin_transaction()
        for one in batch:
            producer.produce("out", one.value(), partition=0)
        ends = [TopicPartition("in", 0, batch[-1].offset() + 1)]
        producer.send_offsets_to_transaction(ends, consumer.consumer_group_metadata(), 20)
        producer.commit_transaction(20)
        done = batch[-1].offset() + 1
    assert done >= upto, "the copy is not done in time"
    consumer.close()


def test_a_copy_loses_nothing_and_doubles_nothing_though_the_server_is_killed(muster: Muster) -> None:
    producer = Producer({"bootstrap.servers": muster.kafka})
    values = [str(number) for number in range(ROUNDS * 20)]
    for value in values:
        producer.produce("in", value, partition=0)
    assert producer.flush(20) == 0
    for number in range(1, ROUNDS + 1):
        # A worker that dies in the middle: its transaction stays open, and its offsets with it.
        dying = transactional(muster.kafka, "copier")
        dying.begin_transaction()
        dying.produce("out", f"never {number}", partition=0)
        dying.flush(10)
        if number % 2:
            muster.kill()
            muster.start()
        del dying
        copy(muster.kafka, number * 20)
    assert read(muster.kafka, "out", len(values)) == values
