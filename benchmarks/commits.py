"""What a commit costs between the sockets, and where: frontend, node and real files, in one process.

    python -m benchmarks.commits [--rounds 9] [--directory DIR]

Clients that are the only member of their group commit the offsets of 10 or of 100 partitions of a topic, with several
requests on the way in each chunk; in the last shape every other request fetches them. Printed are microseconds of this
process' CPU a request, the least of some rounds, and in which part of the program a sampler has found it: at every
millisecond of CPU, by the innermost frame that is in the table. `--directory /dev/shm` leaves the disk out.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import signal
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from msgspec import Struct

from coordinator.server.connection import Connection
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.sync_group import SyncGroupRequest
from storage.real_files import RealFiles
from tests.server.in_memory import InMemory

TOPIC, PARTITIONS = "load", 100
REQUESTS_A_ROUND: Final = 6_000
FIRST_OFFSET: Final = 0x4D7573_0000000000  # with bytes that nothing else in a frame has
SAMPLE_S: Final = 0.001
PARTS: Final = (  # of the program, by the path and the name of a function
    ("note keys", "storage/appended_keys"),
    ("append", "storage/"),
    ("append", "engine.py:append"),
    ("decode", "codec.py:decode_request"),
    ("encode responses", "codec.py:encode_response"),
    ("encode responses", "server/encod"),
    ("count errors", "metrics.py:codes"),
    ("write records", "core/offset_records"),
    ("write records", "protocol/record_batch"),
    ("write records", "runtime/partition.py"),
    ("apply", "core/offsets/store.py:apply_all"),
    ("apply", "core/record_types.py:values"),
    ("look up", "core/offsets/offset_fetch"),
    ("timers", "core/timers"),
    ("decide", "coordinator/core/"),
    ("step", "coordinator/runtime/"),
    ("frontend", "coordinator/server/"),
    ("frontend", "protocol/framing"),
)


class Shape(Struct, frozen=True):
    """So many clients, with so many requests in a chunk."""

    label: str
    clients: int
    depth: int
    partitions: int
    fetches: bool = False


SHAPES: Final = (
    Shape("commits of 10 partitions, 16 x 4", 16, 4, 10),
    Shape("commits of 100 partitions, 4 x 4", 4, 4, 100),
    Shape("commits of 10 partitions and fetches, 4 x 4", 4, 4, 10, fetches=True),
)


class Client:
    """The only member of a group: every commit has the next offset."""

    def __init__(self, server: InMemory, number: int, shape: Shape) -> None:
        group, self.peer = f"group-{number}", server.connect()
        protocols = (JoinGroupRequestProtocol("range", b""),)
        joined = self.peer.ask(JoinGroupRequest(group, 60_000, 60_000, "", None, "consumer", protocols), 3)
        generation, member = joined.generation_id, joined.member_id
        self.peer.ask(SyncGroupRequest(group, generation, member), 3)
        rows = tuple(OffsetCommitRequestPartition(at, FIRST_OFFSET) for at in range(shape.partitions))
        commit = OffsetCommitRequest(
            group, generation, member, topics=(OffsetCommitRequestTopic(TOPIC, partitions=rows),)
        )
        (topic,) = self.peer.ask(commit, 8).topics
        assert not any(each.error_code for each in topic.partitions), topic
        self._commit = self.peer.frame(commit, 8, 1)
        wanted = OffsetFetchRequestTopics(TOPIC, partition_indexes=tuple(range(shape.partitions)))
        fetch = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=(wanted,)),))
        self._fetch = self.peer.frame(fetch, 8, 2)
        self._shape, self._offset = shape, FIRST_OFFSET

    def chunk(self) -> bytes:
        frames = []
        for at in range(self._shape.depth):
            if self._shape.fetches and at % 2:
                frames.append(self._fetch)
            else:
                self._offset += 1
                old, new = struct.pack(">q", FIRST_OFFSET), struct.pack(">q", self._offset)
                frames.append(self._commit.replace(old, new))
        return b"".join(frames)


class Sampler:
    """Counts in which part of the program the process spends its CPU."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        before = signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

    def _look(self, _: int, frame: FrameType | None) -> None:
        while frame is not None:
            name = f"{frame.f_code.co_filename}:{frame.f_code.co_name}"
            for part, path in PARTS:
                if path in name:
                    self.found[part] += 1
                    return
            frame = frame.f_back
        self.found["other"] += 1


def measure(shape: Shape, rounds: int, sampler: Sampler) -> float:
    """Return microseconds of CPU a request, on a new node in the working directory."""
    Path("data").mkdir()
    server = InMemory(RealFiles())
    server.connect().ask(CreateTopicsRequest((CreateTopicsRequestCreatableTopic(TOPIC, PARTITIONS, 1),)), 5)
    clients = [Client(server, number, shape) for number in range(shape.clients)]
    turns = REQUESTS_A_ROUND * 10 // shape.partitions // (shape.clients * shape.depth)
    spans = []
    for _ in range(rounds):
        chunks = [[(client.peer.connection, client.chunk()) for client in clients] for _ in range(turns)]
        gc.collect()
        with sampler.running():
            began = time.process_time()
            for turn in chunks:
                play(server, turn)
            spans.append(time.process_time() - began)
    server.node.close()
    return min(spans) / (turns * shape.clients * shape.depth) * 1e6


def play(server: InMemory, turn: list[tuple[Connection, bytes]]) -> None:
    """Hand in the chunks of a turn, and end turns until all is answered."""
    frontend = server.frontend
    for connection, chunk in turn:
        frontend.receive(connection, chunk)
    while True:
        for connection in frontend.finish():
            frontend.outbox.take(connection)
        if not frontend.has_work:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--directory", help="on the disk to be measured; the default is the one for temporary files")
    arguments = parser.parse_args()
    for shape in SHAPES:
        sampler = Sampler()
        with tempfile.TemporaryDirectory(dir=arguments.directory) as folder, contextlib.chdir(folder):
            us = measure(shape, arguments.rounds, sampler)
        print(f"{shape.label:46} {us:7.1f} us")
        for part, times in sampler.found.most_common():
            share = times / sampler.found.total()
            print(f"    {part:20} {share:6.1%} {us * share:7.1f} us")


if __name__ == "__main__":
    main()
