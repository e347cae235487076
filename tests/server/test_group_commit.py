"""With --fsync turns go on while the disk syncs: who waits for it, in which order, and what a power cut may take."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.runtime import group_commit
from coordinator.server import outbox
from coordinator.server.turn import Turn
from coordinator.server.waker import Waker
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.schema import Message
from storage.files import StorageError
from storage.log import Log, LogConfig
from tests.dataplane.failing_disk import codes, fail, fetching, producing
from tests.dataplane.transactional import transactional_batch
from tests.requests import fetch_offsets, produce
from tests.server.in_memory import InMemory, Peer
from tests.server.listening import IDLE_MS, Caller, Listening, listening, until
from tests.server.slow_disk import committing, end_sync, serving
from tests.storage.crashing_disk import HOLE, CrashingDisk

LOG = "data/__consumer_offsets-0/00000000000000000000.log"


def beating(group: str) -> tuple[Message, int]:
    return HeartbeatRequest(group, 1, "nobody", None), 4


def reading(group: str) -> tuple[Message, int]:
    return fetch_offsets(group, {"t": (0,)}), 8


def crashes_in_order(disk: CrashingDisk) -> list[tuple[str, CrashingDisk]]:
    """What a crash may leave on a file system that grows a file in order, and so leaves no hole in it."""
    return [(how, left) for how, left in disk.crashes() if HOLE not in how]


def kinds(peer: Peer) -> list[str]:
    return [type(answer).__name__.removesuffix("Response") for _, answer in peer.answers]


def offset_in(answer: Any) -> int:
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def test_a_commit_is_answered_when_its_sync_has_ended_and_others_are_decided_meanwhile() -> None:
    disk, server = serving()
    first, second = server.connect(), server.connect()
    assert first.ask(*committing("g", 2)) is None
    size = len(disk.contents()[LOG])
    assert disk.synced_size(LOG) < size
    assert second.ask(*committing("h", 3)) is None
    assert server.node.world.partitions[0].shard.offsets.get("h", "t", 0) is not None, "it is decided"
    assert len(disk.contents()[LOG]) == size, "it is appended when the disk is free"
    end_sync(disk, server)
    assert (kinds(first), kinds(second)) == (["OffsetCommit"], [])
    assert disk.synced_size(LOG) == size < len(disk.contents()[LOG])
    end_sync(disk, server)
    assert kinds(second) == ["OffsetCommit"]
    assert not disk.syncing, "nothing is left to be synced"
    assert disk.synced_size(LOG) == len(disk.contents()[LOG])


def test_a_heartbeat_does_not_wait_for_the_disk_unless_its_group_does() -> None:
    disk, server = serving()
    committer, other, same = server.connect(), server.connect(), server.connect()
    committer.send(committing("g", 2))
    other.send(beating("h"))
    server.turn()
    assert (kinds(committer), kinds(other)) == ([], ["Heartbeat"]), "in the turn in which another group was appended to"
    assert other.ask(*beating("h")) is not None, "nor while the disk is busy"
    assert same.ask(*beating("g")) is None
    end_sync(disk, server)
    assert (kinds(committer), kinds(same)) == (["OffsetCommit"], ["Heartbeat"])


def test_a_heartbeat_waits_for_the_sync_that_covers_its_group() -> None:
    disk, server = serving()
    first, second, member = server.connect(), server.connect(), server.connect()
    assert first.ask(*committing("g", 2)) is None
    assert second.ask(*committing("g", 3)) is None
    assert member.ask(*beating("g")) is None
    end_sync(disk, server)
    assert kinds(member) == []
    end_sync(disk, server)
    assert kinds(member) == ["Heartbeat"]


def test_the_responses_of_a_connection_keep_their_order() -> None:
    disk, server = serving()
    peer = server.connect()
    peer.send(beating("h"), committing("g", 2), beating("h"))
    server.turn()
    peer.send(beating("h"), committing("g", 3))
    server.turn()
    peer.send(beating("h"))
    server.turn()
    assert peer.answers == []
    end_sync(disk, server)
    assert kinds(peer) == ["Heartbeat", "OffsetCommit", "Heartbeat"]
    end_sync(disk, server)
    assert kinds(peer)[3:] == ["Heartbeat", "OffsetCommit", "Heartbeat"]
    assert [number for number, _ in peer.answers] == [1, 2, 3, 4, 5, 6]


def test_an_offset_is_told_once_it_is_on_the_disk() -> None:
    disk, server = serving()
    committer, reader = server.connect(), server.connect()
    committer.ask(*committing("g", 2))
    assert reader.ask(*reading("g")) is None
    end_sync(disk, server)
    assert offset_in(reader.answers[0][1]) == 2
    assert reader.ask(*reading("g")) is not None, "the disk has nothing to do"


@pytest.mark.parametrize("is_busy", [False, True])
@pytest.mark.parametrize("api", ["OffsetFetch", "Heartbeat"])
def test_what_a_change_of_all_groups_has_done_is_told_once_it_is_on_the_disk(api: str, is_busy: bool) -> None:
    """The expiry of offsets changes a whole partition, and names no group."""
    disk, server = serving()
    reader, other = server.connect(), server.connect()
    if is_busy:
        other.send(committing("h", 1))
        server.turn()
    server.advance(8 * 24 * 3_600)
    while server.node.world.partitions[0].shard.offsets.get("g", "t", 0) is not None:
        server.turn()
        server.advance(60)
    request = reading("g") if api == "OffsetFetch" else beating("g")
    assert reader.ask(*request) is None, "a power cut would bring the offset back"
    for _ in range(3):
        end_sync(disk, server)
        server.advance(0.01)
    left = [InMemory(left, is_synced=True, topics={"t": 3}) for _, left in crashes_in_order(disk)]
    assert all(one.node.world.partitions[0].shard.offsets.get("g", "t", 0) is None for one in left)
    if api == "OffsetFetch":
        assert offset_in(reader.answers[-1][1]) == -1


def test_a_record_is_told_once_it_is_on_the_disk_though_the_next_one_is_appended() -> None:
    disk, server = serving()
    first, second, reader = server.connect(), server.connect(), server.connect()
    reader.send(fetching(0, 1, wait_ms=10_000))
    server.turn()
    assert first.ask(*producing(0)) is None
    assert second.ask(*producing(0)) is None
    path = "data/t-0/00000000000000000000.log"
    assert len(disk.contents()[path]) == 3 * disk.synced_size(path), "both are in the file, and neither is safe"
    for _, left in crashes_in_order(disk):
        InMemory(left, is_synced=True, topics={"t": 3})
    end_sync(disk, server)
    assert (codes(first), codes(second)) == ([(0, 0)], [])
    assert disk.synced_size(path) == 2 * len(disk.contents()[path]) // 3
    end_sync(disk, server)
    assert codes(second) == [(0, 0)]
    assert kinds(reader) == ["Fetch"]


def test_a_failed_sync_ends_the_server_before_anybody_is_told() -> None:
    disk, server = serving()
    first, second = server.connect(), server.connect()
    fail(disk, "sync", "__consumer_offsets-0")
    assert first.ask(*committing("g", 2)) is None
    assert second.ask(*committing("g", 3)) is None
    disk.end_syncs()
    with pytest.raises(StorageError, match=r"sync .*__consumer_offsets-0.*EIO"):
        server.turn()
    assert first.answers + second.answers == []
    with pytest.raises(StorageError):
        server.node.world.partitions[0].log.append(b"")


def test_a_topic_whose_sync_fails_is_withdrawn_from_all_that_waits() -> None:
    disk, server = serving()
    first, second, reader, member = (server.connect() for _ in range(4))
    fail(disk, "sync", "t-0")
    first.ask(*producing(0, 1))
    second.ask(*producing(0, 2))
    reader.ask(*fetching(0, 1))
    member.ask(*committing("g", 2))
    end_sync(disk, server)
    assert codes(first) == [(0, ErrorCode.KAFKA_STORAGE_ERROR), (1, 0)]
    assert codes(second) + member.answers == []
    end_sync(disk, server)
    assert codes(second) == [(0, ErrorCode.KAFKA_STORAGE_ERROR), (2, 0)]
    (read,) = reader.answers[0][1].responses[0].partitions
    assert (read.error_code, read.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert kinds(member) == ["OffsetCommit"]
    held = [peer.connection.outgoing_bytes + peer.connection.held_bytes for peer in (first, second, reader, member)]
    assert held == [0, 0, 0, 0]


STEPS = ("produce 0", "produce 1", "produce both", "fetch 1", "beat", "commit", "turn", "end a sync")


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(STEPS)), min_size=4, max_size=16))
@settings(max_examples=60)
def test_only_what_rests_on_lost_records_is_withdrawn_wherever_it_waits(steps: list[tuple[int, str]]) -> None:
    """Among other responses of its connection, in this turn or behind earlier ones, for one sync or another."""
    disk, server = serving()
    fail(disk, "sync", "t-0")
    peers, sent = [server.connect() for _ in range(3)], [list[str]() for _ in range(3)]
    for at, step in steps:
        match step.split():
            case ["produce", "both"]:
                peers[at].send(producing(0, 1))
            case ["produce", partition]:
                peers[at].send(producing(int(partition)))
            case ["fetch", _]:
                peers[at].send(fetching(1, 0))
            case ["beat"]:
                peers[at].send(beating("h"))
            case ["commit"]:
                peers[at].send(committing("g", 2))
            case ["turn"]:
                server.turn()
            case _:
                server.turn()
                end_sync(disk, server)
        if step not in ("turn", "end a sync"):
            sent[at].append(step)
    for _ in range(4):
        server.advance(0.1)
        end_sync(disk, server)
    lost = ErrorCode.KAFKA_STORAGE_ERROR
    expected = {"produce 0": [(0, lost)], "produce 1": [(1, 0)], "produce both": [(0, lost), (1, 0)]}
    for peer, steps_of in zip(peers, sent, strict=True):
        assert [number for number, _ in peer.answers] == [*range(1, len(steps_of) + 1)]
        names = {"p": "Produce", "f": "Fetch", "b": "Heartbeat", "c": "OffsetCommit"}
        assert kinds(peer) == [names[step[0]] for step in steps_of]
        assert codes(peer) == [one for step in steps_of for one in expected.get(step, ())]
        assert (peer.connection.outgoing_bytes, peer.connection.held_bytes, peer.connection.closing) == (0, 0, False)
    assert server.frontend.outbox.held_bytes == 0


def test_replies_that_no_turn_has_encoded_yet_are_withdrawn_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """One a turn: a record answers more fetches than the turns before the failure have time for."""
    disk, server = serving()
    readers = [server.connect() for _ in range(5)]
    for reader in readers:
        reader.ask(*fetching(0, 1, wait_ms=60_000))
    fail(disk, "sync", "t-0")
    with monkeypatch.context() as patched:
        patched.setattr(Turn, "check_time", lambda turn: False)
        server.connect().ask(*producing(0))
        assert len(server.frontend.outbox.replies) > 2
        end_sync(disk, server)
    while server.frontend.outbox.replies:
        server.turn()
    server.rest()
    for reader in readers:
        ((_, answer),) = reader.answers
        (read,) = answer.responses[0].partitions
        assert (read.error_code, read.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")


def test_what_a_closed_partition_has_not_synced_is_withdrawn() -> None:
    """An append fails while the records before it are being synced: nobody knows what is on the disk of them."""
    disk, server = serving()
    first, second = server.connect(), server.connect()
    first.ask(*producing(0))
    fail(disk, "append to", "t-0")
    second.ask(*producing(0))
    end_sync(disk, server)
    assert codes(first) == [(0, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert codes(second) == [(0, ErrorCode.KAFKA_STORAGE_ERROR)]


def serving_in_a_transaction() -> tuple[CrashingDisk, InMemory, Peer, InitProducerIdResponse]:
    """A server whose disk is slow from now on, and a producer that has written records in a transaction."""
    disk, server = serving()
    disk.is_slow = False
    peer = server.connect()
    producer: InitProducerIdResponse = peer.ask(InitProducerIdRequest("x", 60_000), 4)
    records = transactional_batch((producer.producer_id, producer.producer_epoch), "b")
    peer.ask(produce("t", {0: records}, "x"), 12)
    disk.is_slow = True
    return disk, server, peer, producer


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_is_complete_once_its_markers_are_on_the_disk(committed: bool) -> None:
    disk, server, peer, producer = serving_in_a_transaction()
    other = server.connect()
    other.ask(*committing("g", 2))  # so that the disk is busy
    ending = (EndTxnRequest("x", producer.producer_id, producer.producer_epoch, committed), 5)
    assert peer.ask(*ending) is None

    for is_prepared in (True, True, False):  # its decision is on the disk, then its markers are
        for how, left in crashes_in_order(disk):
            after = InMemory(left, is_synced=True, topics={"t": 3})
            (read,) = after.connect().ask(*fetching(0, 1, level=1)).responses[0].partitions
            assert bool(read.aborted_transactions) is not committed, how
            assert not after.node.world.ledger.transactions.find_prepared_transactions(), how
        assert server.node.world.ledger.transactions.by_id["x"].state.is_prepared == is_prepared
        assert (kinds(peer)[-1] == "EndTxn") != is_prepared
        end_sync(disk, server)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("failing_from", range(4))
@pytest.mark.parametrize("operation", ["sync", "append to"])
def test_a_transaction_of_which_a_marker_may_be_lost_is_not_complete(
    committed: bool, failing_from: int, operation: str
) -> None:
    """Whenever a topic begins to fail, by its sync or by an append right behind the marker: what a start finds of a complete
    transaction is its end."""
    disk, server, peer, producer = serving_in_a_transaction()
    other = server.connect()
    other.ask(*committing("g", 2))  # so that the disk is busy
    peer.ask(EndTxnRequest("x", producer.producer_id, producer.producer_epoch, committed), 5)
    for number in range(4):
        if number == failing_from:
            fail(disk, operation, "t-0")
            other.send(producing(0))
        end_sync(disk, server)
        is_complete = not server.node.world.ledger.transactions.by_id["x"].state.is_prepared
        for how, left in crashes_in_order(disk) if is_complete else ():
            log = Log.open(left, "data/t-0", LogConfig())  # as it is before a start could write the marker again
            assert log.last_stable_offset >= 3 and bool(log.producers.aborted) is not committed, how
    assert is_complete == (failing_from > (1 if operation == "append to" else 0)), (
        "that sync begins with the first turn"
    )


def test_a_client_that_leaves_is_owed_nothing() -> None:
    disk, server = serving()
    gone, other = server.connect(), server.connect()
    gone.ask(*committing("g", 2))
    other.ask(*committing("h", 3))
    server.frontend.disconnect(gone.connection)
    assert gone.connection.held_bytes == 0
    end_sync(disk, server)
    end_sync(disk, server)
    assert (kinds(gone), kinds(other)) == ([], ["OffsetCommit"])


def test_the_server_waits_for_the_disk_when_too_much_does(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, server = serving()
    first, second = server.connect(), server.connect()
    monkeypatch.setattr(outbox, "HELD_BYTES_MAX", 10)
    assert first.ask(*committing("g", 2)) is None
    second.send(committing("h", 3))
    assert disk.synced_size(LOG) == len(disk.contents()[LOG]), "the turn has waited before it decided"
    server.turn()
    assert (kinds(first), kinds(second)) == (["OffsetCommit"], [])


def test_the_server_waits_for_the_disk_when_too_much_is_to_be_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    _, server = serving()
    first, second, third = server.connect(), server.connect(), server.connect()
    monkeypatch.setattr(group_commit, "GATHERED_RECORDS_MAX", 0)
    assert first.ask(*committing("g", 2)) is None
    assert second.ask(*committing("h", 3)) is None
    assert server.node.world.partitions[0].gathered_records == 1
    third.send(committing("i", 4))
    assert server.node.world.partitions[0].gathered_records <= 1, "the turn has waited before it decided"
    server.turn()
    assert (kinds(first), kinds(second), kinds(third)) == (["OffsetCommit"], ["OffsetCommit"], [])


def test_what_waits_for_the_disk_counts_to_what_a_client_may_be_owed(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, server = serving()
    monkeypatch.setattr("coordinator.server.connection.RESPONSE_BYTES_MAX", 1)
    peer = server.connect()
    assert peer.ask(*committing("g", 2)) is None
    assert peer.ask(*beating("h")) is None
    assert peer.connection.backlog, "it is decided when there is room"
    end_sync(disk, server)
    server.frontend.resume(peer.connection)
    server.turn()
    assert kinds(peer) == ["OffsetCommit", "Heartbeat"]


def test_a_latency_ends_with_the_sync() -> None:
    disk, server = serving()
    before = server.stats.latency[8].sum
    server.connect().ask(*committing("g", 2))
    server.connect().ask(*beating("h"))
    assert 12 in server.stats.latency, "a heartbeat is answered at once"
    server.seconds += 3.0
    assert server.stats.latency[8].sum == before
    end_sync(disk, server)
    assert server.stats.latency[8].sum == before + 3.0
    assert server.node.engine.group_commit.latency.longest == 3.0


def test_a_server_that_stops_has_everything_on_the_disk() -> None:
    disk, server = serving()
    server.connect().ask(*committing("g", 2))
    server.connect().ask(*committing("h", 3))
    server.node.close()
    after = InMemory(disk.crash(Random(1)), topics={"t": 3})
    assert [offset_in(after.connect().ask(*reading(group))) for group in "gh"] == [2, 3]


def test_an_abandoned_server_waits_for_its_syncs() -> None:
    """Else the kernel would sync files that are closed already, or others that have got their descriptors."""
    disk, server = serving()
    server.connect().ask(*committing("g", 2))
    server.node.abandon()
    assert not disk.syncing


def test_a_sync_waits_for_the_clients_that_were_answered_last() -> None:
    disk, server = serving()
    first, second = server.connect(), server.connect()
    first.ask(*committing("g", 2))
    second.ask(*committing("h", 2))
    server.seconds += 0.008
    end_sync(disk, server)
    assert (kinds(first), kinds(second)) == (["OffsetCommit"], [])
    assert not disk.syncing, "the first is expected back"
    assert server.frontend.next_release_s() == pytest.approx(0.010)
    first.ask(*committing("g", 3))
    assert disk.syncing, "it has come back"
    server.seconds += 0.008
    end_sync(disk, server)
    assert kinds(first) == ["OffsetCommit", "OffsetCommit"]
    assert kinds(second) == ["OffsetCommit"]


def test_a_sync_waits_for_two_milliseconds_at_most() -> None:
    disk, server = serving()
    peers = [server.connect() for _ in range(4)]
    for peer in peers[:3]:
        peer.send(committing("g", 2))
    server.turn()
    peers[3].ask(*committing("h", 2))
    server.seconds += 0.008
    end_sync(disk, server)
    assert not disk.syncing
    server.advance(0.002)
    assert disk.syncing, "nobody has come back"
    server.seconds += 0.008
    end_sync(disk, server)
    peers[0].ask(*committing("g", 3))
    assert disk.syncing, "so the next ones do not wait"


@asynccontextmanager
async def listening_while_it_syncs(rest: bytes = b"") -> AsyncIterator[tuple[CrashingDisk, Listening, Caller]]:
    """A server that listens, while the disk syncs the commit of a client that has sent these bytes behind it."""
    disk = CrashingDisk()
    async with listening(files=disk, is_synced=True, waker=Waker(), topics={"t": 3}) as here:
        here.server.connect().ask(*committing("g", 1))
        disk.is_slow = True
        client = await here.connect()
        await client.stream.send_all(client.chunk(committing("g", 2)) + rest)
        await until(lambda: disk.syncing)
        yield disk, here, client


async def test_a_poller_goes_on_when_the_disk_says_so() -> None:
    async with listening_while_it_syncs() as (disk, here, client):
        assert here.poller.connections == 1
        disk.end_syncs()  # which wakes the poller
        await client.read(1)


async def test_a_client_whose_response_waits_for_the_disk_is_not_idle() -> None:
    async with listening_while_it_syncs() as (disk, here, client):
        here.sweep(2 * IDLE_MS / 1000)
        assert here.poller.connections == 1
        disk.end_syncs()
        await client.read(1)


async def test_a_connection_that_is_to_be_closed_gets_what_it_is_owed() -> None:
    async with listening_while_it_syncs(b"\xff\xff\xff\xff") as (disk, here, client):  # a size that no frame has
        await trio.sleep(0.01)
        assert here.poller.connections == 1
        disk.end_syncs()
        await client.read(1)
        assert await client.is_closed()


def test_a_failing_disk_is_named_once() -> None:
    disk, server = serving()
    fail(disk, "sync", "__muster_catalog-0")
    peer = server.connect()
    assert peer.ask(InitProducerIdRequest("y", 60_000), 4) is None
    disk.end_syncs()
    with pytest.raises(StorageError) as failed:
        server.turn()
    assert failed.value.errno == errno.EIO
