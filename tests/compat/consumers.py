"""Consumers in processes of their own (see `member.py`), as a test sees them; and producing by each client."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from types import TracebackType

import pytest

from tests.live import WAIT_SECONDS, wait_until

__all__ = ["STOPS", "Member", "stops", "wait_until"]


def stops(message: str) -> pytest.MarkDecorator:
    """Mark a test of kafka-python that is run again, twice at most, when it fails with this (a regular expression).

    Now and then kafka-python 3.0.12 stops for good after a rebalance, most of all on a busy machine. It did so against
    Apache Kafka 4.3.1 as well, twice in some fifty groups of three, as often as here: see docs/clients.md. What was run
    again is counted and named at the end of the run.
    """
    return pytest.mark.flaky(reruns=2, only_rerun=[message])


STOPS = stops("still not: ")


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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


def share(members: Iterable[Member], partitions: int) -> bool:
    """Whether the members own all partitions, and no two of them the same one."""
    owned = [partition for member in members for partition in member.assigned]
    return sorted(owned) == list(range(partitions))


def produce(client: str, bootstrap: str, topic: str, partitions: int, values: Iterable[str]) -> None:
    """Produce values in turn to the partitions, and wait for every acknowledgement."""
    _PRODUCE[client](bootstrap, topic, [(number % partitions, value.encode()) for number, value in enumerate(values)])


Placed = list[tuple[int, bytes]]


def _kafka_python(bootstrap: str, topic: str, values: Placed) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for sent in [producer.send(topic, value, partition=partition) for partition, value in values]:
        sent.get(30)
    producer.close()


def _confluent_kafka(bootstrap: str, topic: str, values: Placed) -> None:
    from confluent_kafka import Producer

    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, value in values:
        producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(WAIT_SECONDS) == 0, "something was not delivered"
    assert not failed, failed[0]


def _aiokafka(bootstrap: str, topic: str, values: Placed) -> None:
    from aiokafka import AIOKafkaProducer

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for sent in [await producer.send(topic, value, partition=partition) for partition, value in values]:
                await sent

    asyncio.run(send())


_PRODUCE = {"kafka-python": _kafka_python, "confluent-kafka": _confluent_kafka, "aiokafka": _aiokafka}
