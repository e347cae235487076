"""A connection keeps the bytes of the response to its latest commit, fetch or heartbeat, for the next one that is
answered the same."""

from random import Random

from coordinator.server import encoder
from coordinator.server.connection import NO_RESPONSE
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests import requests
from tests.server.in_memory import InMemory

PARTITIONS = 300


def server_with_a_topic() -> InMemory:
    return InMemory(topics={"t": PARTITIONS})


def commit(*partitions: int, generation: int = -1) -> OffsetCommitRequest:
    return requests.commit("g", {"t": dict.fromkeys(partitions, 5)}, generation)


def test_a_client_that_repeats_commits_gets_what_a_new_client_gets() -> None:
    server, dice = server_with_a_topic(), Random(5)
    commits = [commit(0), commit(0, 1), commit(*range(PARTITIONS)), commit(0, PARTITIONS), commit(0, generation=7)]
    again = server.connect()
    for _ in range(200):
        request, version = dice.choice(commits), dice.choice((2, 6, 8))
        assert again.ask(request, version) == server.connect().ask(request, version)
    assert [number for number, _ in again.answers] == list(range(1, 201)), "each answer has the id of its request"


def test_it_is_encoded_once() -> None:
    server = server_with_a_topic()
    peer = server.connect()
    peer.ask(commit(0, 1), 8)
    first = peer.connection.latest
    assert first is not NO_RESPONSE
    peer.ask(commit(0, 1), 8)
    assert peer.connection.latest is first
    peer.ask(commit(0), 8)
    assert peer.connection.latest is not first


def test_large_responses_and_errors_are_not_kept() -> None:
    server = server_with_a_topic()
    peer = server.connect()
    peer.ask(commit(*range(PARTITIONS)), 8)
    assert peer.connection.latest is NO_RESPONSE and PARTITIONS * 7 > encoder.LATEST_BYTES_MAX
    for _ in range(3):
        peer.ask(commit(PARTITIONS), 8)
    assert server.stats.errors == {(8, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): 3}
    assert peer.connection.latest is NO_RESPONSE


def test_so_is_the_response_to_a_fetch_that_finds_nothing_again_and_again() -> None:
    server = server_with_a_topic()
    peer, request = server.connect(), requests.fetch("t", 0, 0, max_wait_ms=500)
    kept = []
    for number in (1, 2, 3):
        assert peer.ask(request, 12) is None
        server.advance(0.6)
        assert peer.answers[-1] == (number, peer.answers[0][1])
        kept.append(peer.connection.latest)
    assert kept[0] is kept[1] is kept[2] is not NO_RESPONSE


def test_so_is_the_response_to_a_heartbeat_until_it_has_an_error() -> None:
    server = InMemory(group_initial_rebalance_delay_ms=0)
    peer = server.connect()
    peer.ask(requests.join("g"), 3)
    server.advance(0)
    joined = peer.answers[-1][1]
    peer.ask(SyncGroupRequest("g", joined.generation_id, joined.member_id), 3)
    beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
    assert peer.ask(beat, 4) == HeartbeatResponse()
    first = peer.connection.latest
    assert first is not NO_RESPONSE
    assert peer.ask(beat, 4) == HeartbeatResponse()
    assert peer.connection.latest is first
    assert peer.ask(HeartbeatRequest("g", 7, joined.member_id), 4).error_code == ErrorCode.ILLEGAL_GENERATION
    assert peer.ask(beat, 3) == HeartbeatResponse(), "as the version has it"
    assert [number for number, _ in peer.answers] == [1, 2, 3, 4, 5, 6]
