"""Commits that are on the disk before they are answered, against a bare loop that syncs each write.

    python -m benchmarks.synced [--seconds 5] [--directory DIR]

Fifty connections, each with one OffsetCommit on the way, ask a server with `--fsync`; between two rounds a bare loop
writes the bytes that such a commit leaves in the log and syncs them, one after the other, on the same file system. What
is appended in one turn is synced once a log: with all groups in one partition of `__consumer_offsets` that is one sync
for everybody, with groups all over fifty partitions up to fifty, which the server makes at the same time. Aim: 10 times
the loop. CPU is the server's per commit: where that is what limits, a faster disk would not help.
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
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.record_batch import encode

CONNECTIONS = 50
SHAPES = (("one partition", 1), ("ten partitions", 10), ("fifty partitions", 50))
TOPIC = "orders"
PATIENCE_SECONDS = 30.0  # until a server that has just started coordinates groups


def request(number: int) -> bytes:
    """An OffsetCommit v8 of one offset by a group of its own."""
    offsets = (OffsetCommitRequestPartition(0, number, -1, -1, ""),)
    topics = (OffsetCommitRequestTopic(TOPIC, partitions=offsets),)
    return encode_request(8, 8, number, "benchmark", OffsetCommitRequest(f"group-{number}", -1, "", None, -1, topics))


def commits(server: RunningServer, seconds: float) -> tuple[float, float]:
    """(answers a second, CPU microseconds of the server an answer)."""
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
    while time.perf_counter() < began + seconds:
        for key, _ in ready.select(1):
            assert _socket(key).recv(4096), "the server went away"
            answers += 1
            _socket(key).sendall(key.data)
    elapsed, cpu = time.perf_counter() - began, cpu_seconds(server.pid) - used
    for key in list(ready.get_map().values()):
        _socket(key).close()
    return answers / elapsed, cpu / answers * 1e6


def _ask(sock: socket.socket, frame: bytes) -> int:
    """Send a commit, and return the error code of its partition."""
    sock.sendall(frame)
    answer = decode_response(8, 8, sock.recv(4096)[4:])
    return int(answer.body.topics[0].partitions[0].error_code)


def _socket(key: selectors.SelectorKey) -> socket.socket:
    assert isinstance(key.fileobj, socket.socket), "what was registered"
    return key.fileobj


def bare(path: Path, seconds: float) -> float:
    """Writes a second, each synced before the next."""
    data = encode(records_of(0)[:1])
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    writes, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds:
        os.write(file, data)
        os.fdatasync(file)
        writes += 1
    elapsed = time.perf_counter() - began
    os.close(file)
    return writes / elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--directory", help="on the disk to be measured; the default is the one for temporary files")
    arguments = parser.parse_args()
    print(f"{'groups are in':20}{'commits/s':>12}{'CPU us':>9}{'unsynced':>12}{'bare loop':>12}{'x loop':>9}")
    for name, partitions in SHAPES:
        setting = ("--set", f"offsets.topic.num.partitions={partitions}", "--topic", f"{TOPIC}:1")
        with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
            before = bare(Path(folder) / "bare", arguments.seconds / 4)
            with RunningServer(Path(folder) / "synced", *setting, "--fsync") as server:
                ours, cpu = commits(server, arguments.seconds)
            with RunningServer(Path(folder) / "unsynced", *setting) as server:
                unsynced, _ = commits(server, arguments.seconds / 4)
            loop = (before + bare(Path(folder) / "bare", arguments.seconds / 4)) / 2
        print(f"{name:20}{ours:>12,.0f}{cpu:>9.1f}{unsynced:>12,.0f}{loop:>12,.0f}{ours / loop:>9.1f}")


if __name__ == "__main__":
    main()
