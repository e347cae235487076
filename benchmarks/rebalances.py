"""How long a rebalance takes for released clients: with the defaults, with `--fast`, and with their own settings.

    python -m benchmarks.rebalances [--rounds 5]

confluent-kafka, one topic of four partitions: the first member joins, a second one joins, the second one leaves. Time
from the call until every member has its share, medians. `bare` is the server without `--fast`, whose members get
Kafka's intervals.
"""

import argparse
import statistics
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{'seconds, medians of ' + str(rounds):45} {'first joins':>12} {'second joins':>13} {'it leaves':>10}")
    for name, (options, settings) in CASES.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            RunningServer(Path(folder) / "data", *options, "--topic", "t:4") as server,
        ):
            found = [rebalance(server.kafka, f"g{number}", settings) for number in range(rounds)]
        alone, joined, left = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"{name:45} {alone:12.2f} {joined:13.2f} {left:10.2f}")


if __name__ == "__main__":
    main()
