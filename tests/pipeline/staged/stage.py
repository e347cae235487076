"""A group with members in processes of their own, two topics, and what its log says."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from coordinator.client.cluster import BrokerError
from coordinator.client.log_reader import LogReader
from coordinator.client.offsets import EARLIEST, LATEST
from pipeline.decode.layout import TOPIC
from pipeline.history.live import Replay
from pipeline.history.records import Rebalance
from tests.conformance.kafka import Broker
from tests.live import wait_until

PATIENCE_S = 60
QUIET_S = 3.0  # in which further rebalances of a cause show up
Member = subprocess.Popen[bytes]

Command = Callable[[dict[str, Any], list[str]], list[str]]


def consumer(conf: dict[str, Any], topics: list[str]) -> list[str]:
    """A consumer of librdkafka."""
    return [sys.executable, "-m", "tests.pipeline.staged.member", json.dumps(conf), *topics]


def python_consumer(conf: dict[str, Any], topics: list[str]) -> list[str]:
    """A consumer of kafka-python."""
    return [sys.executable, "-m", "tests.pipeline.staged.python_member", json.dumps(conf), *topics]


def share_consumer(conf: dict[str, Any], topics: list[str]) -> list[str]:
    """A share consumer of librdkafka."""
    return [sys.executable, "-m", "tests.pipeline.staged.share_member", json.dumps(conf), *topics]


def application(conf: dict[str, Any], topics: list[str]) -> list[str]:
    """An instance of a Kafka Streams application, by the class path of MUSTER_STREAMS_JARS."""
    jars, program = os.environ["MUSTER_STREAMS_JARS"], Path(__file__).parent / "Application.java"
    return [
        "java",
        "-Xmx192M",
        "-cp",
        f"{jars}/*",
        str(program),
        conf["bootstrap.servers"],
        conf["group.id"],
        topics[0],
    ]


class Stage:
    """One group on one broker."""

    def __init__(self, broker: Broker, name: str, command: Command = consumer, **conf: Any) -> None:
        """`command` makes the words that run a member of the settings and topics that it is given."""
        self.command = command
        self.broker, self.group = broker, f"{name}-{secrets.token_hex(3)}"
        self.topics = [f"{self.group}-a", f"{self.group}-b"]
        self.address = f"127.0.0.1:{broker.port}"
        self.admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        for future in self.admin.create_topics([NewTopic(one, 4, 1) for one in self.topics]).values():
            future.result(30)
        self.conf = {
            "bootstrap.servers": self.address, "group.id": self.group, "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500, "log_level": 0, "topic.metadata.refresh.interval.ms": 1000, **conf,
        }  # fmt: skip
        self.members: list[Member] = []

    def start(self, **conf: Any) -> Member:
        """Start a member."""
        words = self.command({**self.conf, **conf}, self.topics)
        self.members.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return self.members[-1]

    def stop(self, member: Member) -> None:
        """Let a member close, and wait until it has."""
        member.send_signal(signal.SIGTERM)
        member.wait(30)

    def grow(self) -> None:
        """Two more partitions of the first topic."""
        for future in self.admin.create_partitions([NewPartitions(self.topics[0], 6)]).values():
            future.result(30)

    def delete(self) -> None:
        """Delete the group."""
        for future in self.admin.delete_consumer_groups([self.group]).values():
            future.result(30)

    def work(self) -> None:
        """Produce a record for every partition, so that all members commit."""
        producer = Producer({"bootstrap.servers": self.address, "log_level": 0})
        for topic in self.topics:
            for partition in range(4):
                producer.produce(topic, b"x", partition=partition)
        producer.flush(20)

    def rebalances(self) -> list[Rebalance]:
        """Return what the log of the cluster's groups tells."""
        replay = Replay({self.group})
        with LogReader([self.address], TOPIC) as reader:
            try:
                reader.describe()
            except BrokerError:
                return []  # nobody has joined a group yet
            found = [
                one
                for data in reader.read(reader.offsets(EARLIEST), reader.offsets(LATEST))
                for one in replay.apply(data.batches)
            ]
        return [*found, *replay.settle()]

    @contextmanager
    def expect(self, what: str, *causes: str, times: int = 1) -> Iterator[None]:
        """Let a block bring about rebalances, of which so many are told to have one of the causes; without causes none."""
        before = len(self.rebalances())
        yield
        told: list[list[str]] = []

        def is_told() -> bool:
            self.work()
            told[:] = [one.causes for one in self.rebalances()[before:]]
            return sum(bool(set(causes) & set(one)) for one in told) >= times

        if causes:
            wait_until(f"{what} is told as {causes}: {told}", is_told, PATIENCE_S)
        for _ in range(3):
            self.work()
            time.sleep(QUIET_S / 3)
        told = [one.causes for one in self.rebalances()[before:]]
        print(f"  {what}: {', '.join('+'.join(one) for one in told) or 'no rebalance'}", flush=True)
        assert causes or not told, f"{what}: no rebalance was expected"

    def close(self) -> None:
        """End all members."""
        for member in self.members:
            with suppress(ProcessLookupError):
                member.kill()
            member.wait()
