"""A journal with members of share groups: locks, sessions and waits end in the replay when they ended before."""

from typing import Any

from msgspec import UNSET

from coordinator.control.journal_file import read_journal, write_journal
from coordinator.runtime.replay import Replay
from coordinator.runtime.snapshot import read_logs
from coordinator.server.verbs.clock import keep_everybody
from protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareAcknowledgeRequestPartition,
    ShareAcknowledgeRequestTopic,
)
from protocol.messages.share_fetch import ShareFetchRequest, ShareFetchRequestPartition, ShareFetchRequestTopic
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from storage.memory_files import MemoryFiles
from tests.control.steered import SteeredNode
from tests.dataplane.broker import batch
from tests.requests import produce
from tests.server.in_memory import Peer

ACCEPT, RELEASE = 1, 2
LOCK_MS = 30_000


class Member:
    """A member of the share group, on a connection of its own."""

    def __init__(self, server: SteeredNode, name: str) -> None:
        self.server, self.name = server, name
        self.peer: Peer = server.connect(name)
        self.topic_id = server.node.world.ledger.catalog.topics_by_name["jobs"].id
        self.epoch = 0

    def join(self) -> None:
        request = ShareGroupHeartbeatRequest("queue", self.name, 0, subscribed_topic_names=("jobs",))
        assert self.peer.ask(request, 1).error_code == 0
        self.server.operator.clock.advance(2_000, keep_everybody)
        self.peer.ask(ShareGroupHeartbeatRequest("queue", self.name, 1), 1)

    def fetch(self, max_wait_ms: int = 0) -> Any:
        """Return what was acquired, None while it waits."""
        topics = (ShareFetchRequestTopic(self.topic_id, (ShareFetchRequestPartition(0),)),)
        request = ShareFetchRequest(
            "queue", self.name, self.epoch, max_wait_ms, 1, max_records=100, batch_size=100, topics=topics
        )
        self.epoch += 1
        answer = self.peer.ask(request, 2)
        return answer if answer is None else acquired(answer)

    def settle(self, first: int, last: int, kind: int) -> None:
        batches = (ShareAcknowledgeRequestAcknowledgementBatch(first, last, (kind,)),)
        topics = (ShareAcknowledgeRequestTopic(self.topic_id, (ShareAcknowledgeRequestPartition(0, batches),)),)
        request = ShareAcknowledgeRequest("queue", self.name, self.epoch, topics=topics)
        self.epoch += 1
        answer = self.peer.ask(request, 2)
        if answer is None:  # the last step is in another turn
            self.server.turn()


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    assert answer.error_code == 0, answer
    return [
        (run.first_offset, run.last_offset, run.delivery_count)
        for topic in answer.responses
        for one in topic.partitions
        for run in one.acquired_records
    ]


def test_locks_sessions_and_waits_of_share_groups_are_replayed() -> None:
    server = SteeredNode(journal_bytes=16_777_216, offsets_topic_num_partitions=2, topics={"jobs": 1})
    a, b = Member(server, "a"), Member(server, "b")
    a.join()
    assert a.fetch() == [], "the latest offset is decided"
    writer = server.connect("writer")
    writer.ask(produce("jobs", {0: batch("1", "2", "3", "4", at_ms=server.clock.now_ms())}), 9)
    assert a.fetch() == [(0, 3, 1)]
    a.settle(0, 0, ACCEPT)
    assert b.fetch() == []
    assert b.fetch(60_000) is None
    a.settle(1, 1, RELEASE)
    server.turn()
    assert acquired(b.peer.answers[-1][1]) == [(1, 1, 2)], "a release ends the wait"
    assert b.fetch(60_000) is None
    moved = server.operator.clock.advance(LOCK_MS, keep_everybody)
    assert [(one.kind, one.member) for one in moved.fired if one.kind == "lock"] == [("lock", "jobs-0")]
    server.turn()
    assert acquired(b.peer.answers[-1][1]) == [(1, 1, 3), (2, 3, 2)], "so does the end of a lock"
    assert a.fetch(60_000) is None
    server.frontend.disconnect(b.peer.connection)
    server.turn()
    assert acquired(a.peer.answers[-1][1]) == [(1, 1, 4), (2, 2, 3)], "and a session that ends with its connection"
    server.operator.groups.forget("queue")
    assert server.operator.state.contents().queues is UNSET
    Member(server, "c").join()

    journal = b"\n".join(write_journal(server.operator.requests.journal).splitlines()) + b"\n"
    files = MemoryFiles()
    again = Replay(read_journal(journal), files, "again")
    assert not again.run()
    assert again.compared > 10
    assert read_logs(files, "again") == server.take_snapshot()
    assert again.node.world.dataplane.share.served == server.node.world.dataplane.share.served
