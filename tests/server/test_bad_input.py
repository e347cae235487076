"""Bytes that no client should send: that connection alone is closed, or answered with Kafka's error; the rest goes on."""

import socket
import struct
from collections.abc import Iterator

import pytest

from coordinator.client import Client
from protocol.apis import API_VERSIONS
from protocol.codec import decode_response, encode_request
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.live import Muster
from tests.requests import join

LIMIT = 8 * 1024 * 1024


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    with Muster(tmp_path_factory.mktemp("bad-input"), "--ephemeral", "--log-level", "warning") as server:
        yield server


class Bystander:
    """A member of a group that beats on a connection of its own."""

    def __init__(self, muster: Muster) -> None:
        self._client = Client.to(muster.kafka)
        self._member = self._client.ask(join("calm", session_ms=600_000, rebalance_ms=600_000), version=3)
        synced = self._client.ask(
            SyncGroupRequest("calm", self._member.generation_id, self._member.member_id), version=3
        )
        assert (self._member.error_code, synced.error_code) == (0, 0)

    def is_well(self) -> bool:
        beat = HeartbeatRequest("calm", self._member.generation_id, self._member.member_id)
        return bool(self._client.ask(beat).error_code == ErrorCode.NONE)


@pytest.fixture(scope="module")
def bystander(muster: Muster) -> Bystander:
    return Bystander(muster)


def closes(sock: socket.socket) -> bool:
    """Whether the server closes the connection without a word."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def header(api_key: int, version: int, correlation_id: int = 7) -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, -1)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("garbage", b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n"),
        ("zeros", bytes(4_096)),
        ("a frame of size zero", struct.pack(">i", 0)),
        ("a negative size", struct.pack(">i", -1)),
        ("the most negative size", struct.pack(">i", -(2**31))),
        ("an oversized frame", struct.pack(">i", LIMIT + 1)),
        ("the largest size", struct.pack(">i", 2**31 - 1)),
        ("too few bytes for a header", framed(b"\x00\x12")),
        ("an unknown API key", framed(header(9_999, 0))),
        ("a negative API key", framed(header(-1, 0))),
        ("an unsupported version", framed(header(12, 99) + bytes(64))),
        ("a version that only older brokers had", framed(header(8, 0) + b"\x00\x01g\x00\x00\x00\x00")),
        ("a negative length inside", framed(header(12, 0) + struct.pack(">h", -2) + bytes(32))),
        ("a length beyond the frame", framed(header(12, 0) + struct.pack(">h", 30_000) + b"short")),
        ("a count beyond the frame", framed(header(3, 0) + struct.pack(">i", 2**31 - 1))),
        ("text that is no UTF-8", framed(header(12, 0) + struct.pack(">h", 2) + b"\xff\xfe" + bytes(8))),
        ("a body cut short", framed(header(12, 0) + b"\x00\x01")),
    ],
)
def test_what_cannot_be_read_closes_that_connection_alone(
    muster: Muster, bystander: Bystander, what: str, data: bytes
) -> None:
    with muster.connect() as sock:
        sock.sendall(data)
        assert closes(sock), what
    assert bystander.is_well()


@pytest.mark.parametrize("data", [b"\x00", b"\x00\x00\x00\x40\x00\x0c", struct.pack(">i", LIMIT) + bytes(1_000)])
def test_a_connection_that_is_dropped_in_the_middle_of_a_frame_leaves_nothing(
    muster: Muster, bystander: Bystander, data: bytes
) -> None:
    with muster.connect() as sock:
        sock.sendall(data)
    assert bystander.is_well()


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(muster: Muster) -> None:
    """KIP-511: error 35 and the one entry that helps the client on."""
    with muster.connect() as sock:
        sock.sendall(framed(header(API_VERSIONS, 77, 42) + b"\x00" * 8))
        size, correlation_id, error, count, api_key, lowest, highest = struct.unpack(">iihihhh", sock.recv(64))
    assert (size, correlation_id) == (16, 42)
    assert (error, count, api_key, lowest, highest) == (35, 1, API_VERSIONS, 0, 4)


@pytest.mark.parametrize("name", ["", "my client", "a/b", "-a", "a-"])
def test_software_without_a_proper_name_is_an_invalid_request(muster: Muster, name: str) -> None:
    with Client.to(muster.kafka) as client:
        assert client.ask(ApiVersionsRequest(name, "1.0"), version=3).error_code == ErrorCode.INVALID_REQUEST


def test_surplus_bytes_behind_a_request_are_ignored(muster: Muster) -> None:
    plain = encode_request(12, 4, 5, "test", HeartbeatRequest("nobody", 1, "m"))
    with muster.connect() as sock:
        sock.sendall(framed(plain[4:] + b"surplus"))
        answer = sock.recv(64)
    assert decode_response(12, 4, answer[4:]).body.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_frames_that_trickle_in_are_put_together(muster: Muster) -> None:
    frame = encode_request(12, 4, 5, "test", HeartbeatRequest("nobody", 1, "m"))
    with muster.connect() as sock:
        for at in range(len(frame)):
            sock.sendall(frame[at : at + 1])
        assert len(sock.recv(64)) == 16


def test_many_requests_on_one_connection_are_answered_in_order(muster: Muster) -> None:
    frames = [encode_request(12, 4, n, "test", HeartbeatRequest("nobody", 1, "m")) for n in range(2_000)]
    with muster.connect() as sock:
        sock.sendall(b"".join(frames))
        answers = b""
        while len(answers) < 2_000 * 16:
            answers += sock.recv(65_536)
    assert [struct.unpack_from(">i", answers, 16 * n + 4)[0] for n in range(2_000)] == list(range(2_000))


def test_every_refusal_is_counted(muster: Muster) -> None:
    before = muster.metric("muster_connections_refused_total")
    with muster.connect() as sock:
        sock.sendall(struct.pack(">i", -5))
        assert closes(sock)
    assert muster.metric("muster_connections_refused_total") == before + 1
