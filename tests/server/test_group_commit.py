"""With --fsync turns go on while the disk syncs: who waits for it, in which order, and what a power cut may take."""

import errno
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from coordinator.server import frontend as frontends
from coordinator.server.waker import Waker
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from protocol.schema import Message
from storage.files import StorageError
from tests.dataplane.test_failed_sync import codes, fail, fetching, producing
from tests.dataplane.test_transactions import of
from tests.requests import commit
from tests.server.in_memory import InMemory, Peer
from tests.server.listening import listening
from tests.storage.crashing_disk import CrashingDisk

LOG = "data/__consumer_offsets-0/00000000000000000000.log"


def serving(**settings: Any) -> tuple[CrashingDisk, InMemory]:
    """A server with --fsync that has a log of everything, on a disk whose syncs from now on end when they are told."""
    disk = CrashingDisk()
    server = InMemory(disk, is_synced=True, topics={"t": 3}, offsets_topic_num_partitions=1, **settings)
    peer = server.connect()
    peer.ask(*committing("g", 1))
    peer.ask(*producing(0, 1, 2))
    disk.is_slow = True
    return disk, server


def committing(group: str, offset: int) -> tuple[Message, int]:
    return commit(group, {"t": {0: offset}}), 8


def beating(group: str) -> tuple[Message, int]:
    return HeartbeatRequest(group, 1, "nobody", None), 4


def reading(group: str) -> tuple[Message, int]:
    groups = (OffsetFetchRequestGroup(group, None, -1, (OffsetFetchRequestTopics("t", partition_indexes=(0,)),)),)
    return OffsetFetchRequest(groups=groups), 8


def end_sync(disk: CrashingDisk, server: InMemory) -> None:
    disk.end_syncs()
    server.turn()


def kinds(peer: Peer) -> list[str]:
    return [type(answer).__name__.removesuffix("Response") for _, answer in peer.answers]


def offset_in(answer: Any) -> int:
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


def test_a_commit_is_answered_when_its_sync_has_ended_and_others_are_decided_meanwhile() -> None:
    disk, server = serving()
    first, second = server.connect(), server.connect()
    assert first.ask(*committing("g", 2)) is None
    size = len(disk.contents()[LOG])
    assert disk.synced_size(LOG) < size
    assert second.ask(*committing("h", 3)) is None
    assert server.node.partitions[0].shard.offsets.get("h", "t", 0) is not None, "it is decided"
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


def test_a_record_is_told_once_it_is_on_the_disk_though_the_next_one_is_appended() -> None:
    disk, server = serving()
    first, second, reader = server.connect(), server.connect(), server.connect()
    reader.send(fetching(0, 1, wait_ms=10_000))
    server.turn()
    assert first.ask(*producing(0)) is None
    assert second.ask(*producing(0)) is None
    path = "data/t-0/00000000000000000000.log"
    assert len(disk.contents()[path]) == 3 * disk.synced_size(path), "both are in the file, and neither is safe"
    for how, left in disk.crashes():
        if "hole" not in how:  # which no file system leaves that grows a file in order
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
        server.node.partitions[0].log.append(b"")


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
    held = [peer.connection.owed_bytes + peer.connection.held_bytes for peer in (first, second, reader, member)]
    assert held == [0, 0, 0, 0]


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


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_is_complete_once_its_markers_are_on_the_disk(committed: bool) -> None:
    disk, server = serving()
    disk.is_slow = False
    peer, other = server.connect(), server.connect()
    producer = peer.ask(InitProducerIdRequest("x", 60_000), 4)
    records = of((producer.producer_id, producer.producer_epoch), "b")
    data = ProduceRequestTopicData("t", partition_data=(ProduceRequestPartitionData(0, records),))
    peer.ask(ProduceRequest("x", -1, 0, (data,)), 12)
    disk.is_slow = True
    other.ask(*committing("g", 2))  # so that the disk is busy
    ending = (EndTxnRequest("x", producer.producer_id, producer.producer_epoch, committed), 5)
    assert peer.ask(*ending) is None

    def check(is_decided: bool) -> None:
        for how, left in disk.crashes():
            if "hole" in how:
                continue
            after = InMemory(left, is_synced=True, topics={"t": 3})
            (read,) = after.connect().ask(*fetching(0, 1, level=1)).responses[0].partitions
            if is_decided:
                assert bool(read.aborted_transactions) is not committed, how
            assert not after.node.ledger.transactions.find_prepared(), how

    check(is_decided=True)
    assert server.node.ledger.transactions.by_id["x"].state.is_prepared
    end_sync(disk, server)
    assert server.node.ledger.transactions.by_id["x"].state.is_prepared, "its markers are not on the disk"
    check(is_decided=True)
    end_sync(disk, server)
    assert not server.node.ledger.transactions.by_id["x"].state.is_prepared
    assert kinds(peer)[-1] == "EndTxn"
    check(is_decided=True)


def random_load(seed: int) -> Iterator[tuple[CrashingDisk, dict[tuple[str, int], int]]]:
    """Commits and records at random, on a disk that is slow at random; after each step, what was acknowledged."""
    dice = Random(seed)
    disk, server = serving(offsets_topic_segment_bytes=4_096, log_segment_bytes=1_024)
    peers = [server.connect() for _ in range(4)]
    sent: dict[tuple[Peer, int], tuple[tuple[str, int], int]] = {}
    known: dict[tuple[str, int], int] = {}
    appended = dict.fromkeys(range(3), 1)
    for offset in range(2, 60):
        peer, group, partition = dice.choice(peers), dice.choice("gh"), dice.randrange(3)
        if dice.random() < 0.6:
            sent[peer, len(peer._sent) + 1] = ("offset", ord(group)), offset
            peer.send(committing(group, offset))
        else:
            appended[partition] += 1
            sent[peer, len(peer._sent) + 1] = ("end", partition), appended[partition]
            peer.send(producing(partition))
        if dice.random() < 0.5:
            server.turn()
        if dice.random() < 0.3:
            end_sync(disk, server)
        for one in peers:
            for number, _ in one.answers:
                if (found := sent.pop((one, number), None)) is not None:
                    known[found[0]] = max(known.get(found[0], 0), found[1])
        yield disk, known


@pytest.mark.parametrize("seed", range(8))
def test_what_was_acknowledged_survives_a_power_cut(seed: int) -> None:
    dice = Random(seed)
    acknowledged = cuts = 0
    for disk, known in random_load(seed):
        if dice.random() < 0.4:
            continue
        cuts += bool(disk.syncing)
        after = InMemory(disk.crash(dice), is_synced=True, topics={"t": 3})
        for (kind, which), least in known.items():
            if kind == "offset":
                assert offset_in(after.connect().ask(*reading(chr(which)))) >= least
            else:
                assert (after.node.dataplane.end_offset("t", which) or 0) >= 0
                (read,) = after.connect().ask(*fetching(which, 0)).responses[0].partitions
                assert read.high_watermark >= least
            acknowledged += 1
    assert acknowledged > 50
    assert cuts > 10, "power is cut while a sync is under way"


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
    monkeypatch.setattr(frontends, "HELD_BYTES_MAX", 10)
    assert first.ask(*committing("g", 2)) is None
    second.send(committing("h", 3))
    assert disk.synced_size(LOG) == len(disk.contents()[LOG]), "the turn has waited before it decided"
    server.turn()
    assert (kinds(first), kinds(second)) == (["OffsetCommit"], [])


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
    assert server.node.group_commit.latency.longest == 3.0


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


async def test_a_poller_goes_on_when_the_disk_says_so() -> None:
    waker = Waker()
    disk = CrashingDisk()
    async with listening(files=disk, is_synced=True, waker=waker, topics={"t": 3}) as here:
        stream = await here.connect()
        peer = here.server.connect()
        peer.ask(*committing("g", 1))
        disk.is_slow = True
        await stream.send_all(peer.frame(*committing("g", 2), 99))
        while not disk.syncing:
            await here.give_way()
        assert here.poller.connections == 1
        disk.end_syncs()  # which wakes the poller
        assert (await stream.receive_some())[4:8] == (99).to_bytes(4, "big")


async def test_a_connection_that_is_to_be_closed_gets_what_it_is_owed() -> None:
    waker = Waker()
    disk = CrashingDisk()
    async with listening(files=disk, is_synced=True, waker=waker, topics={"t": 3}) as here:
        stream = await here.connect()
        peer = here.server.connect()
        peer.ask(*committing("g", 1))
        disk.is_slow = True
        await stream.send_all(peer.frame(*committing("g", 2), 99) + b"\xff\xff\xff\xff")  # a size that no frame has
        while not disk.syncing:
            await here.give_way()
        await here.give_way()
        assert here.poller.connections == 1
        disk.end_syncs()
        assert (await stream.receive_some())[4:8] == (99).to_bytes(4, "big")
        assert await stream.receive_some() == b""


def test_a_failing_disk_is_named_once() -> None:
    disk, server = serving()
    fail(disk, "sync", "__muster_catalog-0")
    peer = server.connect()
    assert peer.ask(InitProducerIdRequest("y", 60_000), 4) is None
    disk.end_syncs()
    with pytest.raises(StorageError) as failed:
        server.turn()
    assert failed.value.errno == errno.EIO
