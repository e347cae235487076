"""Consumers that poll in a thread and note what becomes of their partitions, and the control API as a function."""

import json
import threading
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, KafkaError
from kafka import ConsumerRebalanceListener, KafkaConsumer

from tests.live import Muster


def steer(muster: Muster, method: str, path: str, **body: Any) -> Any:
    """Call the control API. Raises AssertionError with the sentence of a refusal."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"{muster.ready['admin']}/v1{path}", data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None


class Polling(ABC):
    """A consumer in a thread of its own. `seen` has what happened to it, in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[str] = []
        self.owned: set[int] = set()
        self.errors: list[str] = []
        self.commits: list[tuple[int, int, str]] = []  # partition, offset, the error's name or ""
        self._stop = threading.Event()
        self._silent = threading.Event()
        self._subscription: list[str] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Polling":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(60)

    def note(self, what: str, partitions: list[int]) -> None:
        self.seen.append(what)
        if what == "assigned":
            self.owned |= set(partitions)
        else:
            self.owned -= set(partitions)

    def subscribe(self, *topics: str) -> None:
        """Change the subscription, in the consumer's own thread."""
        self._subscription = list(topics)

    def fall_silent(self) -> None:
        """Poll no more, as an application that is busy; the client goes on by itself."""
        self._silent.set()

    def wake_up(self) -> None:
        """Poll again."""
        self._silent.clear()

    def _pause(self) -> None:
        """Wait while the consumer is silent."""
        while self._silent.is_set() and not self._stop.is_set():
            time.sleep(0.02)

    @abstractmethod
    def _run(self) -> None:
        """Poll until the consumer is stopped."""


class Confluent(Polling):
    """librdkafka's consumer, of either protocol."""

    def __init__(self, muster: Muster, name: str, topics: Sequence[str] = ("orders",), **settings: Any) -> None:
        super().__init__(name)
        self.subscribe(*topics)
        self.consumer = Consumer(
            {
                "bootstrap.servers": muster.kafka,
                "group.id": "shop",
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
        )

    def _run(self) -> None:
        consumer = self.consumer
        while not self._stop.is_set():
            if (topics := self._subscription) is not None:
                self._subscription = None
                consumer.subscribe(
                    topics,
                    on_assign=lambda _, some: self.note("assigned", [one.partition for one in some]),
                    on_revoke=lambda _, some: self.note("revoked", [one.partition for one in some]),
                    on_lost=lambda _, some: self.note("lost", [one.partition for one in some]),
                )
            self._pause()
            message = consumer.poll(0.05)
            if message is not None and (error := message.error()) is not None:
                self.errors.append(KafkaError.name(error) if hasattr(error, "name") else str(error))
        consumer.close()


class KafkaPython(Polling):
    """kafka-python's consumer, of the classic protocol."""

    def __init__(self, muster: Muster, name: str, **settings: Any) -> None:
        super().__init__(name)
        self._muster, self._settings = muster, {"group_id": "shop", **settings}

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
            self._pause()
            consumer.poll(50)
        consumer.close()
