"""What compaction costs beside the commits that make it necessary.

    python -m benchmarks.upkeep [--records 2000000] [--rounds 3] [--directory DIR]

Groups commit again and again to a whole node without sockets: its frontend reads the frames of a turn, the node
decides, and the turn's records are appended to real files. After every so many records the janitor has its round, as
it has every second in a server. Printed are microseconds of this process's CPU a commit, those of upkeep beside it,
and the longest step of the janitor: the least of some rounds. Syncing files is CPU of the system, and much of it on
some disks: `--directory /dev/shm` shows what is left without.

In the first two shapes few groups commit the same offsets, so that nearly every record is soon dead. In the third one,
there is as much to keep as to drop.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import tempfile
import time
from pathlib import Path

from msgspec import Struct

from coordinator.runtime.janitor import Janitor
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from storage.real_files import RealFiles
from tests.server.in_memory import InMemory, Peer

VERSION = 8
TURN_COMMITS = 16
ROUND_RECORDS = 100_000
TOPIC = "load"
CORRELATION = 1_000  # beyond those of the requests before


class Shape(Struct, frozen=True):
    """Groups that commit so many partitions each, one group after the other."""

    label: str
    groups: int
    partitions: int


SHAPES = (
    Shape("16 groups, 10 partitions", 16, 10),
    Shape("4 groups, 100 partitions", 4, 100),
    Shape("20,000 groups, 10 partitions", 20_000, 10),
)


class Cost(Struct, frozen=True):
    """CPU of one round of a shape."""

    commit_us: float
    upkeep_us: float
    longest_step_ms: float
    compactions: int


def turns_of(shape: Shape, peer: Peer) -> list[bytes]:
    """The commits of all groups, those of a turn in one chunk."""
    each = tuple(
        [OffsetCommitRequestPartition(index, 1000, -1, committed_metadata="") for index in range(shape.partitions)]
    )
    topics = (OffsetCommitRequestTopic(TOPIC, partitions=each),)
    frames = [
        peer.frame(OffsetCommitRequest(f"group-{number}", topics=topics), VERSION, CORRELATION + number)
        for number in range(shape.groups)
    ]
    return [b"".join(frames[at : at + TURN_COMMITS]) for at in range(0, len(frames), TURN_COMMITS)]


def measure(shape: Shape, records: int) -> Cost:
    """Commit so many records to a new node in the working directory."""
    Path("data").mkdir()
    server = InMemory(RealFiles())
    peer = server.connect()
    peer.ask(CreateTopicsRequest((CreateTopicsRequestCreatableTopic(TOPIC, shape.partitions, 1),)), 5)
    janitor = Janitor(server.node, server.clock.now_ms())
    turns = itertools.cycle(turns_of(shape, peer))
    turn_records = min(TURN_COMMITS, shape.groups) * shape.partitions
    serving = upkeep = longest = 0.0
    compactions = 0
    gc.collect()
    for _ in range(records // ROUND_RECORDS):
        began = time.process_time()
        for _ in range(ROUND_RECORDS // turn_records):
            server.frontend.receive(peer.connection, next(turns))
            for connection in server.frontend.finish():
                server.frontend.outbox.take(connection)
        serving += time.process_time() - began
        began = step = time.process_time()
        cleaned = {one.directory: one.checkpoint.cleaned_to for one in server.node.compacted_logs()}
        for _ in janitor.round(server.clock.now_ms()):
            now = time.process_time()
            longest, step = max(longest, now - step), now
        upkeep += time.process_time() - began
        compactions += sum(one.checkpoint.cleaned_to > cleaned[one.directory] for one in server.node.compacted_logs())
    server.node.close()
    commits = records / shape.partitions
    return Cost(serving / commits * 1e6, upkeep / commits * 1e6, longest * 1e3, compactions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", help="on the disk to be measured; the default is the one for temporary files")
    arguments = parser.parse_args()
    costs: dict[str, list[Cost]] = {shape.label: [] for shape in SHAPES}
    for _ in range(arguments.rounds):
        for shape in SHAPES:
            with tempfile.TemporaryDirectory(dir=arguments.directory) as temporary, contextlib.chdir(temporary):
                costs[shape.label].append(measure(shape, arguments.records))
    print(f"{'CPU us a commit:':<30}{'commit':>8}{'upkeep':>8}{'share':>8}{'longest step':>15}{'compactions':>13}")
    for label, found in costs.items():
        commit, upkeep = min(one.commit_us for one in found), min(one.upkeep_us for one in found)
        longest = min(one.longest_step_ms for one in found)
        share = f"{upkeep / (commit + upkeep):.1%}"
        print(f"{label:<30}{commit:>8.1f}{upkeep:>8.1f}{share:>8}{longest:>12.1f} ms{found[0].compactions:>13}")


if __name__ == "__main__":
    main()
