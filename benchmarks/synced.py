"""Commits that are on the disk before they are answered, against a bare loop that syncs each write.

    python -m benchmarks.synced [--seconds 5] [--directory DIR] [--disk-ms MS ...]

Fifty connections, each with one OffsetCommit on the way, ask a server with `--fsync`; between two rounds a bare loop
writes the bytes that such a commit leaves in the log and syncs them, one after the other, on the same file system. What
is appended together is synced once a log: with all groups in one partition of `__consumer_offsets` that is one sync for
everybody, with groups all over fifty partitions up to fifty, which are made at the same time.

Aim: 10 times the loop, or what the disk allows. That is at most fifty commits a sync, and what the same server does
that never syncs; both are beside it. CPU is the server's per commit: where that is what limits, a faster disk would not
help. With `--disk-ms`, each sync of the server's and of the loop's takes longer by so much: a slower disk, on this one.

The last columns are of one client more, which sends heartbeats of a group that commits nothing, one after the other:
how long one takes, half of them and 99 of a hundred, in milliseconds.
"""

from __future__ import annotations

import argparse
import os
import selectors
import socket
import tempfile
import time
from pathlib import Path

from benchmarks.log import commit as records_of
from benchmarks.server import RunningServer, cpu_seconds
from coordinator.client import Client
from protocol.codec import decode_response, encode_request
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.record_batch import encode

CONNECTIONS = 50
SHAPES = (("one partition", 1), ("ten partitions", 10), ("fifty partitions", 50))
TOPIC = "orders"
HEARTBEAT = encode_request(12, 4, 0, "benchmark", HeartbeatRequest("quiet", 1, "nobody", None))
PATIENCE_SECONDS = 30.0  # until a server that has just started coordinates groups


def request(number: int) -> bytes:
    """An OffsetCommit v8 of one offset by a group of its own."""
    offsets = (OffsetCommitRequestPartition(0, number, -1, -1, ""),)
    topics = (OffsetCommitRequestTopic(TOPIC, partitions=offsets),)
    return encode_request(8, 8, number, "benchmark", OffsetCommitRequest(f"group-{number}", -1, "", None, -1, topics))


def commits(server: RunningServer, seconds: float) -> tuple[float, float]:
    """(answers a second, CPU microseconds of the server an answer)."""
    rate, cpu, _ = commits_and_heartbeats(server, seconds, with_heartbeats=False)
    return rate, cpu


def commits_and_heartbeats(
    server: RunningServer, seconds: float, *, with_heartbeats: bool
) -> tuple[float, float, list[float]]:
    """(commits a second, CPU microseconds of the server a commit, milliseconds of each heartbeat beside them)."""
    ready = selectors.DefaultSelector()
    for number in range(CONNECTIONS):
        with Client.to(server.kafka):  # a server that does not listen is told of here
            sock = socket.create_connection(("127.0.0.1", server.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frame = request(number)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (code := _ask(sock, frame)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and time.monotonic() < deadline:
            time.sleep(0.05)
        assert code == ErrorCode.NONE, code
        ready.register(sock, selectors.EVENT_READ, frame)
    for key in ready.get_map().values():
        _socket(key).sendall(key.data)
    answers, began, used = 0, time.perf_counter(), cpu_seconds(server.pid)
    waits: list[float] = []
    if with_heartbeats:
        sock = socket.create_connection(("127.0.0.1", server.port))
        ready.register(sock, selectors.EVENT_READ, HEARTBEAT)
        sock.sendall(HEARTBEAT)
        sent = began
    while time.perf_counter() < began + seconds:
        for key, _ in ready.select(1):
            assert _socket(key).recv(4096), "the server went away"
            if key.data is HEARTBEAT:
                now = time.perf_counter()
                waits.append((now - sent) * 1000)
                sent = now
            else:
                answers += 1
            _socket(key).sendall(key.data)
    elapsed, cpu = time.perf_counter() - began, cpu_seconds(server.pid) - used
    for key in list(ready.get_map().values()):
        _socket(key).close()
    return answers / elapsed, cpu / answers * 1e6, sorted(waits)


def _ask(sock: socket.socket, frame: bytes) -> int:
    """Send a commit, and return the error code of its partition."""
    sock.sendall(frame)
    answer = decode_response(8, 8, sock.recv(4096)[4:])
    return int(answer.body.topics[0].partitions[0].error_code)


def _socket(key: selectors.SelectorKey) -> socket.socket:
    assert isinstance(key.fileobj, socket.socket), "what was registered"
    return key.fileobj


def bare(path: Path, seconds: float, disk_ms: float) -> float:
    """Writes a second, each synced before the next."""
    data = encode(records_of(0)[:1])
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    writes, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds:
        os.write(file, data)
        if disk_ms:
            time.sleep(disk_ms / 1000)
        os.fdatasync(file)
        writes += 1
    elapsed = time.perf_counter() - began
    os.close(file)
    return writes / elapsed


def server(folder: Path, disk_ms: float, *options: str) -> RunningServer:
    """A server, on a disk that takes longer by so much."""
    found = RunningServer(folder, *options)
    if disk_ms:
        assert found.command, "made by RunningServer"
        found.command[2:3] = ["benchmarks.slow_disk", str(disk_ms)]  # in the place of "coordinator"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--directory", help="on the disk to be measured; the default is the one for temporary files")
    parser.add_argument("--disk-ms", type=float, nargs="+", default=[0.0], help="by which each sync takes longer")
    arguments = parser.parse_args()
    print(
        f"{'disk ms':>8}  {'groups are in':18}{'commits/s':>10}{'CPU us':>8}{'unsynced':>10}{'50 a sync':>11}"
        f"{'loop':>8}{'x loop':>8}{'heartbeat p50':>15}{'p99':>8}"
    )
    for disk_ms in arguments.disk_ms:
        for name, partitions in SHAPES:
            setting = ("--set", f"offsets.topic.num.partitions={partitions}", "--topic", f"{TOPIC}:1")
            with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
                loop = bare(Path(folder) / "bare", arguments.seconds / 4, disk_ms)
                with server(Path(folder) / "synced", disk_ms, *setting, "--fsync") as synced:
                    ours, cpu, _ = commits_and_heartbeats(synced, arguments.seconds, with_heartbeats=False)
                    _, _, waits = commits_and_heartbeats(synced, arguments.seconds / 2, with_heartbeats=True)
                with server(Path(folder) / "unsynced", 0.0, *setting) as never:
                    unsynced, _ = commits(never, arguments.seconds / 4)
                loop = (loop + bare(Path(folder) / "bare", arguments.seconds / 4, disk_ms)) / 2
            print(
                f"{disk_ms:>8g}  {name:18}{ours:>10,.0f}{cpu:>8.1f}{unsynced:>10,.0f}{CONNECTIONS * loop:>11,.0f}"
                f"{loop:>8,.0f}{ours / loop:>8.1f}{waits[len(waits) // 2]:>15.2f}{waits[len(waits) * 99 // 100]:>8.2f}"
            )


if __name__ == "__main__":
    main()
