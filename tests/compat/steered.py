"""Consumers that poll in a thread and note what becomes of their partitions."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Message
from kafka import ConsumerRebalanceListener, KafkaConsumer

from tests.compat.consumers import librdkafka
from tests.compat.kafka_python import poll
from tests.live import Muster

CLASSIC: dict[str, Any] = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 100}
CONSUMER: dict[str, Any] = {"group.protocol": "consumer"}
OPTIONS = (
    "--ephemeral",
    "--set=journal.max.bytes=16777216",
    "--set=group.consumer.min.heartbeat.interval.ms=100",
    "--set=group.consumer.heartbeat.interval.ms=100",
)


class Polling(ABC):
    """A consumer in a thread of its own. `seen` has what happened to it, in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[str] = []
        self.assigned: set[int] = set()
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Polling":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def note(self, what: str, partitions: list[int]) -> None:
        self.seen.append(what)
        if what == "assigned":
            self.assigned |= set(partitions)
        else:
            self.assigned -= set(partitions)

    @abstractmethod
    def _run(self) -> None:
        """Poll until the consumer is stopped."""


class Confluent(Polling):
    """librdkafka's consumer, of either protocol."""

    def __init__(self, muster: Muster, name: str, topics: Sequence[str] = ("orders",), **settings: Any) -> None:
        super().__init__(name)
        self._topics = list(topics)
        everywhere = ",".join(muster.ready["listeners"])
        self.consumer = librdkafka(everywhere, settings.pop("group.id", "shop"), **{"client.id": name, **settings})

    def _run(self) -> None:
        self.consumer.subscribe(
            self._topics,
            on_assign=lambda _, some: self.note("assigned", [one.partition for one in some]),
            on_revoke=lambda _, some: self.note("revoked", [one.partition for one in some]),
            on_lost=lambda _, some: self.note("lost", [one.partition for one in some]),
        )
        while not self._stop.is_set():
            message = self.consumer.poll(0.05)
            if message is not None and (error := message.error()) is not None:
                self.errors.append(error.name())
            elif message is not None:
                self.take(message)
        self.consumer.close()

    def take(self, record: Message) -> None:
        """Do nothing with it."""


class KafkaPython(Polling):
    """kafka-python's consumer, of the classic protocol."""

    def __init__(self, muster: Muster, name: str, **settings: Any) -> None:
        super().__init__(name)
        self._muster, self._settings = muster, {"group_id": "shop", **settings}
        self._is_busy = threading.Event()

    def fall_silent(self) -> None:
        """Poll no more, as an application that is busy; the client goes on by itself."""
        self._is_busy.set()

    def _run(self) -> None:
        noted = self.note

        class Listener(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Any) -> None:
                noted("assigned", [one.partition for one in assigned])

            def on_partitions_revoked(self, revoked: Any) -> None:
                noted("revoked", [one.partition for one in revoked])

            def on_partitions_lost(self, lost: Any) -> None:
                noted("lost", [one.partition for one in lost])

        consumer = KafkaConsumer(bootstrap_servers=self._muster.kafka, client_id=self.name, **self._settings)
        consumer.subscribe(["orders"], listener=Listener())
        while not self._stop.is_set():
            if self._is_busy.is_set():
                time.sleep(0.02)
            else:
                poll(consumer, 50)
        consumer.close()
