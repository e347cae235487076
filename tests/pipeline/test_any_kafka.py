"""Staged causes on a real broker with released clients of both protocols: what `why` says of each, and nothing is written.

MUSTER_TEST_KAFKA=127.0.0.1:9092 MUSTER_TEST_KAFKA_LOGS=/path/of/log.dirs python -m pytest -n 0 -m long -s tests/pipeline/test_any_kafka.py
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from coordinator.cli import main
from coordinator.client.cluster import BrokerError
from coordinator.client.log_reader import LogReader
from coordinator.client.offsets import EARLIEST, LATEST
from pipeline.decode.cluster import open_reader
from pipeline.decode.layout import TOPIC, log_dirs, spans
from pipeline.decode.rows import read_table
from pipeline.decode.schema import TABLES
from pipeline.history.live import Replay
from pipeline.history.records import Rebalance
from tests.live import wait_until

KAFKA, LOGS = os.environ.get("MUSTER_TEST_KAFKA", ""), os.environ.get("MUSTER_TEST_KAFKA_LOGS", "")
CONSUMER_PROTOCOL = os.environ.get("MUSTER_TEST_KAFKA_848", "1") == "1"
pytestmark = [pytest.mark.long, pytest.mark.skipif(not KAFKA, reason="MUSTER_TEST_KAFKA names no broker")]
GONE = {"leave", "leave_or_timeout"}


class Stage:
    """A group with members in processes of their own, two topics, and what its log says."""

    def __init__(self, group: str, **conf: Any) -> None:
        self.group, self.topics = group, [f"{group}-a", f"{group}-b"]
        self.admin = AdminClient({"bootstrap.servers": KAFKA})
        for future in self.admin.create_topics([NewTopic(one, 4, 1) for one in self.topics]).values():
            future.result(30)
        self.conf = {
            "bootstrap.servers": KAFKA, "group.id": group, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 500, **conf
        }  # fmt: skip
        self.members: list[subprocess.Popen[bytes]] = []

    def start(self, **conf: Any) -> subprocess.Popen[bytes]:
        words = ["-m", "tests.pipeline.staged_consumer", json.dumps({**self.conf, **conf}), *self.topics]
        self.members.append(subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL))
        return self.members[-1]

    def work(self) -> None:
        """Records for every partition, so that all members commit."""
        producer = Producer({"bootstrap.servers": KAFKA})
        for topic in self.topics:
            for partition in range(4):
                producer.produce(topic, b"x", partition=partition)
        producer.flush(20)

    def rebalances(self) -> list[Rebalance]:
        replay = Replay({self.group})
        with LogReader([KAFKA], TOPIC) as reader:
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
    def expect(self, what: str, *causes: str) -> Iterator[None]:
        """One of the causes is told of a rebalance that the block brings about."""
        before = len(self.rebalances())
        yield
        told: list[list[str]] = []

        def is_told() -> bool:
            self.work()
            told[:] = [one.causes for one in self.rebalances()[before:]]
            return any(set(causes) & set(one) for one in told)

        wait_until(f"{what} is told as {causes}: {told}", is_told, 60)
        time.sleep(3)
        print(f"{self.group}: {what}: {[one.causes for one in self.rebalances()[before:]]}")

    def close(self) -> None:
        for member in self.members:
            with suppress(ProcessLookupError):
                member.kill()
            member.wait()


@contextmanager
def stage(name: str, **conf: Any) -> Iterator[Stage]:
    made = Stage(f"{name}-{secrets.token_hex(3)}", **conf)
    try:
        yield made
    finally:
        made.close()


FAST = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 1_000, "max.poll.interval.ms": 8_000}


def test_the_classic_protocol() -> None:
    with stage("eager", **FAST) as group:
        with group.expect("join", "join"):
            first = group.start()
        with group.expect("second join", "join"):
            second = group.start()
        with group.expect("leave", *GONE):
            second.send_signal(signal.SIGTERM)
        with group.expect("third join", "join"):
            third = group.start()
        with group.expect("kill", "leave_or_timeout"):
            third.kill()
        with group.expect("new subscription", "subscription_change"):
            first.send_signal(signal.SIGUSR1)
        with group.expect("stuck in processing", *GONE):
            group.start().send_signal(0)
            time.sleep(8)
            group.members[-1].send_signal(signal.SIGUSR2)
        with group.expect("static join", "join"):
            static = group.start(**{"group.instance.id": "till-1"})
        with group.expect("static return", "static_rejoin"):
            static.kill()
            group.start(**{"group.instance.id": "till-1"})
        for member in group.members:
            member.kill()
        with group.expect("end", "emptied"):
            pass
        with group.expect("delete", "deleted"):
            for future in group.admin.delete_consumer_groups([group.group]).values():
                future.result(30)


def test_a_cooperative_hand_over_and_new_partitions() -> None:
    with stage(
        "cooperative",
        **FAST,
        **{"partition.assignment.strategy": "cooperative-sticky", "topic.metadata.refresh.interval.ms": 1000},
    ) as group:
        with group.expect("join", "join"):
            group.start()
        with group.expect("hand-over", "cooperative_handover"):
            group.start()
        with group.expect("new partitions", "partition_count_change"):
            for future in group.admin.create_partitions([NewPartitions(group.topics[0], 6)]).values():
                future.result(30)


@pytest.mark.skipif(not CONSUMER_PROTOCOL, reason="the broker has no consumer groups")
def test_the_consumer_protocol_and_a_migration() -> None:
    with stage("modern", **{"group.protocol": "consumer"}) as group:
        with group.expect("join", "join"):
            first = group.start()
        with group.expect("new subscription", "subscription_change"):
            first.send_signal(signal.SIGUSR1)
        with group.expect("new partitions", "partition_count_change"):
            for future in group.admin.create_partitions([NewPartitions(group.topics[0], 6)]).values():
                future.result(30)
        with group.expect("static join", "join"):
            static = group.start(**{"group.instance.id": "till-1"})
        with group.expect("static return", "static_rejoin"):
            static.send_signal(signal.SIGTERM)
            static.wait(20)
            group.start(**{"group.instance.id": "till-1"})
        with group.expect("leave", *GONE):
            first.send_signal(signal.SIGTERM)
    with stage("moving") as group:
        with group.expect("join", "join"):
            group.start()
        with group.expect("migration", "migrated"):
            group.start(**{"group.protocol": "consumer"})


def sizes() -> dict[Path, int]:
    """The bytes of each log; not of the one into which the controller writes by itself, twice a second."""
    files = Path(LOGS).rglob("*.log")
    return {file: file.stat().st_size for file in files if not file.parent.name.startswith("__cluster_metadata")}


def test_the_tables_are_those_of_the_directory_and_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    if not LOGS:
        pytest.skip("MUSTER_TEST_KAFKA_LOGS names no directory")
    before = sizes()
    for words in (["why"], ["events", "--since", "1d"], ["groups", "watch", "--count", "1"]):
        assert main([*words, "--bootstrap-server", KAFKA]) == 0
    open_reader.cache_clear()
    for table in sorted(TABLES.keys() - {"log_problems"}):
        here, there = (
            sorted(
                (
                    {name: value for name, value in row.items() if name not in {"segment_base", "pos", "log_dir"}}
                    for row in read_table([span for log in log_dirs([path]) for span in spans(log)], table).to_pylist()
                ),
                key=lambda row: (row["log_partition"], row.get("log_offset", row.get("base_offset"))),
            )
            for path in (f"kafka://{KAFKA}", LOGS)
        )
        assert here == there, table
        print(f"{table}: {len(here)} rows are the same")
    assert sizes() == before
