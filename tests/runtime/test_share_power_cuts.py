"""What a share group gets again after the power is cut: with `--fsync` nothing that was accepted, and all that was not."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from coordinator.core.share_state.values import StateKey
from protocol.errors import ErrorCode
from protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareAcknowledgeRequestPartition,
    ShareAcknowledgeRequestTopic,
)
from protocol.messages.share_fetch import ShareFetchRequest, ShareFetchRequestPartition, ShareFetchRequestTopic
from protocol.record_batch import encode
from protocol.records import Record
from tests.requests import produce
from tests.server.in_memory import WALL_MS, InMemory, Peer
from tests.storage.crashing_disk import CrashingDisk

ACCEPT, RELEASE, REJECT = 1, 2, 3
STORY = [
    ((0, 1, ACCEPT), {2: 1, 3: 1, 4: 1, 5: 1}),
    ((3, 3, REJECT), {2: 1, 4: 1, 5: 1}),
    ((2, 2, RELEASE), {2: 2, 4: 1, 5: 1}),
    ((5, 5, ACCEPT), {2: 2, 4: 1}),
]
"""What the member says of records that it has, and what is delivered after a crash: the offset and the delivery."""


class Life(Struct, frozen=True):
    """A disk at a moment, and what a member gets of it after a crash there."""

    disk: CrashingDisk
    expected: dict[int, int]


def ask(peer: Peer, server: InMemory, request: Any) -> Any:
    answer, before = peer.ask(request, 2), len(peer.answers)
    while answer is None:
        server.turn()
        answer = peer.answers[-1] if len(peer.answers) > before else None
    assert answer.error_code == ErrorCode.NONE, answer
    return answer


def take(server: InMemory, topic_id: bytes, member: str) -> tuple[Peer, dict[int, int]]:
    """Let a member open a session and acquire all that there is: the offsets, and which delivery it is."""
    peer, topic = server.connect(), ShareFetchRequestTopic(topic_id, (ShareFetchRequestPartition(0),))
    answer = ask(peer, server, ShareFetchRequest("g", member, 0, 0, 1, 1 << 20, 100, 100, topics=(topic,)))
    runs = [run for one in answer.responses for part in one.partitions for run in part.acquired_records]
    return peer, {at: run.delivery_count for run in runs for at in range(run.first_offset, run.last_offset + 1)}


def live(*, is_synced: bool) -> Iterator[Life]:
    """Yield the disk after each acknowledgement that was answered."""
    disk = CrashingDisk()
    server = InMemory(disk, is_synced=is_synced, topics={"t": 1})
    topic_id = server.node.world.ledger.catalog.topics["t"].id
    assert server.node.engine.share_states.initialize(StateKey("g", topic_id, 0), 0, 0, WALL_MS) == ErrorCode.NONE
    server.node.engine.flush()
    values = encode([Record(None, b"%d" % number, timestamp=WALL_MS) for number in range(6)])
    assert server.connect().ask(produce("t", {0: values}), 9).responses[0].partition_responses[0].error_code == 0
    peer, acquired = take(server, topic_id, "a")
    assert acquired == dict.fromkeys(range(6), 1)
    for epoch, ((first, last, how), expected) in enumerate(STORY, 1):
        batch = ShareAcknowledgeRequestAcknowledgementBatch(first, last, (how,))
        topic = ShareAcknowledgeRequestTopic(topic_id, (ShareAcknowledgeRequestPartition(0, (batch,)),))
        ask(peer, server, ShareAcknowledgeRequest("g", "a", epoch, topics=(topic,)))
        yield Life(disk, expected)


def delivered_after(left: CrashingDisk) -> dict[int, int]:
    after = InMemory(left, topics={"t": 1})
    return take(after, after.node.world.ledger.catalog.topics["t"].id, "b")[1]


def test_with_fsync_nothing_that_was_accepted_comes_back_and_nothing_else_is_lost() -> None:
    for life in live(is_synced=True):
        for name, left in life.disk.crashes():
            assert delivered_after(left) == life.expected, name


def test_without_fsync_a_killed_process_forgets_nothing() -> None:
    for life in live(is_synced=False):
        assert delivered_after(life.disk.copy()) == life.expected
