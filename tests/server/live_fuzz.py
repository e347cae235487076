"""Mutated frames for a running server, from strangers and from clients that are authenticated, beside a healthy group.

    python -m tests.server.live_fuzz --frames 2000000 --seed 7

The frames are those that released clients have sent, with one to three changes. A seed gives the same frames again.
"""

import argparse
import contextlib
import select
import socket
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from msgspec import Struct

from protocol.codec import encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.live import WAIT_SECONDS, Muster
from tests.protocol.mutate import mutated
from tests.server.bystander import Bystander
from tests.server.sasl_clients import plain
from tests.server.secured import secured_server

FOLDER = Path(__file__).parent.parent / "protocol" / "golden"
CONNECTIONS = 16  # of each kind at a time
BEAT_FRAMES = 250  # frames between two heartbeats of the healthy member

HANDSHAKE = encode_request(17, 1, 1, "fuzz", SaslHandshakeRequest("PLAIN"))
LOGIN = encode_request(36, 2, 2, "fuzz", SaslAuthenticateRequest(plain("alice", "secret")))


class Counts(Struct):
    """What has been sent, and what became of it."""

    frames: int = 0
    connections: int = 0
    slowest_beat_s: float = 0.0


def frames_of_strangers() -> list[bytes]:
    """What a client says before it is authenticated."""
    return [
        encode_request(18, 3, 1, "fuzz", ApiVersionsRequest("fuzz", "1"))[4:],
        HANDSHAKE[4:],
        LOGIN[4:],
        encode_request(17, 1, 1, "fuzz", SaslHandshakeRequest("SCRAM-SHA-256"))[4:],
        encode_request(36, 2, 2, "fuzz", SaslAuthenticateRequest(b"n,,n=alice,r=nonce"))[4:],
        encode_request(36, 2, 2, "fuzz", SaslAuthenticateRequest(b"n,,\x01auth=Bearer a.b.c\x01\x01"))[4:],
    ]


def frames_of_clients() -> list[bytes]:
    """What released clients have sent."""
    return [path.read_bytes() for path in sorted(FOLDER.glob("*_request_*.bin"))]


class Fuzzer:
    """Connections of one kind, which are opened again when the server has closed them."""

    def __init__(self, address: tuple[str, int], random: Random, counts: Counts, *, logs_in: bool) -> None:
        self._address = address
        self._random = random
        self._counts = counts
        self._logs_in = logs_in
        self._frames = frames_of_clients() if logs_in else frames_of_strangers()
        self._socks: list[socket.socket | None] = [None] * CONNECTIONS

    def send(self) -> None:
        """Send one mutated frame by one of the connections."""
        slot = self._random.randrange(CONNECTIONS)
        frame = mutated(self._random.choice(self._frames), self._random)
        if self._logs_in is False and self._random.random() < 0.3:
            frame = HANDSHAKE[4:] if self._random.random() < 0.5 else LOGIN[4:]  # to get a little further
        data = len(frame).to_bytes(4, "big") + frame
        if self._random.random() < 0.02:
            data = self._random.randbytes(4) + frame  # a size that it does not have
        sock = self._socks[slot]
        if sock is None or self._is_gone(sock):
            sock = self._socks[slot] = self._connect()
        with contextlib.suppress(OSError):
            sock.sendall(data)
        self._counts.frames += 1

    def close(self) -> None:
        """Close all connections."""
        for sock in self._socks:
            if sock is not None:
                sock.close()

    @staticmethod
    def _is_gone(sock: socket.socket) -> bool:
        """Read what is there. Returns whether the server has closed the connection, or takes nothing more for now."""
        try:
            while select.select([sock], [], [], 0)[0]:
                if not sock.recv(1 << 16):
                    sock.close()
                    return True
        except OSError:
            sock.close()
            return True
        if not select.select([], [sock], [], 0)[1]:  # a request is parked, and others wait behind it
            sock.close()
            return True
        return False

    def _connect(self) -> socket.socket:
        self._counts.connections += 1
        sock = socket.create_connection(self._address, timeout=WAIT_SECONDS)
        if self._logs_in:
            sock.sendall(HANDSHAKE + LOGIN)
            data = b""
            while len(data) < 70:  # both responses
                chunk = sock.recv(4_096)
                assert chunk, "a client with the right password is closed"
                data += chunk
                if data.count(b"\0\0\0\2", 4):
                    break
        return sock


def fuzz(muster: Muster, frames: int, seed: int) -> Counts:
    """Send so many frames. Raises AssertionError if the healthy member is disturbed."""
    counts, random, bystander = Counts(), Random(seed), Bystander(muster)
    host, _, port = muster.address_of("SASL_PLAINTEXT").rpartition(":")
    fuzzers = [Fuzzer((host, int(port)), random, counts, logs_in=logs_in) for logs_in in (False, True)]
    try:
        while counts.frames < frames:
            for fuzzer in fuzzers:
                fuzzer.send()
            if counts.frames % BEAT_FRAMES < 2:
                began_s = time.monotonic()
                assert bystander.is_well(), f"after {counts.frames} frames of the seed {seed}"
                counts.slowest_beat_s = max(counts.slowest_beat_s, time.monotonic() - began_s)
        assert bystander.is_well(), "at the end"
        assert muster.exit_code is None, "the server has ended"
    finally:
        for fuzzer in fuzzers:
            fuzzer.close()
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description="Send mutated frames to a running server.")
    parser.add_argument("--frames", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, secured_server(Path(folder), "--log-level", "error") as muster:
        counts = fuzz(muster, options.frames, options.seed)
        failures = muster.metric("muster_internal_errors_total")
    print(f"{counts.frames} frames, {counts.connections} connections, slowest heartbeat {counts.slowest_beat_s:.3f} s")
    print(f"{failures:.0f} internal errors")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
