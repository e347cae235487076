"""What TLS costs: `python -m benchmarks.security`.

Processor time of the server for a heartbeat, in plaintext and by TLS, beside a bare echo by TLS on the same selector,
which decides nothing. And the memory of an idle connection: before and after so many have said ApiVersions.

Rounds are interleaved; printed is the median. Processor time is steady where wall time is not.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from coordinator.cli.tls import Authority
from coordinator.server.selector import READ, selector
from protocol.codec import decode_response, encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_SIZE = struct.Struct(">i")


def echo(folder: Path) -> None:
    """A server that answers each chunk with a heartbeat's response, by TLS, on the server's selector."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    poll = selector()
    poll.watch(listener.fileno(), READ, 0)
    links: dict[int, tuple[socket.socket, ssl.MemoryBIO, ssl.MemoryBIO, ssl.SSLObject]] = {}
    shaking = set[int]()
    answer = _SIZE.pack(15) + bytes(15)
    while True:
        ready = poll.poll()
        if not ready:
            time.sleep(0.0005)
        for fd, _ in ready:
            if fd == listener.fileno():
                sock, _ = listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                links[sock.fileno()] = sock, incoming, outgoing, context.wrap_bio(incoming, outgoing, server_side=True)
                shaking.add(sock.fileno())
                poll.watch(sock.fileno(), READ, 0)
                continue
            sock, incoming, outgoing, tls = links[fd]
            chunk = sock.recv(16_896)
            if not chunk:
                return
            incoming.write(chunk)
            with contextlib.suppress(ssl.SSLWantReadError):
                if fd in shaking:
                    tls.do_handshake()
                    shaking.discard(fd)
                tls.read(16_384)
                tls.write(answer)
            if outgoing.pending:
                sock.send(outgoing.read())


class Peers:
    """Connections that all ask at once."""

    def __init__(self, port: int, count: int, context: ssl.SSLContext | None) -> None:
        self.socks: list[socket.socket] = []
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", port), timeout=60)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socks.append(sock if context is None else context.wrap_socket(sock, server_hostname="localhost"))

    def ask(self, frame: bytes, pid: int | None = None) -> None:
        """Send a request by each connection, and read the responses. The server `pid` stands still meanwhile, so that
        it finds all requests at once, however busy the machine is."""
        if pid is not None:
            os.kill(pid, signal.SIGSTOP)
        for sock in self.socks:
            sock.sendall(frame)
        if pid is not None:
            os.kill(pid, signal.SIGCONT)
        for sock in self.socks:
            read(sock)

    def close(self) -> None:
        for sock in self.socks:
            sock.close()


def read(sock: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + _SIZE.unpack_from(data)[0]:
        chunk = sock.recv(65_536)
        assert chunk, "the server has closed the connection"
        data += chunk
    return data[4:]


def cpu_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def muster(folder: Path) -> Iterator[tuple[int, int, int]]:
    """A server: its pid, the port in plaintext and the one by TLS."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    words = ["serve", "--ephemeral", "--admin", "off", "--ready-file", str(ready), "--log-level", "error"]
    words += ["--listen", "PLAINTEXT://127.0.0.1:0", "--listen", "SSL://127.0.0.1:0"]
    words += ["--set", f"ssl.keystore.location={folder}/server.pem"]
    with subprocess.Popen([sys.executable, "-m", "coordinator", *words], stdout=subprocess.DEVNULL) as process:
        while not ready.exists():
            time.sleep(0.05)
        plain, secure = (int(one.rpartition(":")[2]) for one in json.loads(ready.read_text())["listeners"])
        yield process.pid, plain, secure
        process.terminate()


def join(port: int) -> bytes:
    """Make a group of one member, and return its heartbeat."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        protocol = JoinGroupRequestProtocol("range", b"")
        request = JoinGroupRequest("g", 1_800_000, 60_000, "", None, "consumer", (protocol,))
        sock.sendall(encode_request(11, 3, 1, "bench", request))
        joined = decode_response(11, 3, read(sock)).body
        mine = SyncGroupRequestAssignment(joined.member_id, b"")
        sync = SyncGroupRequest("g", joined.generation_id, joined.member_id, assignments=(mine,))
        sock.sendall(encode_request(14, 3, 2, "bench", sync))
        read(sock)
        return encode_request(12, 4, 3, "bench", HeartbeatRequest("g", joined.generation_id, joined.member_id))


def measure(pid: int, peers: Peers, frame: bytes, rounds: int) -> float:
    """Return microseconds of the server for a request."""
    before = cpu_seconds(pid)
    for _ in range(rounds):
        peers.ask(frame, pid)
    return (cpu_seconds(pid) - before) / (rounds * len(peers.socks)) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what TLS costs.")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=300, help="of one request from each connection")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--idle", type=int, default=500, help="connections whose memory is measured")
    parser.add_argument("--echo", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.echo:
        echo(options.echo)
        return
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        Authority.of(folder).issue(folder / "server.pem", "localhost", ("localhost",))
        context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        command = [sys.executable, "-m", "benchmarks.security", "--echo", name]
        bare = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert bare.stdout is not None, "a pipe"
        bare_port = int(bare.stdout.readline())
        pid, plain, secure = stack.enter_context(muster(folder))
        frame = join(plain)
        runs = {
            "plain": (pid, Peers(plain, options.connections, None)),
            "tls": (pid, Peers(secure, options.connections, context)),
            "bare echo by tls": (bare.pid, Peers(bare_port, options.connections, context)),
        }
        found: dict[str, list[float]] = {name: [] for name in runs}
        for number in range(options.repeats + 1):
            for what, (process, peers) in runs.items():
                took = measure(process, peers, frame, options.rounds)
                if number:  # the first round is a warm-up
                    found[what].append(took)
        medians = {what: statistics.median(took) for what, took in found.items()}
        for what, took in medians.items():
            print(f"{what:18} {took:6.1f} us of processor time for a heartbeat")
        print(f"tls / bare echo    {medians['tls'] / medians['bare echo by tls']:6.2f}")
        for _, peers in runs.values():
            peers.close()
        bare.kill()
        for what in ("plain", "tls"):
            with muster(folder) as (pid, plain, secure):  # a new one: freed memory would be used again
                port, how = (plain, None) if what == "plain" else (secure, context)
                hello = encode_request(18, 3, 1, "bench", ApiVersionsRequest("bench", "1"))
                Peers(port, 10, how).ask(hello)
                time.sleep(1)
                before = memory(pid)
                idle = Peers(port, options.idle, how)
                idle.ask(hello)
                time.sleep(1)
                print(f"{what:18} {(memory(pid) - before) / options.idle / 1024:6.1f} KiB for an idle connection")
                idle.close()


if __name__ == "__main__":
    main()
