"""Turns: what is decided when, in which order it is answered, and what a client may keep of us."""

import errno
import random
import struct
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.core.principal import ANONYMOUS, Principal
from coordinator.dataplane.long_polls import deadline_ms
from coordinator.server.connection import BACKLOG_FRAMES
from protocol.apis import BY_NAME
from protocol.codec import encode_request, encode_response
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.schema import Message
from storage.files import StorageError
from storage.memory_files import MemoryFile
from tests.dataplane.broker import batch
from tests.log_lines import log_lines
from tests.requests import commit, fetch, fetch_offsets, join, produce
from tests.server.in_memory import FRAME_BYTES_MAX, InMemory, Peer
from tests.server.listening import VERSIONS
from tests.storage.crashing_disk import CrashingDisk

METADATA = (MetadataRequest(), 12)


def joining(group: str = "shop") -> tuple[Message, int]:
    return join(group, rebalance_ms=60_000), 3


def polling(wait_ms: int = 500) -> tuple[FetchRequest, int]:
    return fetch("orders", max_wait_ms=wait_ms, max_bytes=1 << 20, partition_max_bytes=1 << 20), 11


def committing(offset: int = 5) -> tuple[Any, int]:
    return commit("simple", {"orders": {0: offset}}), 8


def correlation_ids(peer: Peer) -> list[int]:
    return [correlation_id for correlation_id, _ in peer.answers]


@pytest.mark.rule("G-003 G-054 K-370 K-372")
def test_commits_and_fetches_of_one_chunk_are_answered_in_one_turn_and_in_their_order() -> None:
    server = InMemory()
    peer = server.connect()
    fetching = fetch_offsets("simple", {"orders": (0,)}), 8
    peer.send(VERSIONS, committing(5), fetching, VERSIONS, committing(6), fetching)
    server.turn()
    assert correlation_ids(peer) == [1, 2, 3, 4, 5, 6]
    fetched = [peer.answers[at][1].groups[0].topics[0].partitions[0].committed_offset for at in (2, 5)]
    assert fetched == [5, 6], "each fetch has what was committed before it"


@pytest.mark.rule("G-003")
def test_what_is_behind_a_parked_request_waits_undecided() -> None:
    """A heartbeat queues behind a parked JoinGroup, and other connections do not."""
    server = InMemory(group_initial_rebalance_delay_ms=3_000)
    waiting, other = server.connect(), server.connect()
    waiting.send(joining(), committing(), VERSIONS)
    other.send(VERSIONS)
    server.turn()
    assert (correlation_ids(waiting), correlation_ids(other)) == ([], [1])
    assert waiting.connection.is_full, "and its socket is not read meanwhile"
    server.advance(3)
    assert correlation_ids(waiting) == [1, 2, 3]
    assert waiting.answers[0][1].generation_id == 1


def test_several_parked_requests_on_one_connection_are_answered_in_order() -> None:
    server = InMemory(group_initial_rebalance_delay_ms=1_000)
    peer = server.connect()
    peer.send(joining("a"), joining("b"), joining("c"), VERSIONS)
    server.turn()
    for _ in range(3):
        server.advance(1)
    assert correlation_ids(peer) == [1, 2, 3, 4]


def stable_member(server: InMemory, peer: Peer) -> tuple[HeartbeatRequest, int]:
    """Make the peer the only member of a group. Returns its heartbeat."""
    joined = peer.ask(*joining())
    peer.ask(SyncGroupRequest("shop", joined.generation_id, joined.member_id), 3)
    return HeartbeatRequest("shop", joined.generation_id, joined.member_id), 3


def test_timers_fire_after_what_has_arrived_is_decided() -> None:
    """A member whose heartbeat is there is not thrown out, though its session is over by the server's clock."""
    server = InMemory()
    peer = server.connect()
    beat = stable_member(server, peer)
    assert server.frontend.next_deadline_ms() <= server.clock.now_ms() + 10_000, "no later than the end of the session"
    server.seconds += 11  # nobody had a turn for eleven seconds
    assert peer.ask(*beat).error_code == ErrorCode.NONE
    server.advance(10)
    assert peer.ask(*beat).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_long_poll_is_let_go_with_its_client() -> None:
    server = InMemory()
    peer = server.connect()
    peer.send(polling(30_000))
    server.turn()
    assert server.frontend.next_poll_ms() == deadline_ms(server.clock.now_ms(), 30_000)
    server.frontend.disconnect(peer.connection)
    assert server.frontend.next_poll_ms() is None
    server.advance(31)
    assert peer.answers == []


@pytest.mark.rule("G-004")
def test_a_member_whose_client_disconnects_while_it_joins_stays_a_member() -> None:
    server = InMemory(group_initial_rebalance_delay_ms=1_000)
    peer = server.connect()
    peer.send(joining())
    server.turn()
    server.frontend.disconnect(peer.connection)
    server.advance(1)
    group = server.node.world.partitions.owner("shop").shard.groups["shop"]
    assert len(group.members) == 1


@pytest.mark.rule("G-050 O-047 O-215 K-150 K-371 K-373 K-374 G-052 K-186 K-315 K-375")
def test_nobody_hears_of_what_could_not_be_written() -> None:
    """R6: the answer to a commit whose append fails never leaves; the turn ends with the failure."""
    files = CrashingDisk()
    server = InMemory(files)
    peer = server.connect()
    assert peer.ask(*committing(5)).topics[0].partitions[0].error_code == ErrorCode.NONE
    for number in range(files.calls + 1, files.calls + 20):
        files.fail[number] = errno.EIO
    peer.send(committing(6))
    with pytest.raises(StorageError):
        server.turn()
    assert len(peer.answers) == 1


def test_without_fsync_no_turn_leaves_anything_unwritten() -> None:
    server = InMemory(group_initial_rebalance_delay_ms=0)
    peer = server.connect()
    for request in ((produce("orders", {0: batch("x")}), 9), METADATA, committing(), joining()):
        peer.send(request)
        server.turn()
        world = server.node.world
        assert not (world.dirty or world.dataplane.has_written or world.dataplane.has_begun_logs), request


def test_a_client_that_does_not_take_its_answers_is_not_decided_for() -> None:
    server = InMemory()
    peer = server.connect()
    server.frontend.block(peer.connection)  # as the poller does when a send falls short
    peer.send(*[VERSIONS] * 50)
    server.turn()
    assert peer.connection.outgoing == []
    assert len(peer.connection.backlog) == 50
    server.frontend.resume(peer.connection)
    server.turn()
    assert correlation_ids(peer) == list(range(1, 51))


def test_a_chunk_of_thousands_of_requests_is_cut_up_as_they_are_decided() -> None:
    """To cut it up takes longer than to decide some of them, and others wait. What counts as held is all of it."""
    server = InMemory()
    peer = server.connect()
    server.frontend.block(peer.connection)
    peer.send(*[VERSIONS] * 5_000)
    server.turn()
    assert len(peer.connection.backlog) == BACKLOG_FRAMES
    held = server.frontend.connections.requests.total
    assert held > len(peer.connection.backlog) * len(peer.connection.backlog[0]) * 10
    assert held == peer.connection.undecided_bytes
    server.frontend.resume(peer.connection)
    while peer.connection.backlog or peer.connection.outgoing:
        server.turn()
        server.frontend.resume(peer.connection)
        assert len(peer.connection.backlog) <= BACKLOG_FRAMES
    assert correlation_ids(peer) == list(range(1, 5_001))
    assert server.frontend.connections.requests.total == 0


def test_a_size_that_cannot_be_behind_many_requests_closes_once_they_are_decided() -> None:
    server = InMemory()
    peer = server.connect()
    frames = b"".join(peer.frame(*VERSIONS, number) for number in range(1, 301))
    server.frontend.block(peer.connection)
    server.frontend.receive(peer.connection, frames + struct.pack(">i", -1))
    assert not peer.connection.closing
    server.frontend.resume(peer.connection)
    while server.frontend.has_work or not peer.connection.closing:
        server.turn()
    server.turn()
    found = correlation_ids(peer)
    assert found == list(range(1, len(found) + 1))
    assert 200 < len(found) <= 300


def test_what_is_owed_to_one_client_is_bounded() -> None:
    server = InMemory()
    peer = server.connect()
    peer.send(*[(MetadataRequest(topics=None), 9)] * 3_000)  # each answer names 50 partitions: far more than a mebibyte
    assert peer.connection.outgoing_bytes < 1_100_000
    assert peer.connection.backlog
    while peer.connection.backlog or peer.connection.outgoing:
        server.turn()
        server.frontend.resume(peer.connection)
    assert correlation_ids(peer) == list(range(1, 3_001))


@pytest.mark.parametrize("size", [0, -1, FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_a_size_that_cannot_be_closes_after_what_was_decided_before(size: int) -> None:
    """R16."""
    server = InMemory()
    peer = server.connect()
    first = peer.frame(*VERSIONS, 1)
    server.frontend.receive(peer.connection, first + struct.pack(">i", size) + b"rest")
    server.turn()
    assert correlation_ids(peer) == [1]
    assert peer.connection.closing
    assert server.stats.connections_refused == 1


@pytest.mark.parametrize(
    ("asked", "key", "field"),
    [((MetadataRequest(topics=()), 8), 3, "cluster_id"), (joining(), 11, "member_id")],
    ids=["decided at once", "parked"],
)
def test_an_answer_that_cannot_be_written_is_our_error_and_closes_that_connection_alone(
    asked: tuple[Message, int], key: int, field: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def overlong(api_key: int, version: int, correlation_id: int, message: Any) -> bytes:
        unwritable = replace(message, **{field: "x" * 40_000}) if api_key == key else message
        return encode_response(api_key, version, correlation_id, unwritable)

    def overlong_pieces(api_key: int, version: int, correlation_id: int, message: Any) -> Iterator[bytes]:
        yield overlong(api_key, version, correlation_id, message)[4:]

    monkeypatch.setattr("coordinator.server.encoder.encode_response", overlong)
    monkeypatch.setattr("coordinator.server.encoder.encode_response_in_pieces", overlong_pieces)
    server = InMemory(group_initial_rebalance_delay_ms=1_000)
    peer, other = server.connect(), server.connect()
    peer.send(VERSIONS, asked, VERSIONS)
    server.turn()
    server.advance(2)
    assert correlation_ids(peer) == [1], "what was decided before it is sent"
    assert peer.connection.closing
    assert not peer.connection.backlog
    assert server.stats.connections_refused == 0, "its bytes were good ones"
    assert [one.levelname for one in caplog.records if one.name == "muster.edge"] == ["ERROR"]
    assert server.node.world.edge.failures == {"response": 1}
    assert other.ask(*VERSIONS).error_code == ErrorCode.NONE


def test_a_stalled_frame_is_told_from_a_busy_client() -> None:
    """R19: one frame that takes too long, not one client that always has half a frame on its way."""
    server = InMemory()
    slow, busy, steady = server.connect(), server.connect(), server.connect()
    whole = busy.frame(*VERSIONS, 1)
    assert steady.frame(*VERSIONS, 1) == whole
    for peer in (slow, busy, steady):
        server.frontend.receive(peer.connection, whole[:5])
    for second in range(40):
        now_ms = server.clock.now_ms()
        assert slow.connection.track_stall(now_ms, 30_000) == (second >= 30)
        assert not busy.connection.track_stall(now_ms, 30_000)
        assert not steady.connection.track_stall(now_ms, 30_000)
        server.advance(1)
        server.frontend.receive(busy.connection, whole[5:] + whole[:5])
        server.frontend.receive(steady.connection, whole[5:])
        server.frontend.receive(steady.connection, whole[:5])


def test_half_a_frame_that_is_not_read_is_no_stalled_one() -> None:
    """Frames wait behind a parked JoinGroup, so that its socket is not read: the rest of the last one cannot arrive."""
    server = InMemory(group_initial_rebalance_delay_ms=600_000)
    peer = server.connect()
    peer.send(joining(), VERSIONS)
    server.frontend.receive(peer.connection, peer.frame(*VERSIONS, 3)[:5])
    server.turn()
    assert [peer.connection.track_stall(seconds, 30) for seconds in (0.0, 29.0, 31.0, 100.0)] == [False] * 4


def hurried(step_s: float = 0.004, **values: Any) -> InMemory:
    """A server whose requests take `step_s` each, so that few of them fit into a turn."""
    server = InMemory(**values)
    server.frontend.turn.real_s = count(0.0, step_s).__next__  # each look takes so long
    return server


def test_a_turn_is_over_in_time_and_no_request_is_lost_or_reordered() -> None:
    server = hurried()
    flood, other = server.connect(), server.connect()
    flood.send(*[VERSIONS] * 20)
    server.turn()
    assert 0 < len(flood.answers) < 5
    other.send(VERSIONS)
    server.turn()
    assert correlation_ids(other) == [1], "it does not wait for those that were there before"
    assert len(flood.answers) < 10
    server.rest()
    assert correlation_ids(flood) == list(range(1, 21))


def test_a_connection_in_the_middle_of_its_backlog_is_not_read_and_goes_on_by_itself() -> None:
    server = hurried()
    peer = server.connect()
    peer.send(*[VERSIONS] * 10)
    server.turn()
    assert peer.connection.is_full
    assert server.frontend.has_work
    server.rest()
    assert not peer.connection.is_full
    assert server.frontend.connections.requests.total == 0


def test_expensive_connections_have_their_turns_one_request_each() -> None:
    server = hurried(step_s=0.02)
    heavy = [server.connect() for _ in range(3)]
    for peer in heavy:
        peer.send(*[VERSIONS] * 4)
    for _ in range(3):
        server.turn()
    served: list[int] = []
    for _ in range(6):
        before = [len(peer.answers) for peer in heavy]
        cheap = server.connect()
        cheap.send(VERSIONS)
        server.turn()
        assert len(cheap.answers) == 1
        served += [n for n in range(3) for _ in range(len(heavy[n].answers) - before[n])]
    assert len(served) == 6, "one of them in each turn"
    assert set(served[:3]) == {0, 1, 2}, served
    server.rest()
    assert [correlation_ids(peer) for peer in heavy] == [[1, 2, 3, 4]] * 3


def test_a_connection_is_not_heavy_because_the_machine_is_busy() -> None:
    """Each look at the real clock shows 20 ms more, in which the server had no processor at first."""
    server = hurried(step_s=0.02)
    server.frontend.turn.cpu_s = lambda: 0.0
    peer = server.connect()
    peer.send(*[VERSIONS] * 3)
    server.turn()
    assert peer.connection.backlog, "the turn is over by the real clock"
    assert peer.connection.heavy_until_s == 0
    server.frontend.turn.cpu_s = count(0.0, 0.02).__next__
    server.turn()
    assert peer.connection.heavy_until_s > 0


def test_a_burst_of_one_connection_gives_way_to_what_comes_behind_it() -> None:
    server = hurried(step_s=0.0001)
    flood, member = server.connect(), server.connect()
    handled = server.record_requests()
    flood.send(*[(HeartbeatRequest("nobody", 1, "flood"), 4)] * 40)
    member.send((HeartbeatRequest("nobody", 1, "member"), 4))
    server.turn()
    decided = [request.member_id for request, _ in handled]
    assert decided.index("member") < 10
    assert len(decided) > 20, "it goes on in the same turn"
    server.rest()
    assert correlation_ids(flood) == list(range(1, 41))


BURST = (VERSIONS, METADATA, (HeartbeatRequest("nobody", 1, "m"), 4), committing(), polling(0))
LONG = (commit("simple", {f"topic-{number}": {0: 1} for number in range(700)}), 8)


@pytest.mark.parametrize("seed", range(12))
def test_a_burst_has_the_same_responses_in_its_order_whether_its_client_is_alone_or_not(seed: int) -> None:
    dice = random.Random(seed)
    requests = dice.choices((*BURST, LONG), (3, 3, 3, 3, 3, 2), k=dice.randint(1, 2 * BACKLOG_FRAMES // 3))
    step_s, cuts, answers = dice.choice((0.0, 0.0001, 0.02)), dice.randint(0, 3), []
    for is_alone in (False, True):
        server = hurried(step_s)
        peer = server.connect()
        chunk = peer.chunk(*requests)
        bounds = [0, *sorted(random.Random(seed).choices(range(len(chunk)), k=cuts)), len(chunk)]
        for start, end in pairwise(bounds):
            server.frontend.receive(peer.connection, chunk[start:end], is_alone=is_alone)
            server.turn()
        server.rest()
        answers.append(peer.answers)
        assert correlation_ids(peer) == list(range(1, len(requests) + 1))
        assert not server.frontend.connections.requests.total
    assert answers[0] == answers[1]


def test_who_is_alone_is_answered_before_anything_else_of_the_turn() -> None:
    server = InMemory()
    peer, handled = server.connect(), server.record_requests()
    peer.send(METADATA, METADATA, is_alone=True)
    assert len(handled) == 1, "one, and others may have their turn"
    server.rest()
    peer.send(METADATA)
    assert len(handled) == 2, "others may follow in this turn, and go first"
    server.rest()
    assert correlation_ids(peer) == [1, 2, 3]


def test_what_waits_keeps_its_turn_before_one_that_is_alone() -> None:
    server = hurried(step_s=0.02)
    earlier, alone, handled = server.connect("earlier"), server.connect("alone"), server.record_requests()
    earlier.send(*[METADATA] * 3)
    server.turn()
    server.frontend.begin()
    server.frontend.turn.real_s = lambda: 0.0
    alone.send(METADATA, is_alone=True)
    server.rest()
    assert [call.client_id for _, call in handled] == ["earlier", "earlier", "alone", "earlier"]


def test_timers_wait_for_what_has_arrived_and_not_for_a_flood() -> None:
    server = InMemory()
    member, flood = server.connect(), server.connect()
    beat = stable_member(server, member)
    server.frontend.turn.real_s = count(0.0, 0.004).__next__
    server.seconds += 11  # the process was stopped for longer than the session
    flood.send(*[VERSIONS] * 100)
    member.send(*[VERSIONS] * 3, beat)
    while len(member.answers) < 6:
        server.turn()
        assert server.frontend.has_work
    assert member.answers[-1][1].error_code == ErrorCode.NONE, "it was there before the session was over"
    server.seconds += 11
    turns = 0
    while server.node.world.partitions.owner("shop").shard.groups["shop"].members:
        server.turn()
        turns += 1
        assert turns < 20, "a flood must not stop the timers"
    assert server.frontend.has_work, "the flood is not decided yet"


def test_over_the_budget_of_requests_the_largest_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    server = InMemory()
    server.frontend.connections.requests.bytes_max = 100_000
    peers = [server.connect() for _ in range(4)]
    unfinished = struct.pack(">i", 60_000) + bytes(29_996)
    for peer in peers[:2]:
        server.frontend.receive(peer.connection, unfinished)
    server.frontend.receive(peers[2].connection, unfinished[:20_000])
    server.frontend.receive(peers[1].connection, bytes(100))
    assert server.frontend.connections.requests.total == 80_100
    server.turn()
    server.frontend.receive(peers[3].connection, unfinished)
    server.turn()
    assert [peer.connection.closing for peer in peers] == [False, True, False, False]
    assert server.frontend.connections.requests.total == 80_000
    assert server.stats.connections_closed == {"request memory": 1}
    told = "connection closed: it holds the most of too many bytes of requests (queued.max.request.bytes)"
    assert log_lines(caplog) == [(told, {"client": peers[1].connection.host, "bytes": 30_100})]
    for peer in peers:
        server.frontend.disconnect(peer.connection)
    assert server.frontend.connections.requests.total == 0


@pytest.mark.parametrize(
    ("start", "name"),
    [(bytes.fromhex("1603010200010001fc0303"), "TLS"), (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP")],
)
def test_other_protocols_are_named_once_for_a_peer(start: bytes, name: str, caplog: pytest.LogCaptureFixture) -> None:
    server, hosts = InMemory(), ("192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.3", "192.0.2.2")
    for host in hosts:
        peer = server.connect()
        peer.connection.host = host
        server.frontend.receive(peer.connection, start)
        server.turn()
        assert peer.connection.closing
    told = f"connection closed: looks like {name}, and this port speaks Kafka's protocol without encryption"
    assert log_lines(caplog) == [(told, {"client": host}) for host in dict.fromkeys(hosts)]
    assert server.stats.connections_closed == {"unreadable": len(hosts)}


def test_a_frame_that_cannot_be_one_is_told_with_its_client(caplog: pytest.LogCaptureFixture) -> None:
    server = InMemory()
    peer = server.connect()
    server.frontend.receive(peer.connection, bytes(8))
    told = f"connection closed: a frame of 0 bytes where 1 to {FRAME_BYTES_MAX} are allowed"
    assert log_lines(caplog) == [(told, {"client": peer.connection.host})]


def test_every_request_is_counted_under_its_api() -> None:
    server = InMemory()
    for asked in (produce("orders", {0: batch("a")}), 9), committing(), VERSIONS:
        server.connect().ask(*asked)
    assert {key: sum(latency.buckets) for key, latency in server.stats.latency.items()} == {0: 1, 8: 1, 18: 1}


def test_a_latency_ends_with_the_append(monkeypatch: pytest.MonkeyPatch) -> None:
    server = InMemory()
    server.connect().ask(*committing())
    append = MemoryFile.append

    def append_late(file: MemoryFile, data: bytes) -> None:
        append(file, data)
        server.seconds += 3.0

    monkeypatch.setattr(MemoryFile, "append", append_late)
    before = server.stats.latency[8].sum
    server.connect().ask(*committing())
    assert server.stats.latency[8].sum == before + 3.0


def test_parked_requests_are_counted_apart_from_work() -> None:
    server = InMemory(group_initial_rebalance_delay_ms=3_000)
    peer = server.connect()
    peer.send(joining())
    server.turn()
    server.advance(3)
    assert peer.answers
    assert 11 not in server.stats.latency
    assert server.stats.waits[11].sum == pytest.approx(3)


def test_handlers_learn_who_asks_and_by_which_listener() -> None:
    server = InMemory()
    handled = server.record_requests()
    alice, stranger = server.connect(), server.connect()
    alice.connection.principal = Principal("User", "alice")
    alice.ask(*VERSIONS)
    stranger.ask(*VERSIONS)
    names = [(str(call.principal), call.listener) for _, call in handled]
    assert names == [("User:alice", "PLAINTEXT"), (str(ANONYMOUS), "PLAINTEXT")]


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::ffff:127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1"),
    ],
)
def test_a_peer_is_shown_as_kafka_shows_it(address: str, host: str) -> None:
    """A slash and the literal address as Java writes it, without the zone of a link-local one."""
    server = InMemory()
    assert server.frontend.connect(address, server.listener).host == host


def test_all_that_wait_for_the_encoder_go_on_when_it_has_room() -> None:
    here = InMemory()
    connections, waiting = here.frontend.connections, [here.connect().connection for _ in range(3)]
    connections.set_encoder_full(True)
    for connection in waiting:
        connection.keep([encode_request(BY_NAME["Metadata"].key, 9, 1, "test", MetadataRequest())[4:]])
        connections.enqueue(connection)
    assert list(connections.awaiting_encoder) == waiting
    connections.set_encoder_full(True)
    assert list(connections.awaiting_encoder) == waiting
    connections.set_encoder_full(False)
    assert not connections.awaiting_encoder
    assert set(connections.undecided_connections()) == set(waiting)
