"""What operators see of offsets: how many were committed, ran out and were deleted."""

from coordinator.admin.views import snapshot
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.server.in_memory import InMemory


def counted(server: InMemory) -> tuple[int, int, int]:
    """Offsets committed, expired, deleted."""
    now = snapshot(server.node, {}, 0.0, 0)
    return now.offset_commits, now.offset_expirations, now.offset_deletions


def commit(group: str, *partitions: int) -> OffsetCommitRequest:
    each = tuple(OffsetCommitRequestPartition(index, 5) for index in partitions)
    return OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic("orders", partitions=each),))


def test_offsets_are_counted_a_partition() -> None:
    """Those that are refused are not."""
    server = InMemory()
    peer = server.connect()
    peer.ask(commit("g", 0, 1, 2, 99), 8)
    peer.ask(commit("another", 0), 8)
    assert counted(server) == (4, 0, 0)
    producer = peer.ask(InitProducerIdRequest("x", 60_000), 4)
    topics = (TxnOffsetCommitRequestTopic("orders", (TxnOffsetCommitRequestPartition(3, 1),)),)
    peer.ask(TxnOffsetCommitRequest("t", "g", producer.producer_id, 0, topics=topics), 5)
    assert counted(server) == (4, 0, 0), "no such transactional id"
    peer.ask(TxnOffsetCommitRequest("x", "g", producer.producer_id, 0, topics=topics), 5)
    assert counted(server) == (5, 0, 0)


def test_offsets_deleted_by_request_are_counted() -> None:
    server = InMemory()
    peer = server.connect()
    peer.ask(commit("g", 0, 1, 2), 8)
    parts = (OffsetDeleteRequestPartition(1), OffsetDeleteRequestPartition(3))
    peer.ask(OffsetDeleteRequest("g", (OffsetDeleteRequestTopic("orders", parts),)), 0)
    assert counted(server) == (3, 0, 1), "of the other one there was nothing to delete"
    peer.ask(DeleteGroupsRequest(("g",)), 2)
    assert counted(server) == (3, 0, 3), "the group's own record is not an offset"


def test_offsets_that_run_out_are_counted() -> None:
    server = InMemory(offsets_retention_minutes=1)
    server.connect().ask(commit("g", 0, 1), 8)
    server.advance(1_800)
    assert counted(server) == (2, 2, 0)
    assert not server.node.partitions.owner("g").shard.groups
