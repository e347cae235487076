"""What steering costs a server: the journal, a reset, a move of the clock, and the modules at the start.

    python -m benchmarks.steering [--seconds 3] [--rounds 5]

Heartbeats: CPU per request of a server with its journal (16 MiB, full and dropping what is oldest), beside one without,
measured in turn; events and the timeline are on in both, as they always are. A reset of 1,000 groups, with their logs
on the disk, and a move of the clock over 10,000 members: CPU of the server for the one call. The start: the share of
the modules of steering in all that `muster serve` imports before it is ready.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.requests import WORKS, check, frames_of, measure, prepare
from benchmarks.server import RunningServer, cpu_nanoseconds
from coordinator.client import Client
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

JOURNAL: Final = ("--set", "journal.max.bytes=16777216")
GROUPS, MEMBERS, MEMBERS_A_GROUP = 1_000, 10_000, 10
STEERING: Final = re.compile(
    r"coordinator\.(control\b.*|server\.(verbs\b.*|operator|gate)|core\.verbs|runtime\.advance)"
)


def call(server: RunningServer, method: str, path: str, **body: Any) -> Any:
    """Call the control API."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"http://127.0.0.1:{server.admin_port}/v1{path}", data, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def heartbeats(folder: Path, seconds: float, rounds: int) -> None:
    """Print the CPU of a heartbeat without and with a journal, in each shape."""
    works = [work for work in WORKS if work.label == "heartbeats"]
    found: dict[tuple[int, bool], list[float]] = {}
    with RunningServer(folder / "off") as off, RunningServer(folder / "on", *JOURNAL) as on:
        for server in (off, on):
            prepare(server.kafka)
        for _ in range(rounds):
            for index, work in enumerate(works):
                for server in (off, on):
                    frames = frames_of(work, server.kafka)
                    check(work, server, frames[0])
                    found.setdefault((index, server is on), []).append(measure(server, work, frames, seconds)[1])
    for index, work in enumerate(works):
        without, with_it = (statistics.median(found[index, is_on]) for is_on in (False, True))
        shape = f"heartbeats {work.connections} x {work.depth}"
        print(
            f"{shape:<28} CPU us {without:>6.1f}, with a journal {with_it:>6.1f}: {with_it / without:.2f} (aim: 1.25)"
        )


def cpu_ms(server: RunningServer, act: Callable[[], object]) -> float:
    """Milliseconds of the server's CPU that a call takes."""
    before = cpu_nanoseconds(server.pid)
    act()
    return (cpu_nanoseconds(server.pid) - before) / 1e6


def resets(folder: Path, rounds: int) -> None:
    """Print what a reset of 1,000 groups costs, with logs on the disk."""
    offsets = {f"group-{number}": {"orders": {"0": number}} for number in range(GROUPS)}
    taken = []
    with RunningServer(folder / "reset", "--topic", "orders:4") as server:
        for _ in range(rounds):
            call(server, "POST", "/state", offsets=offsets)
            taken.append(cpu_ms(server, lambda: call(server, "POST", "/reset")))
    print(
        f"reset of {GROUPS:,} groups        CPU ms {statistics.median(taken):>6.1f}, worst {max(taken):.1f} (aim: 50)"
    )


def join(server: RunningServer) -> None:
    """Let members of the consumer protocol join, in groups of ten."""
    with Client.to(server.kafka, client_id="member") as client:
        for number in range(MEMBERS):
            request = ConsumerGroupHeartbeatRequest(
                f"group-{number // MEMBERS_A_GROUP}", f"m{number}", 0, rebalance_timeout_ms=60_000,
                subscribed_topic_names=("orders",), topic_partitions=(),
            )  # fmt: skip
            client.ask(request, version=1)


def advances(folder: Path, rounds: int) -> None:
    """Print what it costs to move the clock past the sessions of 10,000 members: renewed, and ended."""
    with RunningServer(folder / "advance", "--topic", "orders:4") as server:
        join(server)
        taken = [
            cpu_ms(server, lambda: call(server, "POST", "/clock/advance", ms=46_000, keep_alive="all"))
            for _ in range(rounds)
        ]
        found = f"{statistics.median(taken):>6.1f}, worst {max(taken):.1f}"
        print(f"advance, {MEMBERS:,} renewed     CPU ms {found} (aim: 200)")
        ended = cpu_ms(server, lambda: call(server, "POST", "/clock/advance", ms=46_000))
        print(f"advance, {MEMBERS:,} expired     CPU ms {ended:>6.1f}")


def imports(rounds: int) -> None:
    """Print the share of steering in what a server imports before it serves."""
    shares = []
    for _ in range(rounds + 1):  # the first one writes the bytecode
        command = [sys.executable, "-X", "importtime", "-c", "import coordinator.cli.serving"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
        times = {
            name.strip(): int(own) for own, _, name in (re.split(r"[:|]", line, maxsplit=3)[1:] for line in lines[1:])
        }
        shares.append(sum(own for name, own in times.items() if STEERING.fullmatch(name)) / sum(times.values()))
    print(f"modules of steering          {statistics.median(shares[1:]):.1%} of what a start imports (aim: 5%)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    with tempfile.TemporaryDirectory() as name:
        os.environ["PYTHONPYCACHEPREFIX"] = f"{name}/bytecode"
        imports(args.rounds)
        resets(Path(name), args.rounds)
        advances(Path(name), args.rounds)
        heartbeats(Path(name), args.seconds, args.rounds)


if __name__ == "__main__":
    main()
