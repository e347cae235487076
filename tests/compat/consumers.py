"""Consumers in processes of their own (see `member.py`), as a test sees them; producing by each client; and confluent-kafka's
consumer in this process."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.live import WAIT_SECONDS, wait_until

__all__ = ["Member", "wait_until"]


class Member:
    """A consumer process, and what it has said so far."""

    def __init__(self, *words: str, command: Sequence[str] = (sys.executable, "-m", "tests.compat.member")) -> None:
        """`words` are a client's name, where to connect, a group, a topic, and what else the program takes."""
        self.assigned: list[int] = []
        self.got: list[tuple[int, int, str]] = []
        self.committed: dict[int, int] = {}
        self.done: list[tuple[int, int]] = []  # partition and offset of what it consumed and then committed
        self.errors: list[str] = []
        self._undone: list[tuple[int, int]] = []
        self._process = subprocess.Popen(
            [*command, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def leave(self) -> None:
        """Close the consumer as a user would, and wait for its end."""
        assert self._process.stdin is not None, "opened as a pipe"
        self._process.stdin.close()
        self._process.wait(30)
        self._reader.join(5)
        self.assigned = []

    def kill(self) -> None:
        """It says farewell to nobody."""
        self._process.kill()
        self._process.wait(30)
        self._reader.join(5)
        self.assigned = []

    def freeze(self) -> None:
        """No heartbeat, no fetch, and no farewell."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def _listen(self) -> None:
        assert self._process.stdout is not None, "opened as a pipe"
        for line in self._process.stdout:
            said = json.loads(line)
            if "assigned" in said:
                self.assigned = said["assigned"]
                self._undone = [one for one in self._undone if one[0] in self.assigned]
            self.got += [tuple(one) for one in said.get("got", ())]
            self._undone += [(partition, offset) for partition, offset, _ in said.get("got", ())]
            self._settle({int(partition): offset for partition, offset in said.get("committed", {}).items()})
            self.errors += [said["error"]] if "error" in said else []

    def _settle(self, committed: dict[int, int]) -> None:
        """A commit was acknowledged: what was consumed before it is done."""
        self.committed |= committed
        done = [one for one in self._undone if one[1] < committed.get(one[0], 0)]
        self.done += done
        self._undone = [one for one in self._undone if one not in done]


def share(members: Collection[Any], partitions: int) -> bool:
    """Whether the members, of any kind that has `assigned`, own all partitions, each some, no two the same one."""
    owned = [partition for member in members for partition in member.assigned]
    return sorted(owned) == list(range(partitions)) and all(member.assigned for member in members)


def wait_for_share(members: Collection[Any], partitions: int = 4, when: str = "") -> None:
    wait_until(f"{len(members)} members share all partitions {when}", lambda: share(members, partitions))


def librdkafka(bootstrap: str, group: str, **settings: Any) -> Consumer:
    """A consumer of confluent-kafka that begins at the first record, and commits what it is told to."""
    own = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    return Consumer({**own, "enable.auto.commit": False, "reconnect.backoff.max.ms": 500, **settings})


def read(
    bootstrap: str, topic: str, count: int, isolation: str = "read_committed", partitions: Iterable[int] = (0,)
) -> list[str]:
    """At least `count` records of some partitions from the beginning, and what comes in the second after them."""
    consumer = librdkafka(bootstrap, "unused", **{"isolation.level": isolation})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[str] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        batch = consumer.consume(500, 1.0)
        found += [(one.value() or b"").decode() for one in batch if not one.error()]
        if not batch and len(found) >= count:
            break
    consumer.close()
    return found


def produce(
    client: str, bootstrap: str, topic: str, partitions: int, values: Iterable[str], codec: str | None = None
) -> None:
    """Produce values in turn to the partitions, each with a key and a header, and wait for every acknowledgement."""
    records = [
        (value.encode(), f"key-{number}".encode(), number % partitions, [("n", str(number).encode())])
        for number, value in enumerate(values)
    ]
    _PRODUCE[client](bootstrap, topic, records, codec)


Records = list[tuple[bytes, bytes, int, list[tuple[str, bytes]]]]  # value, key, partition, headers


def _kafka_python(bootstrap: str, topic: str, records: Records, codec: str | None) -> None:
    from kafka import KafkaProducer

    with KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=10) as producer:
        for sent in [
            producer.send(topic, value, key, partition=partition, headers=headers)
            for value, key, partition, headers in records
        ]:
            sent.get(30)


def _confluent_kafka(bootstrap: str, topic: str, records: Records, codec: str | None) -> None:
    from confluent_kafka import Producer

    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec or "none", "linger.ms": 10})
    for value, key, partition, headers in records:
        producer.produce(topic, value, key, partition, lambda error, _: error and failed.append(error), headers=headers)
    assert producer.flush(WAIT_SECONDS) == 0, "something was not delivered"
    assert not failed, failed[0]


def _aiokafka(bootstrap: str, topic: str, records: Records, codec: str | None) -> None:
    from aiokafka import AIOKafkaProducer

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=10) as producer:
            for sent in [
                await producer.send(topic, value, key, partition, headers=headers)
                for value, key, partition, headers in records
            ]:
                await sent

    asyncio.run(send())


_PRODUCE = {"kafka-python": _kafka_python, "confluent-kafka": _confluent_kafka, "aiokafka": _aiokafka}
