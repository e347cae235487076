"""What heartbeats and commits cost a server, beside the floor of its own poller, and beside other brokers.

    python -m benchmarks.requests [--seconds 3] [--rounds 3] [--beside NAME=COMMAND]...

Each of so many connections has a group of its own and keeps so many requests on the way; every answer is the first
one, which was looked at. CPU is the server process' own, by the system's account, per answer: it is steadier than
answers per second, for which server and driver contend. All servers run at once and are measured in turn, some rounds;
what is printed are medians. The floor is the same poller with a frontend that answers each frame with the same bytes
and decides nothing: what is between the two is framing, decoding, deciding and encoding.

`--beside 'kfake=kfake -ports {port} -topics load:100'` measures another broker in the same run: it has to have a topic
`load` of 100 partitions, or to create topics when it is told to.
"""

import argparse
import contextlib
import itertools
import selectors
import shlex
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from benchmarks.server import RunningServer, cpu_seconds
from coordinator.client import Client, ClientError
from protocol.apis import api_of
from protocol.codec import decode_response, encode_request
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest
from protocol.schema import Message

TOPIC, PARTITIONS = "load", 100
PATIENCE_SECONDS = 60.0  # until a broker that has just started coordinates groups
WARM_UP_SECONDS = 1.0
NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
FLOOR, OURS = "floor", "muster"
NUMBERS = itertools.count()  # no group is measured twice


class Work(Struct, frozen=True):
    """A shape of load: `make` gives each connection, by its number, the request that it repeats."""

    label: str
    connections: int
    depth: int
    version: int
    make: Callable[[str, int], Message]
    has_floor: bool = False


def beat(address: str, number: int) -> Message:
    """Make a classic group of one member. Returns its Heartbeat."""
    group = f"classic-{number}"
    with Client.to(address) as client:
        protocols = (JoinGroupRequestProtocol("range", b""),)
        joined = client.ask(JoinGroupRequest(group, 60_000, 60_000, "", None, "consumer", protocols), version=3)
        client.ask(SyncGroupRequest(group, joined.generation_id, joined.member_id), version=3)
    return HeartbeatRequest(group, joined.generation_id, joined.member_id)


def consumer_beat(address: str, number: int) -> Message:
    """Make a consumer group of one member, which has what it shall have. Returns its ConsumerGroupHeartbeat."""
    group, member_id = f"consumer-{number}", f"member-{number}"
    joining = ConsumerGroupHeartbeatRequest(
        group, member_id, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=(TOPIC,), topic_partitions=()
    )
    with Client.to(address) as client:
        answer = client.ask(joining, version=1)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while answer.assignment is None or not answer.assignment.topic_partitions:  # it may come an interval later
            assert time.monotonic() < deadline, "never assigned anything"
            time.sleep(0.05)
            answer = client.ask(ConsumerGroupHeartbeatRequest(group, member_id, answer.member_epoch), version=1)
        assigned = answer.assignment.topic_partitions
        owns = tuple([ConsumerGroupHeartbeatRequestTopicPartitions(one.topic_id, one.partitions) for one in assigned])
        owning = ConsumerGroupHeartbeatRequest(group, member_id, answer.member_epoch, topic_partitions=owns)
        answer = client.ask(owning, version=1)
    return ConsumerGroupHeartbeatRequest(group, member_id, answer.member_epoch)


def commit(partitions: int) -> Callable[[str, int], Message]:
    """Commits of so many partitions, by a group of offsets alone."""

    def make(address: str, number: int) -> Message:
        each = tuple(
            [OffsetCommitRequestPartition(index, 1000, -1, committed_metadata="") for index in range(partitions)]
        )
        return OffsetCommitRequest(f"commits-{number}", topics=(OffsetCommitRequestTopic(TOPIC, partitions=each),))

    return make


WORKS = (
    Work("heartbeats", 1, 1, 4, beat, has_floor=True),
    Work("heartbeats", 16, 8, 4, beat, has_floor=True),
    Work("heartbeats", 256, 1, 4, beat, has_floor=True),
    Work("consumer heartbeats", 16, 4, 1, consumer_beat),
    Work("commits of 10 partitions", 16, 4, 8, commit(10)),
    Work("commits of 100 partitions", 4, 4, 8, commit(100)),
)


def prepare(address: str) -> None:
    """Wait until the broker coordinates groups, and make the topic unless it is there."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with Client.to(address) as client:
                client.ask(CreateTopicsRequest((CreateTopicsRequestCreatableTopic(TOPIC, PARTITIONS, 1),)), up_to=5)
                client.ask(FindCoordinatorRequest("warm-up"), version=2)
                probe = client.ask(HeartbeatRequest("warm-up", 1, "nobody"), version=3)
            if probe.error_code not in NOT_YET:
                return
        except ClientError:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise SystemExit(f"{address} coordinates no groups")
        time.sleep(0.2)


def frames_of(work: Work, address: str) -> list[bytes]:
    requests = [work.make(address, next(NUMBERS)) for _ in range(work.connections)]
    return [
        encode_request(api_of(request).key, work.version, number, "benchmark", request)
        for number, request in enumerate(requests)
    ]


def measure(server: RunningServer, work: Work, frames: list[bytes], seconds: float) -> tuple[float, float]:
    """(answers per second, CPU microseconds of the server per answer)."""
    ready = selectors.DefaultSelector()
    sizes: dict[Any, int] = {}
    for frame in frames:
        sock = socket.create_connection(("127.0.0.1", server.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(frame)
        sizes[sock] = len(first_answer(sock))
        sock.setblocking(False)
        ready.register(sock, selectors.EVENT_READ, frame)
    unread = dict.fromkeys(sizes, 0)
    for sock in sizes:
        sock.setblocking(True)
        sock.sendall(ready.get_key(sock).data * work.depth)
        sock.setblocking(False)
    answers, began, used = 0, 0.0, 0.0
    started = time.perf_counter()
    while (now := time.perf_counter()) < started + WARM_UP_SECONDS + seconds:
        if not began and now > started + WARM_UP_SECONDS:
            answers, began, used = 0, now, cpu_seconds(server.pid)
        for key, _ in ready.select(1):
            sock = key.fileobj
            count, unread[sock] = divmod(unread[sock] + len(sock.recv(262_144)), sizes[sock])
            answers += count
            if count:
                sock.setblocking(True)
                sock.sendall(key.data * count)
                sock.setblocking(False)
    elapsed, cpu = time.perf_counter() - began, cpu_seconds(server.pid) - used
    for sock in sizes:
        sock.close()
    return answers / elapsed, cpu / answers * 1e6


def first_answer(sock: socket.socket) -> bytes:
    """One answer, with its size."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        chunk = sock.recv(262_144)
        assert chunk, "the server has closed the connection"
        data += chunk
    return data


def check(work: Work, server: RunningServer, frame: bytes) -> None:
    """That what is measured is an answer without an error."""
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(frame)
        key = int.from_bytes(frame[4:6], "big")
        body = decode_response(key, work.version, first_answer(sock)[4:]).body
    codes = (
        [body.error_code] if hasattr(body, "error_code") else [p.error_code for t in body.topics for p in t.partitions]
    )
    assert not any(codes), body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", metavar="NAME=COMMAND", action="append", default=[], help="{port}: where to listen")
    args = parser.parse_args()
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers = {OURS: stack.enter_context(RunningServer(Path(folder)))}
        for name, _, command in (one.partition("=") for one in args.beside):
            servers[name] = stack.enter_context(RunningServer(Path(), command=shlex.split(command)))
        for server in servers.values():
            prepare(server.kafka)
        floor = stack.enter_context(RunningServer(Path(), command=[sys.executable, "-m", "benchmarks.floor"]))
        for _ in range(args.rounds):
            for index, work in enumerate(WORKS):
                frames: list[bytes] = []
                for name, server in servers.items():
                    frames = frames_of(work, server.kafka)
                    check(work, server, frames[0])
                    found.setdefault((index, name), []).append(measure(server, work, frames, args.seconds))
                if work.has_floor:
                    found.setdefault((index, FLOOR), []).append(measure(floor, work, frames, args.seconds))
    show(found, list(servers))


def show(found: dict[tuple[int, str], list[tuple[float, float]]], names: list[str]) -> None:
    """A row for each server in each shape: medians, and our CPU as a ratio to its CPU."""
    print(f"{'':<28}{'connections':>11} x on the way  {'server':<10}{'per s':>10}{'CPU us':>9}   ours to it")
    for index, work in enumerate(WORKS):
        ours = statistics.median(cpu for _, cpu in found[index, OURS])
        for name in [*names, FLOOR]:
            if (index, name) not in found:
                continue
            rate, cpu = (statistics.median(one) for one in zip(*found[index, name], strict=True))
            ratio = "" if name == OURS else f"{ours / cpu:>10.2f}"
            shape = f"{work.label:<28}{work.connections:>11} x {work.depth:<11}"
            print(f"{shape}{name:<10}{rate:>10,.0f}{cpu:>9.1f}   {ratio}")


if __name__ == "__main__":
    main()
