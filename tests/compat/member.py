"""One consumer in a process of its own, by a released client: so that a test can freeze it, and hear what it saw.

    python -m tests.compat.member [--session MS] CLIENT BOOTSTRAP GROUP TOPIC [PROTOCOL]

It prints JSON lines: `assigned` with its partitions, `got` with [partition, offset, value] of what it consumed, `committed`
with the offsets that the coordinator acknowledged, by partition. It leaves the group when its standard input ends.
"""

import argparse
import asyncio
import json
import logging
import sys
import threading
from collections.abc import Iterable
from typing import Any

SESSION_MS = 3_000  # unless told otherwise
HEARTBEAT_MS = 500
POLL_MS = 100

stopping = threading.Event()


def say(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def say_records(records: Iterable[tuple[int, int, bytes]]) -> None:
    say(got=[[partition, offset, value.decode()] for partition, offset, value in records])


def kafka_python(bootstrap: str, group: str, topic: str, *, session_ms: int) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaError

    from tests.compat.kafka_python import poll

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            say(assigned=[])

        def on_partitions_assigned(self, assigned: Any) -> None:
            say(assigned=sorted(one.partition for one in assigned))

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        session_timeout_ms=session_ms, heartbeat_interval_ms=HEARTBEAT_MS, reconnect_backoff_max_ms=500,
        metadata_max_age_ms=2_000,
    )  # fmt: skip
    consumer.subscribe([topic], listener=Listener())
    while not stopping.is_set():
        try:
            batches = poll(consumer, POLL_MS)
            if not batches:
                continue
            say_records((one.partition, one.offset, one.value) for batch in batches.values() for one in batch)
            consumer.commit()
            say(committed={where.partition: batch[-1].offset + 1 for where, batch in batches.items()})
        except KafkaError as error:
            say(error=repr(error))
    consumer.close()


def confluent_kafka(bootstrap: str, group: str, topic: str, protocol: str = "classic", *, session_ms: int) -> None:
    from confluent_kafka import Consumer, KafkaException

    own = {} if protocol == "consumer" else {"session.timeout.ms": session_ms, "heartbeat.interval.ms": HEARTBEAT_MS}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "group.protocol": protocol, "reconnect.backoff.max.ms": 500, "topic.metadata.refresh.interval.ms": 2_000, **own,
        }
    )  # fmt: skip

    mine: set[int] = set()  # the consumer protocol tells what comes and what goes, the classic one all each time

    def assigned(who: Any, partitions: Any) -> None:
        mine.update(one.partition for one in partitions)
        say(assigned=sorted(mine))

    def revoked(who: Any, partitions: Any) -> None:
        mine.difference_update(one.partition for one in partitions)
        say(assigned=sorted(mine))

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked)
    while not stopping.is_set():
        messages = [one for one in consumer.consume(100, POLL_MS / 1000) if not one.error()]
        if not messages:
            continue
        say_records((one.partition(), one.offset(), one.value()) for one in messages)
        try:
            committed = consumer.commit(asynchronous=False)
            say(committed={one.partition: one.offset for one in committed if one.error is None})
        except KafkaException as error:
            say(error=repr(error))
    consumer.close()


def aiokafka(bootstrap: str, group: str, topic: str, *, session_ms: int) -> None:
    asyncio.run(_aiokafka(bootstrap, group, topic, session_ms))


async def _aiokafka(bootstrap: str, group: str, topic: str, session_ms: int) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            say(assigned=[])

        def on_partitions_assigned(self, assigned: Any) -> None:
            say(assigned=sorted(one.partition for one in assigned))

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        session_timeout_ms=session_ms, heartbeat_interval_ms=HEARTBEAT_MS, metadata_max_age_ms=2_000,
    )  # fmt: skip
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not stopping.is_set():
        try:
            batches = await consumer.getmany(timeout_ms=POLL_MS)
            if not batches:
                continue
            say_records((one.partition, one.offset, one.value) for batch in batches.values() for one in batch)
            ends = {where: batch[-1].offset + 1 for where, batch in batches.items()}
            await consumer.commit(ends)
            say(committed={where.partition: end for where, end in ends.items()})
        except KafkaError as error:
            say(error=repr(error))
    await consumer.stop()


CLIENTS = {"kafka-python": kafka_python, "confluent-kafka": confluent_kafka, "aiokafka": aiokafka}


def _wait_for_the_end() -> None:
    sys.stdin.read()
    stopping.set()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    threading.Thread(target=_wait_for_the_end, daemon=True).start()
    parser = argparse.ArgumentParser()
    parser.add_argument("--session", type=int, default=SESSION_MS, metavar="MS")
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("where", nargs="+")
    options = parser.parse_args()
    CLIENTS[options.client](*options.where, session_ms=options.session)
