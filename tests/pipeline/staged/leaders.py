"""Follow a cluster of three nodes whose leaders are killed, by `events --follow`, `why --follow` and `pipeline follow`.

The broker that leads the group's partition of `__consumer_offsets` is killed while members come and go and a tool
commits; it comes back, and the new leader is killed. Afterwards each rebalance must have been told once, and the tables
that were made on the way must be those of the cluster as it is then, row by row.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator.client import ClientError
from coordinator.client.log_reader import LogReader
from pipeline import manifest
from pipeline.decode.layout import TOPIC
from protocol.java_hash import partition_of
from tests.conformance.kafka import Broker
from tests.live import wait_until
from tests.pipeline.staged.follower import Follower, make_topic_of_groups
from tests.pipeline.staged.tables import PLACE, read_rows

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "6000",
}
GROUP, ORDERS = "shop", "orders"
KILLS, PATIENCE_S, COMMIT_EVERY_S = 3, 120, 0.05


def check(brokers: Sequence[Broker]) -> int:
    """Kill leaders, compare, print what was compared, and return how many differences there were."""
    addresses = ",".join(f"127.0.0.1:{one.port}" for one in brokers)
    servers = {"bootstrap.servers": addresses, "log_level": 0}
    admin = AdminClient(servers)
    for future in admin.create_topics([NewTopic(ORDERS, 4, 3)]).values():
        future.result(60)
    make_topic_of_groups(addresses)
    members: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as home, commits(servers) as committed:
        follower, why, out = Follower(addresses, GROUP), Follower(addresses, GROUP, "why"), Path(home, "tables")
        with follow(addresses, out) as pipeline:
            try:
                for number in range(KILLS):
                    members.append(start_member(servers))
                    await_told(follower, 2 * number + 1)
                    leader = find_leader(addresses)
                    brokers[leader].kill()
                    wait_until("another broker leads", lambda: find_leader(addresses) not in (leader, -1), PATIENCE_S)  # noqa: B023 - called in this round
                    goal = committed[0] + 20
                    wait_until("commits go on", lambda: committed[0] > goal, PATIENCE_S)  # noqa: B023 - called in this round
                    members.append(start_member(servers))
                    await_told(follower, 2 * number + 2)
                    brokers[leader].start()
                    print(f"  {number + 1}: broker {leader} was killed, {committed[0]} commits so far", flush=True)
                    await_in_sync(servers, len(brokers))
            finally:
                for one in members:
                    one.kill()
            await_told(follower, 2 * KILLS + 1)
            await_told(why, 2 * KILLS + 1)
            committed[1] = 1
            time.sleep(3)
            assert (follower.poll(), why.poll(), pipeline.poll()) == (None, None, None), "a command has ended"
            told, told_why = follower.offsets(), why.offsets()
            here = read_rows(f"kafka://{addresses}")
            wait_until(
                "the tables have the last row",
                lambda: len(read_files(out, "group_records")) >= len(here["group_records"]),
                PATIENCE_S,
            )
            follower.close()
            why.close()
        wrong = compare(out, here)
    expected = {
        offset for (partition, offset), row in here["group_records"].items()
        if partition == partition_of(GROUP, 4) and row["group"] == GROUP and row["key_version"] == 2 and row["epoch"]
    }  # fmt: skip
    for command, offsets in (("events", told), ("why", told_why)):
        doubled, missing = len(offsets) - len(set(offsets)), len(expected - set(offsets))
        print(f"  {command}: {len(offsets)} rebalances of {len(expected)}, {doubled} twice, {missing} not at all")
        wrong += doubled + missing
    print(f"  {wrong} differences", flush=True)
    return wrong


def compare(out: Path, here: Any) -> int:
    """Return how many rows of the tables are missing, there twice, or others than those of the cluster."""
    wrong = 0
    for table in ("group_records", "offset_commits", "unknown_records", "batches"):
        rows = read_files(out, table)
        keys = Counter((row["log_partition"], row.get("log_offset", row.get("base_offset"))) for row in rows)
        twice = sum(times - 1 for times in keys.values())
        other = sum(
            here[table].get((row["log_partition"], row.get("log_offset", row.get("base_offset"))))
            != {name: value for name, value in row.items() if name not in PLACE}
            for row in rows
        )
        missing = len(here[table].keys() - keys.keys())
        print(f"  {table}: {len(rows)} rows, {twice} twice, {missing} missing, {other} others", flush=True)
        wrong += twice + missing + other
    return wrong


def read_files(out: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a raw table, as the manifest lists its files."""
    files = manifest.load(out).files.get(table, ())
    return [row for file in files for row in pq.read_table(out / file, partitioning=None).to_pylist()]


def find_leader(addresses: str) -> int:
    """Return the broker that leads the group's partition; -1 while there is none, or nobody to ask."""
    try:
        with LogReader(addresses.split(","), TOPIC, timeout=5.0) as reader:
            leaders = reader.describe().leaders
    except ClientError:
        return -1
    return leaders[partition_of(GROUP, len(leaders))]


def await_in_sync(servers: dict[str, Any], nodes: int) -> None:
    """Wait until all replicas of the group's topic are in sync, so that another leader may be killed."""
    admin = AdminClient(servers)

    def are_in_sync() -> bool:
        found = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
        return all(len(one.isrs) == nodes for one in found.values())

    wait_until("all replicas are in sync", are_in_sync, PATIENCE_S)


def await_told(follower: Follower, number: int) -> None:
    """Wait until at least so many rebalances are told."""
    wait_until(f"{number} rebalances are told", lambda: len(follower.offsets()) >= number, PATIENCE_S)


def start_member(servers: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """Start a member of the group."""
    conf = {**servers, "group.id": GROUP, "session.timeout.ms": 45_000, "auto.offset.reset": "earliest"}
    words = [sys.executable, "-m", "tests.pipeline.staged.member", json.dumps(conf), ORDERS]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL)


@contextmanager
def follow(addresses: str, out: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """`pipeline follow` in a process of its own."""
    words = ["pipeline", "follow", f"kafka://{addresses}", "--out", str(out), "--every", "500"]
    process = subprocess.Popen([sys.executable, "-m", "coordinator", *words], stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def commits(servers: dict[str, Any]) -> Iterator[list[int]]:
    """A tool that commits all the time. Yields how often it did, and whether it is to end."""
    state = [0, 0]

    def commit() -> None:
        consumer = Consumer({**servers, "group.id": "tool"})
        producer = Producer(servers)
        for number in count():
            if state[1]:
                break
            producer.produce(ORDERS, b"x", partition=number % 4)
            producer.poll(0)
            try:
                consumer.commit(offsets=[TopicPartition(ORDERS, n, number) for n in range(4)], asynchronous=False)
                state[0] += 1
            except KafkaException:
                pass  # the coordinator moves
            time.sleep(COMMIT_EVERY_S)
        consumer.close()

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        yield state
    finally:
        state[1] = 1
        thread.join()
