"""Server CPU per Heartbeat, beside the floor of the same poller.

    python -m benchmarks.heartbeats [--seconds 5]

Each of so many connections is the one member of a group of its own and keeps so many requests on the way. CPU is the
server process' own, by the system's account, per answer. The floor is the same poller and the same connections with a
frontend that answers each frame with the same bytes and decides nothing: what is between the two is framing, decoding,
deciding and encoding.
"""

import argparse
import selectors
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.server import Served, cpu_seconds
from coordinator.client import Client
from protocol.codec import decode_response, encode_request
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.sync_group import SyncGroupRequest

SHAPES = ((1, 1), (16, 8), (256, 1))
ANSWER_BYTES = 16


def member(address: str, group: str) -> HeartbeatRequest:
    """Make a group of one member. Returns its Heartbeat."""
    with Client.to(address) as client:
        asking = JoinGroupRequest(
            group, 60_000, 60_000, "", None, "consumer", (JoinGroupRequestProtocol("range", b""),)
        )
        joined = client.ask(asking, version=3)
        client.ask(SyncGroupRequest(group, joined.generation_id, joined.member_id), version=3)
    return HeartbeatRequest(group, joined.generation_id, joined.member_id)


def measured(
    server: Served, beats: list[HeartbeatRequest], depth: int, seconds: float, *, checked: bool
) -> tuple[float, float]:
    """(answers per second, CPU microseconds of the server per answer)."""
    ready = selectors.DefaultSelector()
    for number, beat in enumerate(beats):
        sock = socket.create_connection(("127.0.0.1", server.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frame = encode_request(12, 4, number, "benchmark", beat)
        if checked:
            sock.sendall(frame)
            answer = decode_response(12, 4, sock.recv(64)[4:])
            assert (answer.correlation_id, answer.body.error_code) == (number, 0), answer
        sock.setblocking(False)
        ready.register(sock, selectors.EVENT_READ, frame)
        sock.send(frame * depth)
    answers, began, used = 0, 0.0, 0.0
    started = time.perf_counter()
    while (now := time.perf_counter()) < started + 1 + seconds:
        if not began and now > started + 1:  # a second of warm-up
            answers, began, used = 0, now, cpu_seconds(server.pid)
        for key, _ in ready.select(1):
            sock = key.fileobj
            assert isinstance(sock, socket.socket), "what was registered"
            count = len(sock.recv(65_536)) // ANSWER_BYTES
            answers += count
            sock.send(key.data * count)
    elapsed, cpu = time.perf_counter() - began, cpu_seconds(server.pid) - used
    for key in list(ready.get_map().values()):
        key.fileobj.close()  # type: ignore[union-attr]  # a socket, as above
    return answers / elapsed, cpu / answers * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5)
    seconds = parser.parse_args().seconds
    print("connections x on the way    muster: per s / CPU us    floor: per s / CPU us    CPU ratio")
    for connections, depth in SHAPES:
        with tempfile.TemporaryDirectory() as name, Served(Path(name)) as server:
            beats = [member(server.kafka, f"group-{number}") for number in range(connections)]
            ours = measured(server, beats, depth, seconds, checked=True)
        with Served(Path(), command=[sys.executable, "-m", "benchmarks.floor"]) as server:
            floor = measured(server, beats, depth, seconds, checked=False)
        print(
            f"{connections:>11} x {depth:<12} {ours[0]:>13,.0f} / {ours[1]:<8.1f} {floor[0]:>14,.0f} / {floor[1]:<8.1f}"
            f" {ours[1] / floor[1]:>12.2f}"
        )


assert struct.calcsize(">iiBihB") == ANSWER_BYTES, (
    "a Heartbeat v4 answer: size, correlation id, tags, throttle, error, tags"
)

if __name__ == "__main__":
    main()
