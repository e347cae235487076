"""Large responses are encoded in steps, and members do not wait for clients that ask for them."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.core import shard
from coordinator.core.decision import Done
from coordinator.server import encoder
from coordinator.server.encoding import ENCODINGS_MAX
from protocol import record_batch
from protocol.encoder import PIECE_ELEMENTS
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.records import Record
from tests.log_lines import log_lines
from tests.requests import commit, create_topics, fetch, fetch_offsets, produce
from tests.server.in_memory import InMemory, Peer
from tests.server.listening import VERSIONS

PARTITIONS = 5 * PIECE_ELEMENTS
ALL_TOPICS = (MetadataRequest(topics=None), 9)
BEAT = (HeartbeatRequest("nobody", 1, "m"), 4)
TOPIC = OffsetFetchRequestTopics("wide", b"x" * 16, partition_indexes=tuple(range(PARTITIONS)))
UNKNOWN_TOPIC = (OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g", topics=(TOPIC,)),)), 10)


def hurried() -> InMemory:
    """A server whose turns are over after five looks at the clock."""
    server = InMemory(topics={"wide": PARTITIONS})
    server.frontend.turn.seconds = 0.0005
    server.frontend.turn.real_s = count(0.0, 0.0001).__next__
    return server


def play(server: InMemory, peer: Peer) -> int:
    """Have turns until the peer is answered. Returns how many."""
    turns = 0
    while not peer.answers:
        server.turn()
        turns += 1
        assert peer.answers or server.frontend.has_work
    return turns


def test_a_large_response_is_encoded_in_steps() -> None:
    server = hurried()
    peer = server.connect()
    peer.send(ALL_TOPICS, VERSIONS)
    assert play(server, peer) > 1
    ((_, response),) = peer.answers
    assert [one.partition_index for one in response.topics[0].partitions] == list(range(PARTITIONS))
    assert not server.frontend.connections.parked
    assert sum(server.stats.latency[3].buckets) == 1
    server.rest()
    assert [number for number, _ in peer.answers] == [1, 2], "what is behind it waits"


def test_error_codes_of_a_large_response_are_counted() -> None:
    server = hurried()
    peer = server.connect()
    peer.send(UNKNOWN_TOPIC)
    assert play(server, peer) > 1
    assert server.stats.errors == {(9, ErrorCode.UNKNOWN_TOPIC_ID): PARTITIONS}


def test_a_client_that_leaves_in_the_middle_of_its_response_leaves_nothing() -> None:
    server = hurried()
    peer = server.connect()
    peer.send(ALL_TOPICS)
    server.turn()
    assert server.frontend.encoder.encodings
    server.frontend.disconnect(peer.connection)
    server.turn()
    assert not server.frontend.encoder.encodings
    assert not server.frontend.connections.parked
    assert not server.frontend.has_work


def test_a_response_that_no_budget_has_room_for_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    server = hurried()
    server.frontend.outbox.unsent.bytes_max = 100_000
    peer = server.connect()
    peer.send(ALL_TOPICS)
    server.rest()
    assert peer.connection.closing
    assert not peer.answers
    assert server.stats.connections_closed == {"response memory": 1}
    told = "connection closed: its response is larger than queued.max.response.bytes"
    assert log_lines(caplog) == [(told, {"client": peer.connection.host, "api": "Metadata"})]


def test_few_large_responses_are_there_at_a_time() -> None:
    server = hurried()
    peers = [server.connect() for _ in range(3 * ENCODINGS_MAX)]
    for peer in peers:
        peer.send(ALL_TOPICS, BEAT)
    server.turn()
    most = 0
    while server.frontend.has_work:
        most = max(most, len(server.frontend.encoder.encodings))
        server.turn()
    assert most == ENCODINGS_MAX
    assert [[number for number, _ in peer.answers] for peer in peers] == [[1, 2]] * len(peers)
    assert server.frontend.connections.requests.total == 0


def test_few_large_responses_are_there_at_a_time_while_many_short_ones_wait() -> None:
    """The answers to 300 fetches, which one record ends, are many turns' work, and long requests go on meanwhile."""
    server = hurried()
    waiting = [server.connect() for _ in range(300)]
    for peer in waiting:
        peer.send((fetch("wide", max_wait_ms=10_000_000), 11))
    server.rest()
    assert len(server.frontend.connections.parked) == len(waiting)
    peers = [server.connect() for _ in range(10 * ENCODINGS_MAX)]
    for peer in peers:
        peer.send(UNKNOWN_TOPIC)
    records = record_batch.encode([Record(None, b"news", timestamp=1)])
    server.connect().send((produce("wide", {0: records}), 9))
    server.turn()
    most = 0
    while server.frontend.has_work:
        most = max(most, len(server.frontend.encoder.encodings))
        server.turn()
    assert 1 < most <= ENCODINGS_MAX
    assert all(peer.answers for peer in (*peers, *waiting))


def test_what_members_send_does_not_wait_for_many_that_ask_for_much() -> None:
    server = hurried()
    peers = [server.connect() for _ in range(50)]
    for peer in peers:
        peer.send(ALL_TOPICS)
    member = server.connect()
    waited = []
    for number in range(1, 20):
        member.send(BEAT)
        server.turn()
        waited.append(number - len(member.answers))
    assert max(waited) <= 1, waited
    assert sum(len(peer.answers) for peer in peers) < 25, "the others are not all decided yet"


@pytest.mark.parametrize(
    "long",
    [
        (HeartbeatRequest("long", 1, "x" * 20_000), 4),
        (OffsetFetchRequest("long", (OffsetFetchRequestTopic("orders", tuple(range(130))),)), 7),
        (OffsetFetchRequest("long", (OffsetFetchRequestTopic("orders", tuple(range(4_000))),)), 7),
    ],
)
def test_a_long_request_gives_way_whatever_it_is(long: tuple[Any, int]) -> None:
    server = InMemory()
    peer, member = server.connect(), server.connect()
    handled = server.record_requests()
    peer.send(long)
    member.send((HeartbeatRequest("short", 1, "member"), 4))
    member.send((OffsetFetchRequest("short", (OffsetFetchRequestTopic("orders", tuple(range(110))),)), 7))
    server.turn()
    assert [request.group_id for request, _ in handled] == ["short", "short", "long"], "in one turn, if there is time"


def test_to_fetch_all_offsets_of_a_group_gives_way_if_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.runtime.group_requests.PART_PARTITIONS", 20)
    server = InMemory(topics={"orders": 30})
    peer, other = server.connect(), server.connect()
    looked_up: list[str] = []
    fetch_offsets = shard.fetch_offsets

    def note(wanted: Any, *more: Any, **named: Any) -> Any:
        looked_up.append(wanted.group_id)
        return fetch_offsets(wanted, *more, **named)

    monkeypatch.setattr(shard, "fetch_offsets", note)
    for group, partitions in (("few", 10), ("many", 30)):
        peer.ask(commit(group, {"orders": dict.fromkeys(range(partitions), 1)}), 8)
    peer.send((OffsetFetchRequest("many", None), 7))
    other.send((OffsetFetchRequest("few", None), 7))
    server.turn()
    assert looked_up == ["few", "many"]
    assert [len(each.answers[-1][1].topics[0].partitions) for each in (peer, other)] == [30, 10]


UNWRITABLE = "x" * 40_000  # no string of these versions may be so long


def spoil(server: InMemory, change: Callable[[Any], Any]) -> None:
    """Let the first request from now on be answered with another response than the node's."""
    handle = server.node.engine.handle

    def handle_badly(*arguments: Any) -> Any:
        server.node.engine.handle = handle
        return Done(change(handle(*arguments).response))

    server.node.engine.handle = handle_badly


@pytest.mark.parametrize(
    ("key", "request_", "version", "unwritable"),
    [
        (15, DescribeGroupsRequest(("g",)), 4, {"group_state": UNWRITABLE}),
        (9, fetch_offsets("g"), 8, {"group_id": UNWRITABLE}),
    ],
)
def test_a_read_whose_response_has_no_bytes_is_answered_and_the_connection_goes_on(
    key: int, request_: Any, version: int, unwritable: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = InMemory()
    peer = server.connect()
    spoil(server, lambda answer: replace(answer, groups=(replace(answer.groups[0], **unwritable),)))
    peer.send((request_, version), VERSIONS)
    server.rest()
    (_, described), (_, versions) = peer.answers
    assert [(one.group_id, one.error_code) for one in described.groups] == [("g", ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert not versions.error_code
    assert not peer.connection.closing
    assert server.node.world.edge.failures == {"response": 1}
    assert server.stats.errors == {(key, ErrorCode.UNKNOWN_SERVER_ERROR): 1}
    assert "internal error: response" in caplog.text


def test_a_large_read_whose_last_piece_has_no_bytes_is_answered_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    server = hurried()
    peer = server.connect()
    encode = encoder.encode_response_in_pieces

    def break_off(*arguments: Any) -> Iterator[bytes]:
        pieces = list(encode(*arguments))
        assert len(pieces) > 2
        yield from pieces[:-1]
        raise ProtocolError("a mistake")

    monkeypatch.setattr(encoder, "encode_response_in_pieces", break_off)
    peer.send(UNKNOWN_TOPIC)
    server.rest()
    ((_, response),) = peer.answers
    assert response.groups[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not peer.connection.closing
    assert not server.frontend.encoder.encodings


def test_a_change_whose_response_has_no_bytes_closes_the_connection() -> None:
    """It is done, so that its client must not hear that nothing has changed."""
    server = InMemory()
    peer = server.connect()
    spoil(server, lambda answer: replace(answer, topics=(replace(answer.topics[0], error_message=UNWRITABLE),)))
    peer.send((create_topics({"new": 1}), 4), VERSIONS)
    server.rest()
    assert peer.connection.closing
    assert peer.answers == []
    assert "new" in server.node.world.ledger.catalog.topics
