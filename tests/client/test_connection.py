"""A connection of a command, on a socket that is played: responses in pieces, late ones, none, and those of others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.client import connection as module
from coordinator.client.connection import Client, ClientError
from protocol.apis import api_of
from protocol.codec import encode_response
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, ApiVersionsResponseApiVersion
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.offset_fetch import OffsetFetchRequest

BEAT = HeartbeatRequest("g", 1, "m")
KEY = api_of(BEAT).key
SECONDS = 5.0


class Socket:
    """A socket to which pieces come, each so many seconds after the one before."""

    def __init__(self) -> None:
        self.pieces: list[tuple[float, bytes | OSError]] = []
        self.now_s = 0.0
        self.timeout_s = SECONDS
        self.sent: list[bytes] = []
        self.told_s: list[float] = []

    def settimeout(self, seconds: float) -> None:
        self.timeout_s = seconds

    def sendall(self, data: bytes) -> None:
        assert self.timeout_s == SECONDS
        self.sent.append(data)

    def recv(self, size: int) -> bytes:
        after_s, piece = self.pieces.pop(0) if self.pieces else (1e9, b"")
        if after_s > self.timeout_s:
            self.now_s += self.timeout_s
            self.pieces.insert(0, (after_s - self.timeout_s, piece))
            raise TimeoutError
        self.now_s += after_s
        if isinstance(piece, OSError):
            raise piece
        return piece

    def add(self, data: bytes, cuts: list[int], after_s: list[float]) -> float:
        """Let data come in pieces; return how long it takes."""
        ends = [*sorted({cut % len(data) for cut in cuts} - {0}), len(data)]
        starts = [0, *ends[:-1]]
        waits = [after_s[at % len(after_s)] for at in range(len(ends))]
        self.pieces += [(wait, data[a:b]) for wait, a, b in zip(waits, starts, ends, strict=True)]
        return sum(waits)

    def tell(self, address: str) -> None:
        assert address == "a:1"
        self.told_s.append(self.now_s)


def connect(sock: Any, patched: pytest.MonkeyPatch, *, tells: bool = False) -> Client:
    patched.setattr(module.time, "monotonic", lambda: sock.now_s)
    return Client(sock, address="a:1", seconds=SECONDS, on_wait=sock.tell if tells else None)


def frame(code: int, correlation_id: int) -> bytes:
    return encode_response(KEY, 0, correlation_id, HeartbeatResponse(error_code=code))


WAITS = st.lists(st.sampled_from([0.0, 0.24, 0.77, 1.03, 1.26, 4.1, 6.0]), min_size=1, max_size=4)


@given(st.lists(st.tuples(st.lists(st.integers(0, 40), max_size=4), WAITS), min_size=1, max_size=4), st.booleans())
def test_a_response_is_whole_within_its_time_and_a_long_wait_is_told_once(
    responses: list[tuple[list[int], list[float]]], tells: bool
) -> None:
    sock = Socket()
    with pytest.MonkeyPatch.context() as patched:
        client = connect(sock, patched, tells=tells)
        for number, (cuts, waits) in enumerate(responses, 1):
            began_s, told = sock.now_s, len(sock.told_s)
            takes_s = sock.add(frame(number, number), cuts, waits)
            if takes_s > SECONDS:
                with pytest.raises(ClientError, match=r"^a:1 does not respond: gave up after 5 s$"):
                    client.ask(BEAT, 0)
                assert sock.now_s == pytest.approx(began_s + SECONDS, abs=0.01)
            else:
                assert client.ask(BEAT, 0).error_code == number
                assert sock.now_s == pytest.approx(began_s + takes_s)
            is_told = tells and takes_s > module.PATIENCE_SECONDS
            assert sock.told_s[told:] == ([pytest.approx(began_s + 1.0, abs=0.01)] if is_told else [])
            assert sock.timeout_s == SECONDS
            if takes_s > SECONDS:
                return
    assert len(sock.sent) == len(responses)


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([b""], "a:1 closed the connection: does it expect TLS or SASL?"),
        ([OSError(104, "Connection reset by peer")], "a:1 closed the connection: Connection reset by peer: does it expect TLS or SASL?"),
        ([OSError("odd")], "a:1 closed the connection: odd: does it expect TLS or SASL?"),
        ([b"\x15\x03\x03\x00\x02"], "a:1 speaks TLS instead of Kafka's protocol"),
        ([b"HTTP/1.1 400 Bad Request\r\n"], "a:1 speaks HTTP instead of Kafka's protocol"),
        ([frame(0, 2)], "cannot read the response of a:1: correlation id 2, expected 1"),
        ([frame(0, 1)[:-1] + b"", b""], "a:1 closed the connection: does it expect TLS or SASL?"),
        ([b"\0\0\0\x05\0\0\0\x01\0"], "cannot read the response of a:1: "),
        ([b"\x7f\0\0\0\0\0\0\x01"], "cannot read the response of a:1: "),
    ],
)  # fmt: skip
def test_a_stranger_is_told_apart(pieces: list[bytes | OSError], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sock = Socket()
    sock.pieces = [(0.0, piece) for piece in pieces]
    with pytest.raises(ClientError) as failed:
        connect(sock, monkeypatch).ask(BEAT, 0)
    assert str(failed.value).startswith(said)
    assert str(failed.value) == said or said.endswith(": ")


def test_who_has_been_served_is_not_asked_whether_it_expects_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what looks like TLS in the middle is none."""
    sock = Socket()
    alike = frame(0x1503, 2)
    sock.pieces = [(0.0, frame(0, 1)), (0.0, alike[:8]), (0.0, alike[8:]), (0.0, b"")]
    client = connect(sock, monkeypatch)
    assert [client.ask(BEAT, 0).error_code for _ in range(2)] == [0, 0x1503]
    with pytest.raises(ClientError, match=r"^a:1 closed the connection$"):
        client.ask(BEAT, 0)


@given(
    st.tuples(st.integers(0, 12), st.integers(0, 12)),
    st.one_of(st.none(), st.integers(0, 12)),
    st.sampled_from([BEAT, OffsetFetchRequest("g")]),
)
def test_the_newest_version_is_taken_that_both_sides_have(
    theirs: tuple[int, int], up_to: int | None, asked: Any
) -> None:
    sock, api = Socket(), api_of(asked)
    least, most = sorted(theirs)
    offered = (ApiVersionsResponseApiVersion(api.key, least, most), ApiVersionsResponseApiVersion(-1, 0, 20))
    sock.add(encode_response(18, 3, 1, ApiVersionsResponse(api_keys=offered)), [], [0.0])
    both = sorted(set(api.versions) & set(range(least, most + 1)))
    usable = [version for version in both if up_to is None or version <= up_to]
    with pytest.MonkeyPatch.context() as patched:
        client = connect(sock, patched)
        assert [*client.versions(asked)] == both
        assert [*client.versions(asked)] == both, "asked for once"
        sock.pieces = [(0.0, b"")]
        with pytest.raises(ClientError) as failed:
            client.ask(asked, up_to=up_to)
    if usable:
        assert str(failed.value) == "a:1 closed the connection: does it expect TLS or SASL?"
        assert sock.sent[-1][4:8] == api.key.to_bytes(2) + usable[-1].to_bytes(2)
    else:
        assert str(failed.value) == f"a:1 does not support {api.name} in any version known here"
        assert len(sock.sent) == 1


def test_a_refusal_of_api_versions_is_told_by_its_name_or_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for code, name in ((35, "UNSUPPORTED_VERSION"), (9_999, "error 9999")):
        sock = Socket()
        sock.add(encode_response(18, 3, 1, ApiVersionsResponse(error_code=code)), [], [0.0])
        with pytest.raises(ClientError, match=f"^a:1 refuses ApiVersions: {name}$"):
            connect(sock, monkeypatch).versions(ApiVersionsRequest("a", "1"))
