"""Many clients at once, idle, hostile, slow or deaf: what they cost, and that a member beside them notices nothing."""

import random
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from protocol import record_batch
from protocol.codec import encode_request
from protocol.messages.metadata import MetadataRequest
from protocol.records import Record
from tests.live import Muster, wait_until
from tests.requests import fetch, produce
from tests.server.test_bad_input import Bystander, closes, framed, header

IDLE, HOSTILE, SLOW, DEAF = 2_000, 200, 100, 100
KIB_A_CONNECTION_MAX = 20
ATTACK_KIB_MAX = 256 * 1024

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 200:
        pytest.skip(f"a process may have {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 200), hard))
    try:
        with Muster(tmp_path, "--ephemeral", "--log-level", "error", "--topic", "t:1") as server:
            yield server
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_kib(muster: Muster) -> int:
    lines = Path(f"/proc/{muster.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def asked(sock: socket.socket, frame: bytes) -> bytes:
    """One answer, whole."""
    sock.sendall(frame)
    (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
    return sock.recv(size, socket.MSG_WAITALL)


def test_idle_connections_cost_little(muster: Muster) -> None:
    """R18: each has asked for the metadata, as a client does when it starts."""
    member, question = Bystander(muster), encode_request(3, 9, 1, "idle", MetadataRequest(topics=()))
    with ExitStack() as stack:
        asked(stack.enter_context(muster.connect()), question)
        before = resident_kib(muster)
        for _ in range(IDLE):
            assert asked(stack.enter_context(muster.connect()), question)
            assert muster.exit_code is None, "it is still there"
        assert (resident_kib(muster) - before) / IDLE <= KIB_A_CONNECTION_MAX
        assert member.is_well()
        assert muster.metric("muster_connections") >= IDLE


def hostile(dice: random.Random) -> bytes:
    """What nobody should send: noise, lengths that lie, frames that are never finished."""
    return dice.choice([
        dice.randbytes(dice.randrange(1, 4_096)),
        struct.pack(">i", dice.choice([0, -1, 2**31 - 1, 8 * 1024 * 1024 + 1])),
        struct.pack(">i", 8 * 1024 * 1024) + dice.randbytes(60_000),
        framed(header(3, 9) + dice.randbytes(dice.randrange(0, 200))),
        framed(header(dice.randrange(0, 75), dice.randrange(0, 18)) + b"\xff" * dice.randrange(0, 200)),
    ])  # fmt: skip


def test_hostile_connections_harm_nobody_and_leave_nothing(muster: Muster) -> None:
    """R17, some rounds of it."""
    member, dice = Bystander(muster), random.Random(17)
    before = resident_kib(muster)
    for _ in range(10):
        with ExitStack() as stack:
            for _ in range(HOSTILE):
                sock = stack.enter_context(muster.connect())
                try:
                    sock.sendall(hostile(dice))
                except OSError:
                    continue  # closed before all was sent
            assert member.is_well()
            assert resident_kib(muster) - before <= ATTACK_KIB_MAX
    with muster.connect() as sock:
        sock.sendall(struct.pack(">i", -1))
        assert closes(sock)
    wait_until("all of them are gone", lambda: muster.metric("muster_connections") <= 2)
    assert resident_kib(muster) - before <= ATTACK_KIB_MAX // 5


def test_slow_and_deaf_clients_keep_nobody_waiting(muster: Muster) -> None:
    """R19: some never finish their frame, others ask for records and never read one."""
    member = Bystander(muster)
    with muster.connect() as sock:
        for _ in range(16):  # a mebibyte each, nearly
            data = record_batch.encode([Record(None, bytes(1_000_000), timestamp=1)])
            asked(sock, encode_request(0, 9, 1, "writer", produce("t", {0: data}, acks=1)))
    fetching = encode_request(1, 12, 1, "deaf", fetch("t", max_bytes=2**30, partition_max_bytes=2**30))
    before = resident_kib(muster)
    with ExitStack() as stack:
        for _ in range(SLOW):
            stack.enter_context(muster.connect()).sendall(fetching[:10])
        for _ in range(DEAF):
            deaf = stack.enter_context(muster.connect())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            deaf.sendall(fetching * 3)
            assert member.is_well()
        grown = resident_kib(muster) - before
    assert grown <= ATTACK_KIB_MAX, f"{grown} KiB are kept for {DEAF} who do not read"
