"""A member that is authenticated through TLS, beside hundreds of clients that abuse TLS and SASL: it is never late.

What a heartbeat and a turn took is the server's own processor time: a busy machine does not lengthen it.
"""

import contextlib
import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.member import Member, p99
from benchmarks.server import resident_mib
from benchmarks.stalls import LONGEST_MS, P99_MS
from coordinator.client import Client
from protocol.codec import encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.live import WAIT_SECONDS, Muster, wait_until
from tests.server import openssl
from tests.server.bystander import descriptors
from tests.server.certificates import certificates, client_context, client_hello
from tests.server.in_memory import Dialogue
from tests.server.sasl_clients import plain
from tests.server.secured import secured_server

CROWD = 300
HEARTBEATS_MIN = 50  # beside one kind of abuse, which is repeated until then
PIECES = 20  # that a slow client sends its ClientHello in
TURN_S_MAX = 0.25
LATE_MAX = 3  # heartbeats that may take longer than the p99, on a machine that lets the member send only some dozens
GROWTH_MIB_MAX = 96
AUTHENTICATION_MS = 3_000
KIB = {"PLAINTEXT": 4, "SSL": 60}  # that an idle connection may take

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")

VERSIONS = (ApiVersionsRequest("crowd", "1"), 3)
HANDSHAKE = encode_request(17, 1, 2, "crowd", SaslHandshakeRequest("PLAIN"))
WRONG = encode_request(36, 2, 3, "crowd", SaslAuthenticateRequest(plain("alice", "wrong")))
SCRAM = encode_request(17, 1, 2, "crowd", SaslHandshakeRequest("SCRAM-SHA-512"))
FIRST = encode_request(36, 2, 3, "crowd", SaslAuthenticateRequest(b"n,,n=alice,r=nonce"))


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    wait = f"connections.max.authentication.ms={AUTHENTICATION_MS}"
    with descriptors(3 * CROWD), secured_server(tmp_path, "--log-level", "error", "--set", wait) as server:
        yield server


@pytest.fixture
def command_config(tmp_path: Path) -> Path:
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.location={certificates() / 'ca.pem'}\n"
        "sasl.mechanism=SCRAM-SHA-512\nsasl.username=alice\nsasl.password=secret\n"
    )
    return file


def connect(muster: Muster, listener: str) -> socket.socket:
    host, _, port = muster.address_of(listener).rpartition(":")
    return socket.create_connection((host, int(port)), timeout=WAIT_SECONDS)


def send_slowly(muster: Muster, stack: ExitStack) -> None:
    """Hundreds of handshakes, a few bytes at a time, and none of them complete."""
    message = client_hello()
    socks = [stack.enter_context(connect(muster, "SASL_SSL")) for _ in range(CROWD)]
    step = -(-len(message) // PIECES)
    for at in range(0, len(message), step):
        for sock in socks:
            with contextlib.suppress(OSError):  # swept, on a machine that is slower than the bound
                sock.sendall(message[at : at + step])


def leave_in_the_middle(muster: Muster, stack: ExitStack) -> None:
    """Hundreds of clients that say hello, take the server's certificate, and say no more."""
    message = client_hello()
    for sock in [stack.enter_context(connect(muster, "SASL_SSL")) for _ in range(CROWD)]:
        sock.sendall(message)


def shake_hands_at_once(muster: Muster, stack: ExitStack) -> None:
    """Hundreds of handshakes that are completed, of clients that come at once and never authenticate."""
    context, complete = client_context(), 0
    for sock in [stack.enter_context(connect(muster, "SASL_SSL")) for _ in range(CROWD)]:
        with contextlib.suppress(OSError):  # swept, on a machine that is slower than the bound
            stack.enter_context(context.wrap_socket(sock, server_hostname="localhost"))
            complete += 1
    assert complete, "not one handshake was completed in time"


def guess(muster: Muster, stack: ExitStack) -> None:
    """Hundreds of guesses, and hundreds of exchanges that are left in the middle."""
    context = client_context()
    for number in range(CROWD):
        sock = stack.enter_context(context.wrap_socket(connect(muster, "SASL_SSL"), server_hostname="localhost"))
        with contextlib.suppress(OSError):
            sock.sendall(HANDSHAKE + WRONG if number % 2 else SCRAM + FIRST)


def send_noise(muster: Muster, stack: ExitStack) -> None:
    """Hundreds of clients that begin as TLS does, and go on with something else."""
    for number in range(CROWD):
        sock = stack.enter_context(connect(muster, "SASL_SSL"))
        with contextlib.suppress(OSError):
            sock.sendall(client_hello()[: 20 + number] + bytes(range(256)) * 64)


def update_keys(muster: Muster, stack: ExitStack) -> None:
    """Dozens of clients that do nothing but update their keys. Nobody else ends their connections."""
    for _ in range(40):
        client = openssl.Client(connect(muster, "SSL"))
        stack.callback(client.close)
        for _ in range(2_000):
            if not client.update_keys(openssl.REQUESTED):
                break


def hostile(dice: random.Random) -> bytes:
    """What nobody should send: noise, lengths that lie, frames that are never finished."""
    head = struct.pack(">hhih", dice.randrange(0, 75), dice.randrange(0, 18), 7, -1)
    body = head + b"\xff" * dice.randrange(0, 200)
    return dice.choice([
        dice.randbytes(dice.randrange(1, 4_096)),
        struct.pack(">i", dice.choice([0, -1, 2**31 - 1, 8 * 1024 * 1024 + 1])),
        struct.pack(">i", 8 * 1024 * 1024) + dice.randbytes(60_000),
        struct.pack(">i", len(body)) + body,
    ])  # fmt: skip


def send_hostile_frames(muster: Muster, stack: ExitStack) -> None:
    """Lengths that lie, frames without an end, and bytes that are none, within TLS: from strangers and others."""
    context, dice = client_context(), random.Random(17)
    for listener in ("SASL_SSL", "SSL"):
        with ExitStack() as gone:  # those that wait for the rest of a frame would be swept only after half a minute
            for _ in range(CROWD // 2):
                sock = gone.enter_context(context.wrap_socket(connect(muster, listener), server_hostname="localhost"))
                with contextlib.suppress(OSError):  # closed before all was sent
                    sock.sendall(hostile(dice))


def take_nothing(muster: Muster, stack: ExitStack) -> None:
    """Dozens of clients that ask for megabytes by TLS, and read nothing. They are let go after half a minute."""
    context = client_context()
    for _ in range(60):
        sock = context.wrap_socket(connect(muster, "SSL"), server_hostname="localhost")
        stack.enter_context(sock).settimeout(1)
        with contextlib.suppress(OSError):  # it is not read any more
            sock.sendall(Dialogue().chunk(VERSIONS) * 8_000)


ABUSES: dict[str, Callable[[Muster, ExitStack], None]] = {
    "slow handshakes": send_slowly,
    "half handshakes": leave_in_the_middle,
    "handshakes at once": shake_hands_at_once,
    "guesses": guess,
    "noise": send_noise,
    "updates of keys": update_keys,
    "hostile frames": send_hostile_frames,
    "deaf clients": take_nothing,
}


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.long] if what == "deaf clients" else []) for what in ABUSES]
)
def test_a_member_beside_a_crowd_is_not_late(what: str, muster: Muster, command_config: Path) -> None:
    if what == "updates of keys" and not openssl.has_library():
        pytest.skip("needs the library libssl")
    before = resident_mib(muster.pid)
    with Member(muster.address_of("SASL_SSL"), muster.pid, command_config) as member, ExitStack() as stack:
        while muster.metric("muster_requests_total", api="Heartbeat") < HEARTBEATS_MIN:
            ABUSES[what](muster, stack)
            wait_until("only the member is left", lambda: muster.metric("muster_connections") <= 1)
    assert member.heartbeats.errors == 0
    late = [ms for ms in member.heartbeats.own_ms if ms >= P99_MS]
    assert len(late) <= max(LATE_MAX, len(member.heartbeats.own_ms) // 100)
    assert max(member.heartbeats.own_ms) < LONGEST_MS
    assert muster.metric("muster_long_turn_cpu_longest_seconds") < TURN_S_MAX
    assert resident_mib(muster.pid) - before < GROWTH_MIB_MAX
    print(f"{what}: p99 {p99(member.heartbeats.own_ms):.1f}, longest {max(member.heartbeats.own_ms):.1f} ms")


def kib_of_idle(muster: Muster, listener: str, count: int, stack: ExitStack) -> float:
    """Open so many connections, each of which asks once. Returns the memory that each takes."""
    context = client_context()
    before = 0.0
    for number in range(count + 50):
        if number == 50:  # what the first ones make is kept for all
            before = resident_mib(muster.pid)
        sock = connect(muster, listener)
        sock = sock if listener == "PLAINTEXT" else context.wrap_socket(sock, server_hostname="localhost")
        Client(stack.enter_context(sock)).ask(*VERSIONS)
    return (resident_mib(muster.pid) - before) * 1024 / count


@pytest.mark.parametrize("listener", KIB)
@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_idle_connections_take_little_memory(listener: str, count: int, muster: Muster, command_config: Path) -> None:
    """R18, with doors that are locked. A member beside them is not late."""
    with descriptors(count), ExitStack() as stack:
        kib = kib_of_idle(muster, listener, count, stack)
        assert kib <= KIB[listener]
        with (
            Member(muster.address_of("SASL_SSL"), muster.pid, command_config) as member,
            connect(muster, "PLAINTEXT") as sock,
        ):
            client = Client(sock)
            for _ in range(100):
                client.ask(*VERSIONS)
        assert member.heartbeats.errors == 0
        assert max(member.heartbeats.own_ms, default=0) < LONGEST_MS
        assert muster.metric("muster_connections") >= count
    print(f"{listener}: {count} idle connections, {kib:.1f} KiB each")
