"""How long a heartbeat waits beside clients that ask for much, and while the server loads or compacts a long log.

    python -m benchmarks.stalls [--minutes N] [--seed N] [--only WORDS] [--offsets 1000000] [--directory DIR]

A healthy member in a process of its own sends a heartbeat every 20 ms, while the offenders of `offenders.py` do their
worst one after the other. A line each says how much processor time the server used between a heartbeat and its response
(p99 and longest), how much its longest turn took, and how much memory it had gained at most and after all connections
were closed, then without what it holds by its own count (`muster_held_bytes`). Processor time is the server's own: the
line ends with the same times by the wall clock, which a busy machine lengthens. Aims: p99 under 50 ms, no heartbeat and
no turn over 250 ms, 256 MiB, 48 MiB afterwards. `--minutes` runs random mixes of three offenders at once instead, for
so long. The last line is the verdict, as is the exit code.

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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import offenders
from benchmarks.log import fill
from benchmarks.member import Member, p99
from benchmarks.server import RunningServer, resident_mib
from coordinator.client import Client
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from storage import checkpoint
from storage.real_files import RealFiles

IDLE_S = 3.0
CASE_S = 6.0  # at least, so that there are heartbeats enough for a p99
GONE_S = 20.0  # for what was begun for clients that have left
PATIENCE_S = 300.0
P99_MS, LONGEST_MS, PEAK_MIB, AFTER_MIB = 50, 250, 256, 48
OPTIONS = ("--topic", f"{offenders.TOPIC}:2100")


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


def scrape(server: RunningServer) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/metrics", timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def held_mib(text: str) -> float:
    """What the server holds by its own count, each kind of it bounded by a setting."""
    return sum(map(float, re.findall(r"^muster_held_bytes{.*} (\S+)", text, re.MULTILINE))) / 2**20


def turns_of(text: str) -> tuple[dict[float, float], float]:
    """How many long turns, and stretches of other work, took at most so many ms of processor time, and how long the
    longest since the start took."""
    found = re.findall(r'^muster_long_work_cpu_seconds_bucket{le="([^"]+)",work="\w+"} (\S+)', text, re.MULTILINE)
    longest = re.findall(r'^muster_long_work_cpu_longest_seconds{work="\w+"} (\S+)', text, re.MULTILINE)
    counts: dict[float, float] = {}
    for bound, count in found:
        counts[1e3 * float(bound)] = counts.get(1e3 * float(bound), 0.0) + float(count)
    return counts, 1e3 * max(map(float, longest))


def longest_turn_ms(before: dict[float, float], after: dict[float, float], longest_ms: float) -> float:
    """The longest turn in between: the bound of its bucket, if an earlier one was longer; 0 if none was long."""
    more = {bound: after[bound] - before[bound] for bound in after}
    return min(longest_ms, *(bound for bound in more if more[bound] == more[math.inf])) if more[math.inf] else 0.0


class Verdict(NamedTuple):
    """What a healthy member and the memory of the server went through beside offenders. Times are milliseconds of the
    server's own processor time, but for the last two; memory is MiB more than before."""

    name: str
    heartbeats: int
    errors: int
    p99_ms: float
    longest_ms: float
    turn_ms: float
    peak_mib: float
    after_mib: float
    wall_p99_ms: float
    wall_longest_ms: float

    def missed_aims(self) -> list[str]:
        """Which aims were missed."""
        aims = {
            f"{self.errors} heartbeats were refused": self.errors == 0,
            f"{self.heartbeats} heartbeats": self.heartbeats > 0,
            f"p99 is {self.p99_ms:.1f} ms": self.p99_ms < P99_MS,
            f"one heartbeat took {self.longest_ms:.1f} ms": self.longest_ms < LONGEST_MS,
            f"a turn took {self.turn_ms:.1f} ms": self.turn_ms < LONGEST_MS,
            f"{self.peak_mib:.0f} MiB more": self.peak_mib < PEAK_MIB,
            f"{self.after_mib:.0f} MiB more at the end": self.after_mib < AFTER_MIB,
        }
        return [what for what, is_met in aims.items() if not is_met]

    def row(self) -> str:
        figures = (self.p99_ms, self.longest_ms, self.turn_ms, self.peak_mib, self.after_mib)
        line = f"{self.name:<56}{self.heartbeats:>7,}" + "".join(f"{figure:>9.1f}" for figure in figures)
        line += f"{self.wall_p99_ms:>10.1f}{self.wall_longest_ms:>9.1f}"
        return "   MISSED: ".join([line, *filter(None, [", ".join(self.missed_aims())])])


HEADER = (
    f"{'':<56}{'beats':>7}{'p99 ms':>9}{'max ms':>9}{'turn ms':>9}{'MiB more':>9}{'after':>9}{'wall p99':>10}{'max':>9}"
)


def beside(folder: Path, name: str, chosen: Sequence[offenders.Offender], large: bool) -> Verdict:
    """Let a member send heartbeats beside these offenders, and return how it went."""
    with RunningServer(folder, *OPTIONS) as server:
        address = ("127.0.0.1", server.port)
        with contextlib.ExitStack() as preparing:
            prepare(address, preparing, large)
        earlier = scrape(server)  # not while the member sends heartbeats: a scrape is work for the server as well
        with Member(server.kafka, server.pid) as member:
            before = peak = resident_mib(server.pid)
            began = time.monotonic()

            def watch(until: Callable[[], bool]) -> None:
                nonlocal peak
                while not until():
                    peak = max(peak, resident_mib(server.pid))
                    time.sleep(0.02)

            with contextlib.ExitStack() as connections:
                threads = [threading.Thread(target=offend, args=(address, connections)) for offend in chosen]
                for thread in threads:
                    thread.start()
                watch(lambda: not any(thread.is_alive() for thread in threads))
                ended = time.monotonic()
                watch(lambda: time.monotonic() > ended + 0.5)
            ended = time.monotonic()
            watch(lambda: time.monotonic() > max(ended + 0.5, began + CASE_S))
            watch(lambda: resident_mib(server.pid) - before < AFTER_MIB or time.monotonic() > ended + GONE_S)
        later = scrape(server)
        turn_ms = longest_turn_ms(turns_of(earlier)[0], *turns_of(later))
        after = resident_mib(server.pid) - (held_mib(later) - held_mib(earlier))
    found = member.heartbeats
    figures = (p99(found.own_ms), max(found.own_ms), turn_ms, peak - before, after - before)
    return Verdict(name, len(found.own_ms), found.errors, *figures, p99(found.wall_ms), max(found.wall_ms))


def prepare(address: offenders.Address, stack: contextlib.ExitStack, large: bool) -> None:
    """Give the server what the offenders ask for: 20,000 groups, 1,000 more with long ids if `large`, and records."""
    offenders.fill_topic(address, stack)
    offenders.make_groups(address, stack, 20_000)
    if large:
        offenders.make_groups(address, stack, 1_000, offenders.LONG_ID)


def run(directory: str | None, name: str, chosen: Sequence[offenders.Offender], large: bool) -> Verdict:
    """Print a line about a member beside these offenders."""
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        verdict = beside(Path(folder), name, chosen, large)
    print(verdict.row(), flush=True)
    return verdict


def cases(directory: str | None, words: str) -> int:
    """Print a line for each offender. Returns how many missed the aims."""
    chosen = [name for name in offenders.OFFENDERS if words in name]
    print(HEADER)
    verdicts = [run(directory, name, [offenders.OFFENDERS[name]], "unread" in name) for name in chosen]
    return conclude(verdicts)


def mixes(directory: str | None, minutes: float, seed: int) -> int:
    """Print a line for each mix of three offenders, for so long. Returns how many missed the aims."""
    print(f"seed {seed}\n{HEADER}")
    dice, end = random.Random(seed), time.monotonic() + 60 * minutes
    names, verdicts = list(offenders.OFFENDERS), []
    while time.monotonic() < end:
        mix = dice.sample(names, 3)
        numbers = ", ".join(str(names.index(one) + 1) for one in mix)
        verdicts.append(run(directory, f"cases {numbers}", [offenders.OFFENDERS[one] for one in mix], True))
    return conclude(verdicts)


def conclude(verdicts: Sequence[Verdict]) -> int:
    """Print the verdict on all of them. Returns how many missed the aims."""
    missed = sum(bool(verdict.missed_aims()) for verdict in verdicts)
    beats = sum(verdict.heartbeats for verdict in verdicts)
    print(f"{len(verdicts)} runs, {beats:,} heartbeats: " + (f"{missed} MISSED" if missed else "all aims were met"))
    return missed


def measure(folder: Path, offsets: int) -> None:
    """Print one line a phase."""
    directory, options = str(folder / "__consumer_offsets-0"), ("--set", "offsets.topic.num.partitions=1")
    with RunningServer(folder, "--topic", "topic-0:1", *options) as server:  # its catalog names what is on the disk
        one = OffsetCommitRequestTopic("topic-0", partitions=(OffsetCommitRequestPartition(0, 1),))
        with Client.to(server.kafka) as client:
            client.ask(OffsetCommitRequest("group-0", topics=(one,)), version=8)
    fill(directory, offsets)

    def is_compacted() -> bool:
        found = checkpoint.decode(checkpoint.read(RealFiles(), directory) or b"")
        return found is not None and found.cleaned_to > 0

    print(f"{'':28}{'seconds':>8}{'heartbeats':>12}{'p99, ms':>10}{'longest':>10}")
    with RunningServer(folder, *options) as server, Client.to(server.kafka) as client, Client.to(server.kafka) as other:
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
