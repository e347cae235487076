"""How long a rebalance takes for released clients: with the defaults, with `--fast`, and with their own settings.

    python -m benchmarks.rebalances [--rounds 5] [--classpath 'JARS/*']

confluent-kafka, one topic of four partitions: the first member joins, a second one joins, the second one leaves. Time
from the call until every member has its share, medians. `bare` is the server without `--fast`, whose members get
Kafka's intervals. With `--classpath`, which has kafka-clients and kafka-streams and what they need, share groups and
Streams with `group.protocol=streams` follow, by `java/Rebalances.java`.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer

from benchmarks.server import RunningServer

LIMIT_S: Final = 60.0
CASES: Final[Mapping[str, tuple[Sequence[str], Mapping[str, object]]]] = {
    "consumer protocol, bare": (("--no-fast",), {"group.protocol": "consumer"}),
    "consumer protocol, --fast": (("--fast",), {"group.protocol": "consumer"}),
    "classic protocol": ((), {}),
    "classic protocol, heartbeat.interval.ms=100": ((), {"heartbeat.interval.ms": 100}),
}


def wait_for_shares(members: Sequence[Consumer], share: int) -> float:
    """Poll all members until each has `share` partitions. Returns the seconds that it took."""
    began = time.monotonic()
    while any(len(member.assignment()) != share for member in members):
        assert time.monotonic() < began + LIMIT_S, "no assignment"
        for member in members:
            member.poll(0.005)
    return time.monotonic() - began


def rebalance(kafka: str, group: str, settings: Mapping[str, object]) -> tuple[float, float, float]:
    """Let a member join, another one join, and that one leave."""
    members = []
    for name in "ab":
        members.append(Consumer({"bootstrap.servers": kafka, "group.id": group, "client.id": name, **settings}))
    first, second = members
    first.subscribe(["t"])
    alone = wait_for_shares([first], 4)
    second.subscribe(["t"])
    joined = wait_for_shares([first, second], 2)
    began = time.monotonic()
    second.close()
    wait_for_shares([first], 4)
    left = time.monotonic() - began
    first.close()
    return alone, joined, left


def run_java(classpath: str, kind: str, options: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Let a second Java member of a group start, and one of Streams leave. Returns the seconds of each round."""
    program = Path(__file__).parent / "java" / "Rebalances.java"
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["javac", "-cp", classpath, "-d", folder, program], check=True)
        with RunningServer(Path(folder) / "data", *options, "--topic", "t:4") as server:
            command = ["java", "-cp", f"{folder}:{classpath}", "Rebalances", server.kafka, kind, "t", str(rounds)]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in said.splitlines():
        if line.startswith(("joined ", "left ")):
            what, seconds = line.split()
            found.setdefault(what, []).append(float(seconds))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--classpath", help="jars of Kafka's Java client and of Kafka Streams")
    args = parser.parse_args()
    rounds = args.rounds
    print(f"{'seconds, medians of ' + str(rounds):45} {'first joins':>12} {'second joins':>13} {'it leaves':>10}")
    for name, (options, settings) in CASES.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            RunningServer(Path(folder) / "data", *options, "--topic", "t:4") as server,
        ):
            found = [rebalance(server.kafka, f"g{number}", settings) for number in range(rounds)]
        alone, joined, left = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"{name:45} {alone:12.2f} {joined:13.2f} {left:10.2f}")
    for kind in ("share", "streams") if args.classpath else ():
        for options in (("--no-fast",), ("--fast",)):
            times = run_java(args.classpath, kind, options, rounds)
            shown = ", ".join(
                f"{what} {statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"
                for what, each in times.items()
            )
            print(f"Java, {kind} {options[0]}: {shown}")


if __name__ == "__main__":
    main()
