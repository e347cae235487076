"""A commit of a member of a classic group counts as its heartbeat, in whatever form it comes."""

import pytest

from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.sync_group import SyncGroupRequest
from tests.requests import create_topics, join
from tests.server.in_memory import InMemory

SESSION_S = 10


def topic(name: str, *partitions: int, metadata: str | None = "") -> OffsetCommitRequestTopic:
    parts = [OffsetCommitRequestPartition(one, 5, committed_metadata=metadata) for one in partitions]
    return OffsetCommitRequestTopic(name, partitions=tuple(parts))


@pytest.mark.parametrize(
    "topics",
    [
        (topic("t", 0),),
        (topic("t", 0, 1, 2),),
        (topic("t", 0), topic("u", 1)),
        (topic("t", 0, metadata="more"),),
        (topic("t", 0, 9),),  # of which one does not exist
    ],
)
@pytest.mark.parametrize("commits", [True, False])
def test_a_member_stays_as_long_as_it_commits(topics: tuple[OffsetCommitRequestTopic, ...], commits: bool) -> None:
    server = InMemory()
    peer = server.connect()
    peer.ask(create_topics({"t": 3, "u": 3}), 4)
    member = peer.ask(join("g", session_ms=1_000 * SESSION_S), 3).member_id
    assert peer.ask(SyncGroupRequest("g", 1, member), 2).error_code == 0
    for _ in range(3):
        server.advance(SESSION_S - 1)
        if commits:
            answer = peer.ask(OffsetCommitRequest("g", 1, member, topics=topics), 8)
            assert answer.topics[0].partitions[0].error_code == 0
    assert (member in server.node.world.partitions.owner("g").shard.groups["g"].members) == commits
