"""`offsets.max.bytes`: beyond it a commit that adds offsets is refused, and one of offsets that are there is not."""

from coordinator.core.offsets.store import OFFSET_BYTES
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.requests import commit, commit_in_transaction
from tests.server.in_memory import InMemory

TOO_MUCH = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
BOUND = 65_536


def with_metadata(group: str, metadata: str) -> OffsetCommitRequest:
    one = OffsetCommitRequestPartition(0, 5, committed_metadata=metadata)
    return OffsetCommitRequest(group, -1, topics=(OffsetCommitRequestTopic("t", partitions=(one,)),))


def test_beyond_the_bound_offsets_move_but_none_is_added() -> None:
    server = InMemory(offsets_max_bytes=BOUND, topics={"t": 400})
    peer = server.connect()

    def codes(request: object, version: int = 8) -> set[int]:
        answer = peer.ask(request, version)
        return {one.error_code for topic in answer.topics for one in topic.partitions}

    most = BOUND // OFFSET_BYTES
    assert codes(commit("g", {"t": dict.fromkeys(range(most - 1), 1)})) == {ErrorCode.NONE}
    assert codes(with_metadata("m", "x" * 1_000)) == {ErrorCode.NONE}
    assert server.node.engine.memory.offsets_bytes == most * OFFSET_BYTES + 1_000
    assert codes(commit("new", {"t": {0: 1}})) == {TOO_MUCH}
    assert codes(commit("g", {"t": {0: 2, most: 1}})) == {TOO_MUCH}
    assert codes(with_metadata("g", "more")) == {TOO_MUCH}
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(commit("g", {"t": {0: 2}, "gone": {0: 1}})) == {ErrorCode.NONE, gone}, "as with room: nothing is added"
    producer = peer.ask(InitProducerIdRequest("id", 60_000), 3)
    peer.ask(AddOffsetsToTxnRequest("id", producer.producer_id, producer.producer_epoch, "g"), 3)
    pending = commit_in_transaction("id", "g", (producer.producer_id, producer.producer_epoch), {"t": {0: 1}})
    assert codes(pending, 3) == {TOO_MUCH}
    assert codes(commit("g", {"t": dict.fromkeys(range(most - 1), 2)})) == {ErrorCode.NONE}
    again = InMemory(server.files, offsets_max_bytes=BOUND, topics={"t": 400})
    assert again.node.engine.memory.offsets_bytes == server.node.engine.memory.offsets_bytes
    peer.ask(DeleteGroupsRequest(("m",)), 2)
    assert server.node.engine.memory.offsets_bytes == (most - 1) * OFFSET_BYTES
    assert codes(commit("new", {"t": {0: 1}})) == {ErrorCode.NONE}
    assert not server.node.world.edge.failures
