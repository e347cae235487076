"""A long request is decoded in steps: others are decided in between, and one is decoded at a time."""

import pytest

from coordinator.server.decoding import LONG_BYTES
from coordinator.server.frontend import Frontend
from protocol.bounds import STEP_BYTES
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from tests.requests import commit
from tests.server.in_memory import InMemory, Peer

NAMES = 10_000
BEAT = (HeartbeatRequest("nobody", 1, "m"), 4)
LONG = (commit("g", {f"topic-{number}": {0: 1} for number in range(NAMES)}), 8)
FRAME_BYTES_MAX = 1 << 20
TURNS_MAX = 10_000  # many times as many as a long request takes


@pytest.fixture
def server() -> InMemory:
    """A server of which a turn does one step of each kind of work."""
    made = InMemory(frame_bytes_max=FRAME_BYTES_MAX)
    made.frontend.turn.seconds = 0
    return made


def play(server: InMemory, *peers: Peer) -> int:
    """Have turns until each peer has an answer. Returns how many."""
    for turns in range(TURNS_MAX):
        if all(peer.answers for peer in peers):
            return turns
        assert not turns or server.frontend.has_work, "nothing is left to be done, and not all have an answer"
        server.turn()
    raise AssertionError(f"no answer after {TURNS_MAX} turns")


def begin_long(server: InMemory, turns: int = 3) -> Peer:
    """A client whose long request is being decoded."""
    peer = server.connect()
    peer.send(LONG)
    for _ in range(turns):
        server.turn()
    return peer


def test_others_are_decided_between_the_steps(server: InMemory) -> None:
    peer, other = begin_long(server), server.connect()
    assert other.ask(*BEAT), "in the next turn"
    assert not peer.answers
    assert play(server, peer) > NAMES * 10 // STEP_BYTES, "one step a turn"
    ((_, response),) = peer.answers
    assert len(response.topics) == NAMES


def test_a_request_behind_a_long_one_waits(server: InMemory) -> None:
    peer = begin_long(server)
    peer.send(BEAT)
    play(server, peer)
    server.rest()
    assert [type(answer).__name__ for _, answer in peer.answers] == ["OffsetCommitResponse", "HeartbeatResponse"]


def test_one_is_decoded_at_a_time(server: InMemory) -> None:
    first, second = begin_long(server), server.connect()
    second.send(LONG)
    play(server, first)
    assert not second.answers
    play(server, second)
    assert len(second.answers[0][1].topics) == NAMES


def test_the_bytes_of_a_long_request_count_until_it_is_decided(server: InMemory) -> None:
    peer = begin_long(server)
    held = server.frontend.connections.requests.total
    assert held > LONG_BYTES
    play(server, peer)
    assert not server.frontend.connections.requests.total


def test_a_client_that_leaves_makes_room(server: InMemory) -> None:
    first, second = begin_long(server), server.connect()
    server.frontend.disconnect(first.connection)
    second.send(LONG)
    play(server, second)


def test_a_client_that_reads_no_responses_keeps_nobody_waiting(server: InMemory) -> None:
    first, second = begin_long(server), server.connect()
    Frontend.block(first.connection)
    second.send(LONG)
    play(server, second)
    server.frontend.resume(first.connection)
    play(server, first)
    assert len(first.answers[0][1].topics) == NAMES, "begun anew"


def test_bytes_that_cannot_be_read_end_the_connection_and_make_room(server: InMemory) -> None:
    peer, other = server.connect(), server.connect()
    chunk = bytearray(peer.chunk(LONG))
    chunk[-20_100:-20_000] = b"\xff" * 100
    server.frontend.receive(peer.connection, bytes(chunk))
    server.rest()
    assert peer.connection.closing
    assert not peer.answers
    other.send(LONG)
    play(server, other)


def test_a_long_request_of_an_unknown_version_is_refused_as_a_short_one_is(server: InMemory) -> None:
    peer = server.connect()
    name = ApiVersionsRequest("x" * (LONG_BYTES + 1), "1")
    chunk = bytearray(peer.chunk((name, 3)))
    chunk[6:8] = (99).to_bytes(2, "big")
    peer._sent[1] = (18, 0)
    server.frontend.receive(peer.connection, bytes(chunk))
    server.rest()
    assert peer.answers[0][1].error_code == 35
