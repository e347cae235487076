"""Compare the tables of a cluster's topic with those of its broker's directory, under load, while segments are cleaned.

Records of a compacted topic only ever disappear. So of three readings one after the other, of the cluster, of a copy of
the directory, and of the cluster again, each has all rows of the next one up to the end of the first. When the load has
ended and the cleaner has no more to do, the rows are the same, and the latest offsets are those that the broker answers.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from coordinator.cli.cluster import Cluster
from coordinator.cli.group_list import list_groups
from coordinator.cli.group_offsets import fetch_offsets
from coordinator.client.log_reader import LogReader
from coordinator.client.offsets import LATEST
from pipeline.decode.cluster import open_reader
from pipeline.decode.latest import latest
from pipeline.decode.layout import TOPIC, log_dirs, logs_at, spans
from pipeline.decode.rows import Options, read_table
from pipeline.decode.schema import TABLES
from tests.conformance.kafka import Broker

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.segment.bytes": "1048576",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.compaction.lag.ms": "0",
}
OF_TOPIC = {"segment.ms": "4000", "file.delete.delay.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
PLACE = ("segment_base", "pos", "log_dir")  # where a batch lies in files, which no client can see
ROUNDS, QUIET_S, PATIENCE_S = 5, 5.0, 120.0
Key = tuple[int, int]  # partition and offset
Rows = dict[str, dict[Key, dict[str, Any]]]  # by table


def check(broker: Broker) -> int:
    """Compare, print what was compared, and return how many differences there were."""
    cluster, logs = f"127.0.0.1:{broker.port}", broker.directory / "data"
    wrong = removed = 0
    earlier: Rows = {}
    with load(cluster):
        time.sleep(10)
        roll_often(cluster)
        time.sleep(10)
        for number in range(ROUNDS):
            ends = read_ends(cluster)
            first = read_rows(f"kafka://{cluster}")
            with copied(logs) as copy:
                second = read_rows(str(copy))
            wrong += lacking(first, second, ends) + lacking(second, read_rows(f"kafka://{cluster}"), ends)
            removed += gone(earlier or first, second)
            earlier = second
            print(f"  under load, {number + 1}: {format_counts(first)}; {removed} cleaned away so far", flush=True)
            time.sleep(2)
    await_quiet(logs)
    before = contents(logs)
    here, there = read_rows(f"kafka://{cluster}"), read_rows(str(logs))
    for words in (["why"], ["events"], ["groups", "watch", "--count", "1"]):
        with (broker.directory / "said.txt").open("w") as said:
            command = [sys.executable, "-m", "coordinator", *words, "--bootstrap-server", cluster]
            wrong += subprocess.run(command, stdout=said, timeout=120).returncode != 0
    wrong += sum(here[table] != there[table] for table in here) + (contents(logs) != before)
    newest = [read_latest(path) for path in (f"kafka://{cluster}", str(logs))]
    answers = ask_offsets(cluster)
    wrong += (newest[0] != newest[1]) + len(newest[0].items() ^ answers.items())
    print(f"  at rest: {format_counts(here)}, {len(newest[0])} latest offsets, {len(answers)} by OffsetFetch")
    print(
        f"  bytes of the cluster's logs: {sum(sizes(logs).values())}, the same before and after: {contents(logs) == before}"
    )
    print(f"  {wrong} differences" if removed else "  nothing was cleaned away, so this shows little", flush=True)
    return wrong + (not removed)


def roll_often(cluster: str) -> None:
    """Let the topic's segments be short, so that most of it may be cleaned."""
    entries = [ConfigEntry(*one, incremental_operation=AlterConfigOpType.SET) for one in OF_TOPIC.items()]
    admin = AdminClient({"bootstrap.servers": cluster})
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def lacking(more: Rows, less: Rows, ends: dict[int, int]) -> int:
    """Return how many rows before the ends the earlier reading lacks or has otherwise, and print some."""
    found = [
        (table, key, row, more[table].get(key))
        for table, rows in less.items()
        for key, row in rows.items()
        if key[1] < ends.get(key[0], 0) and more[table].get(key) != row and table != "batches"
    ]
    for one in found[:3]:
        print("  DIFFERENT:", *one)
    return len(found)


def gone(first: Rows, second: Rows) -> int:
    """Return how many rows the cleaner has removed between two readings."""
    return sum(len(rows.keys() - second[table].keys()) for table, rows in first.items())


def format_counts(rows: Rows) -> str:
    """Return how many rows each table has."""
    return ", ".join(f"{len(of)} {table}" for table, of in rows.items())


def read_rows(path: str) -> Rows:
    """Return the rows of all tables but that of problems, without their place."""
    open_reader.cache_clear()
    cut = [span for log in log_dirs([path]) for span in spans(log)]
    return {
        table: dict(_keyed(read_table(cut, table).to_pylist())) for table in sorted(TABLES.keys() - {"log_problems"})
    }


def _keyed(rows: list[dict[str, Any]]) -> Iterator[tuple[Key, dict[str, Any]]]:
    for row in rows:
        yield (
            (row["log_partition"], row.get("log_offset", row.get("base_offset"))),
            {name: value for name, value in row.items() if name not in PLACE},
        )


def read_latest(path: str) -> dict[tuple[str, str, int], int]:
    """Return the latest offsets of all groups, transactions considered."""
    open_reader.cache_clear()
    rows = [row for log in logs_at([path]) for row in latest(spans(log), Options()).to_pylist()]
    return {(row["group"], row["topic"], row["partition"]): row["committed_offset"] for row in rows}


def ask_offsets(address: str) -> dict[tuple[str, str, int], int]:
    """Return the committed offsets of all groups as the broker answers them."""
    with Cluster([address]) as cluster:
        groups = [one["group"] for one in list_groups(cluster, [], [])]
        return {
            (group, one.topic, one.partition): one.offset for group in groups for one in fetch_offsets(cluster, group)
        }


def read_ends(cluster: str) -> dict[int, int]:
    """Return where each partition ends."""
    with LogReader([cluster], TOPIC) as reader:
        return reader.offsets(LATEST)


def sizes(logs: Path) -> dict[str, int]:
    """Return the bytes of each log; not of the one into which the controller writes by itself, twice a second."""
    files = [file for file in logs.rglob("*.log") if not file.parent.name.startswith("__cluster_metadata")]
    return {str(file): file.stat().st_size for file in files}


def contents(logs: Path) -> dict[str, str]:
    """Return a digest of each log, but for that of the controller."""
    return {file: hashlib.blake2b(Path(file).read_bytes()).hexdigest() for file in sizes(logs)}


def await_quiet(logs: Path) -> None:
    """Wait until no log has changed for a while, cleaning included."""
    deadline, since, known = time.monotonic() + PATIENCE_S, time.monotonic(), sizes(logs)
    while time.monotonic() - since < QUIET_S:
        assert time.monotonic() < deadline, f"the logs still change after {PATIENCE_S:.0f} s"
        time.sleep(0.5)
        if (now := sizes(logs)) != known:
            known, since = now, time.monotonic()


@contextmanager
def copied(logs: Path) -> Iterator[Path]:
    """A copy of the topic's directories, made in a moment in which no segment came or went."""
    for _ in range(50):
        with tempfile.TemporaryDirectory() as home:
            before = _segments(logs)
            try:
                for source in logs.glob(f"{TOPIC}-*"):
                    shutil.copytree(source, Path(home) / source.name)
            except (OSError, shutil.Error):
                continue
            if _segments(logs) == before:
                yield Path(home)
                return
    raise AssertionError("the cleaner never rests")


def _segments(logs: Path) -> set[tuple[str, int]]:
    found = set()
    for file in logs.glob(f"{TOPIC}-*/*"):
        try:
            found.add((str(file), file.stat().st_ino))
        except FileNotFoundError:
            return {("", time.monotonic_ns())}
    return found


@contextmanager
def load(cluster: str) -> Iterator[None]:
    """Groups that commit, in transactions and without, members that come and go, until the block ends."""
    worker = subprocess.Popen([sys.executable, "-m", "tests.pipeline.staged.load", cluster])
    try:
        yield
        assert worker.poll() is None, "the load ended early"
    finally:
        worker.terminate()
        worker.wait(60)
