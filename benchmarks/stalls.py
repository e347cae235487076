"""How long a heartbeat waits beside clients that ask for much, and while the server loads or compacts a long log.

    python -m benchmarks.stalls [--minutes N] [--seed N] [--only WORDS] [--offsets 1000000] [--directory DIR]

A healthy member sends a heartbeat every 20 ms, while the offenders of `offenders.py` do their worst one after the
other. A line each says how long its heartbeats took by the wall clock, how much processor time the longest turn of the
server's loop took at most (which a busy machine does not lengthen), and how much memory the server had gained at most
and after all connections were closed. Aims: p99 under 50 ms, no heartbeat and no turn over 250 ms, 256 MB. `--minutes`
runs random mixes of three offenders at once instead, for so long.

Then one partition of `__consumer_offsets` holds so many live offsets, none of them compacted yet. The server is started
on it, and one connection sends a Heartbeat as soon as the last one was answered: while the log is read and replayed,
while all of it is compacted, which a server begins as soon as it has loaded, and for some seconds afterwards, when
nothing else happens: that is what the machine itself does to such a client. Aim: none waits for more than 100 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import re
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from benchmarks import offenders
from benchmarks.log import fill
from benchmarks.server import Served, resident_mib
from coordinator.client import Client
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.messages.sync_group import SyncGroupRequest
from storage import checkpoint
from storage.files import RealFiles

IDLE_S = 3.0
CASE_S = 4.0  # at least, so that there are heartbeats enough for a p99
PATIENCE_S = 300.0


def waits(client: Client, is_over: Callable[[], bool]) -> list[float]:
    """Milliseconds that each Heartbeat took, until it is over, which is asked ten times a second."""
    found: list[float] = []
    began = asked = time.monotonic()
    while True:
        sent = time.perf_counter()
        client.ask(HeartbeatRequest("group-0", 1, "nobody"), version=4)
        found.append(1e3 * (time.perf_counter() - sent))
        if (now := time.monotonic()) >= asked + 0.1:
            if is_over():
                return found
            asked = now
            assert now < began + PATIENCE_S, "it takes too long"


def row(what: str, found: list[float]) -> None:
    inner = sorted(found)
    print(f"{what:28}{sum(found) / 1e3:>8.1f}{len(found):>12,}{inner[len(inner) * 99 // 100]:>10.1f}{inner[-1]:>10.1f}")


class Beating(threading.Thread):
    """A healthy member that sends a heartbeat every 20 ms, and notes how long each took."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._is_over = threading.Event()
        self.waits_ms: list[float] = []
        self.errors = 0

    def run(self) -> None:
        with Client.to(self._address) as client:
            protocols = (JoinGroupRequestProtocol("range", b""),)
            joined = client.ask(JoinGroupRequest("healthy", 6_000, 6_000, "", None, "consumer", protocols), version=3)
            client.ask(SyncGroupRequest("healthy", joined.generation_id, joined.member_id), version=3)
            beat = HeartbeatRequest("healthy", joined.generation_id, joined.member_id)
            while not self._is_over.wait(0.02):
                sent = time.perf_counter()
                self.errors += client.ask(beat, version=4).error_code != 0
                self.waits_ms.append(1e3 * (time.perf_counter() - sent))

    def stop(self) -> None:
        self._is_over.set()
        self.join()


def long_turns(server: Served) -> dict[float, float]:
    """How many long turns took at most so many ms of processor time."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = re.findall(r'^muster_long_turn_cpu_seconds_bucket{le="(\S+)"} (\S+)', text, re.MULTILINE)
    return {1e3 * float(bound): float(count) for bound, count in found}


def longest_turn_ms(before: dict[float, float], after: dict[float, float]) -> float:
    """The bound of the bucket that the longest turn in between fell into; 0 if none was long."""
    more = {bound: after[bound] - before[bound] for bound in after}
    return min(bound for bound in more if more[bound] == more[math.inf]) if more[math.inf] else 0.0


def beside(folder: Path, name: str, chosen: list[offenders.Offender], large: bool) -> bool:
    """Print a line about a member beside these offenders. Returns whether the aims were met."""
    with Served(folder, "--topic", f"{offenders.TOPIC}:2100") as server, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        prepare(address, stack, large)
        before, turns = resident_mib(server.pid), long_turns(server)
        member = Beating(server.kafka)
        member.start()
        began = time.monotonic()
        with contextlib.ExitStack() as connections:
            threads = [threading.Thread(target=offend, args=(address, connections)) for offend in chosen]
            for thread in threads:
                thread.start()
            peak = before
            while any(thread.is_alive() for thread in threads):
                peak = max(peak, resident_mib(server.pid))
                time.sleep(0.05)
            time.sleep(0.5)
            peak = max(peak, resident_mib(server.pid))
        time.sleep(max(0.5, began + CASE_S - time.monotonic()))
        member.stop()
        longest = longest_turn_ms(turns, long_turns(server))
        inner = sorted(member.waits_ms)
        p99, worst = inner[len(inner) * 99 // 100], inner[-1]
        after = resident_mib(server.pid)
        is_met = p99 < 50 and worst < 250 and longest <= 250 and peak - before < 256 and not member.errors
        memory = f"{peak - before:>8.0f}{after - before:>8.0f}{'' if is_met else '   MISSED'}"
        print(f"{name:<56}{len(inner):>7,}{p99:>9.1f}{worst:>9.1f}{longest:>9.1f}{memory}", flush=True)
    return is_met


def prepare(address: offenders.Address, stack: contextlib.ExitStack, large: bool) -> None:
    """Give the server what the offenders ask for: 20,000 groups, 1,000 more with long ids if `large`, and records."""
    offenders.fill_topic(address, stack)
    offenders.make_groups(address, stack, 20_000)
    if large:
        offenders.make_groups(address, stack, 1_000, offenders.LONG_ID)


def cases(directory: str | None, words: str) -> int:
    """Print a line for each offender. Returns how many missed the aims."""
    print(f"{'':<56}{'beats':>7}{'p99 ms':>9}{'max ms':>9}{'turn ms':>9}{'MB more':>8}{'after':>8}")
    missed = 0
    for name, offend in offenders.OFFENDERS.items():
        if words in name:
            with tempfile.TemporaryDirectory(dir=directory) as folder:
                missed += not beside(Path(folder), name, [offend], "unread" in name)
    return missed


def mixes(directory: str | None, minutes: float, seed: int) -> int:
    """Print a line for each mix of three offenders, for so long. Returns how many missed the aims."""
    print(f"seed {seed}\n{'':<56}{'beats':>7}{'p99 ms':>9}{'max ms':>9}{'turn ms':>9}{'MB more':>8}{'after':>8}")
    dice, end, missed = random.Random(seed), time.monotonic() + 60 * minutes, 0
    names = list(offenders.OFFENDERS)
    while time.monotonic() < end:
        mix = dice.sample(names, 3)
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            numbers = ", ".join(str(names.index(one) + 1) for one in mix)
            missed += not beside(Path(folder), f"cases {numbers}", [offenders.OFFENDERS[one] for one in mix], True)
    return missed


def measure(folder: Path, offsets: int) -> None:
    """Print one line a phase."""
    directory = str(folder / "__consumer_offsets-0")
    fill(directory, offsets)

    def is_compacted() -> bool:
        found = checkpoint.decode(checkpoint.read(RealFiles(), directory) or b"")
        return found is not None and found.cleaned_to > 0

    print(f"{'':28}{'seconds':>8}{'heartbeats':>12}{'p99, ms':>10}{'longest':>10}")
    served = Served(folder, "--set", "offsets.topic.num.partitions=1")
    with served as server, Client.to(server.kafka) as client, Client.to(server.kafka) as other:
        asking = OffsetFetchRequest("group-0", (OffsetFetchRequestTopic("topic-0", (0,)),))
        row("loading", waits(client, lambda: not other.ask(asking, version=6).error_code))
        row("compacting", waits(client, is_compacted))
        end = time.monotonic() + IDLE_S
        row("nothing else to do", waits(client, lambda: time.monotonic() > end))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--minutes", type=float, default=0, help="run random mixes of offenders for so long, and no more"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="run the offenders that have these words, and no more"
    )
    parser.add_argument("--offsets", type=int, default=1_000_000)
    parser.add_argument("--directory", help="on the disk to be measured; the default is the one for temporary files")
    arguments = parser.parse_args()
    if arguments.minutes:
        raise SystemExit(min(1, mixes(arguments.directory, arguments.minutes, arguments.seed)))
    missed = cases(arguments.directory, arguments.only)
    if not arguments.only:
        with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
            measure(Path(folder), arguments.offsets)
    raise SystemExit(min(1, missed))


if __name__ == "__main__":
    main()
