"""Recovery of many live offsets: Muster, and a real Apache Kafka beside it, in the same run.

    python -m benchmarks.recovery [--offsets 1000000] [--without-kafka] [--heap 1G] [--kill]

The same requests commit the same offsets to both, a hundred a group. Then each is stopped and started again on what it
has kept, in turns with one of each that has the topic and no offsets. Counted is the time from spawning the process
until every partition of `__consumer_offsets` has answered with its offsets, and the memory that is resident then. Aims:
at most half of Kafka's time, of the whole start and of what the offsets add to it, and at most half of its memory.

Kafka needs Java 17; its jars are found or fetched as in `tests/conformance/kafka.py`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.server import cpu_seconds, free_port, resident_mib
from coordinator.client import Client, ClientError
from protocol.errors import ErrorCode
from protocol.java_hash import partition_of
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.conformance import kafka

TOPIC, A_GROUP = "bench", 100
"""The topic that all offsets are of, and how many a group commits: one for each of its partitions."""
OFFSETS_PARTITIONS = 50
PATIENCE_S = 300
_NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class StartReport(msgspec.Struct, frozen=True):
    """What a start took until all was there."""

    seconds: float
    cpu_seconds: float
    resident_mib: float


class Muster:
    """`muster serve` on a data directory."""

    name = "muster"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()

    def prepare(self) -> None:
        """Nothing: the first start makes the directory."""

    def command(self) -> list[str]:
        listen = ["--listen", f"127.0.0.1:{self.port}", "--admin", "off"]
        return [
            *(sys.executable, "-m", "coordinator", "serve", "--log-level", "error"),
            *("--data-dir", str(self._folder), *listen),
        ]


class Kafka:
    """One KRaft node."""

    name = "kafka"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._conf = folder / "server.properties"
        self.port = free_port()

    def prepare(self) -> None:
        self._folder.mkdir()
        settings = {"offsets.topic.num.partitions": str(OFFSETS_PARTITIONS), "group.initial.rebalance.delay.ms": "0"}
        self._conf.write_text(kafka.properties(self._folder, self.port, free_port(), settings))
        form = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(self._conf)]
        subprocess.run(kafka.java(*form), check=True, capture_output=True)

    def command(self) -> list[str]:
        return kafka.java("kafka.Kafka", str(self._conf))


@contextmanager
def running(server: Muster | Kafka, *, kill: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """The server's process; in the end it is asked to stop, or killed."""
    process = subprocess.Popen(server.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        (process.kill if kill else process.terminate)()
        process.wait(PATIENCE_S)


@contextmanager
def connect(server: Muster | Kafka, process: subprocess.Popen[bytes]) -> Iterator[Client]:
    """A client of the server, as soon as it listens."""
    while True:
        assert process.poll() is None, f"{server.name} ended with {process.returncode}"
        try:
            client = Client.to(f"127.0.0.1:{server.port}", seconds=PATIENCE_S)
            break
        except ClientError:
            time.sleep(0.01)
    with client:
        yield client


def commit(client: Client, groups: int) -> None:
    """Make the topic and commit a hundred offsets for each group."""
    topic = CreateTopicsRequestCreatableTopic(TOPIC, A_GROUP, 1)
    error = client.ask(CreateTopicsRequest((topic,)), version=4).topics[0].error_code
    assert error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), ErrorCode(error)
    client.ask(FindCoordinatorRequest(key="group-0"), version=3)  # Kafka makes __consumer_offsets when first asked
    for number in range(groups):
        offsets = [OffsetCommitRequestPartition(index, number + index, -1, -1, "") for index in range(A_GROUP)]
        request = OffsetCommitRequest(
            f"group-{number}", -1, "", None, -1, (OffsetCommitRequestTopic(TOPIC, partitions=tuple(offsets)),)
        )
        while error := _first_error(client, request):
            assert error in _NOT_YET, ErrorCode(error)
            time.sleep(0.05)


def _first_error(client: Client, request: OffsetCommitRequest) -> int:
    answer = client.ask(request, version=8)
    return next((one.error_code for topic in answer.topics for one in topic.partitions if one.error_code), 0)


def await_offsets(client: Client, groups: int) -> None:
    """Return when a group of each partition has its offsets."""
    asked = {partition_of(f"group-{number}", OFFSETS_PARTITIONS): number for number in range(groups)}
    everything = (OffsetFetchRequestTopic(TOPIC, tuple(range(A_GROUP))),)
    for number in asked.values():
        while True:
            answer = client.ask(OffsetFetchRequest(f"group-{number}", everything), version=6)
            if not answer.error_code:
                break
            assert answer.error_code in _NOT_YET, ErrorCode(answer.error_code)
            time.sleep(0.005)
        offsets = [one.committed_offset for one in answer.topics[0].partitions]
        assert sorted(offsets) == [number + index for index in range(A_GROUP)], f"group-{number} is not as it was"


def start(server: Muster | Kafka, groups: int, *, kill: bool) -> StartReport:
    """Start it on what it has, and wait until the offsets of so many groups are there."""
    began = time.monotonic()
    with running(server, kill=kill) as process, connect(server, process) as client:
        if groups:
            await_offsets(client, groups)
        else:
            client.ask(FindCoordinatorRequest(key="group-0"), version=3)
        seconds = time.monotonic() - began
        return StartReport(seconds, cpu_seconds(process.pid), resident_mib(process.pid))


def measure(folder: Path, groups: int, runs: int, *, with_kafka: bool, kill: bool) -> dict[str, list[StartReport]]:
    """The starts of each server, without and with offsets, which take turns."""
    kinds: list[type[Muster] | type[Kafka]] = [Muster, Kafka] if with_kafka else [Muster]
    contenders: list[tuple[str, Muster | Kafka, int]] = []
    for kind in kinds:
        full, empty = kind(folder / f"{kind.name}-full"), kind(folder / f"{kind.name}-empty")
        began = time.monotonic()
        for server, its_groups in ((empty, 0), (full, groups)):
            server.prepare()
            with running(server, kill=kill) as process, connect(server, process) as client:
                commit(client, its_groups)
        print(f"{kind.name}: {groups * A_GROUP:,} offsets in {groups:,} groups, after {time.monotonic() - began:.0f} s")
        contenders += [(f"{kind.name}, empty", empty, 0), (f"{kind.name}, offsets", full, groups)]
    results: dict[str, list[StartReport]] = {name: [] for name, _, _ in contenders}
    for _ in range(runs):
        for name, server, expected in contenders:
            results[name].append(start(server, expected, kill=kill))
    return results


def best(starts: list[StartReport]) -> StartReport:
    return min(starts, key=lambda one: one.seconds)


def report(results: dict[str, list[StartReport]]) -> None:
    print(f"\n{'':24}{'seconds':>10}{'CPU s':>10}{'MiB':>10}")
    for name, starts in results.items():
        one = best(starts)
        print(f"{name:24}{one.seconds:>10.2f}{one.cpu_seconds:>10.2f}{one.resident_mib:>10.0f}")
    if "kafka, offsets" not in results:
        return
    ours, theirs = best(results["muster, offsets"]), best(results["kafka, offsets"])
    added = [
        ours.seconds - best(results["muster, empty"]).seconds,
        theirs.seconds - best(results["kafka, empty"]).seconds,
    ]
    print(f"\nof Kafka's: whole start x {ours.seconds / theirs.seconds:.2f}", end=", ")
    print(f"what the offsets add x {added[0] / added[1]:.2f}", end=", ")
    print(f"memory x {ours.resident_mib / theirs.resident_mib:.2f} (aim: at most 0.5 each)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offsets", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument("--heap", default="1G", help="of Kafka's; its own default is this")
    parser.add_argument("--kill", action="store_true", help="SIGKILL them instead of asking them to stop")
    parser.add_argument("--directory", help="on the disk to be measured; the default is the one for temporary files")
    arguments = parser.parse_args()
    kafka.HEAP = arguments.heap
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        groups = max(1, arguments.offsets // A_GROUP)
        report(
            measure(Path(folder), groups, arguments.runs, with_kafka=not arguments.without_kafka, kill=arguments.kill)
        )


if __name__ == "__main__":
    main()
