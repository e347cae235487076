"""DescribeShareGroupOffsets: where a share group is, and how far behind, whatever its state says."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.acls.names import Operation, Resource
from coordinator.core.share_state.values import StateKey, StateUpdate
from protocol.errors import ErrorCode
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.dataplane.broker import batch
from tests.requests import produce
from tests.runtime.guarded import rule, user
from tests.runtime.guarded import server as guarded
from tests.server.in_memory import WALL_MS, InMemory, Peer

UNKNOWN = -1  # of a start offset, of a count of records that are done, and so of a lag


@given(records=st.integers(0, 4), start=st.integers(-1, 5), done=st.integers(-1, 3), is_named=st.booleans())
def test_the_lag_is_what_is_behind_the_start_and_not_done(records: int, start: int, done: int, is_named: bool) -> None:
    """It is not known where the start is not, or how many records behind it are done."""
    server = InMemory(topics={"orders": 1}, share_coordinator_state_topic_num_partitions=1)
    peer = server.connect()
    if records:
        produced = peer.ask(produce("orders", {0: batch(*"a" * records)}), 9)
        assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    states = server.node.engine.share_states
    key = StateKey("g", server.node.world.ledger.catalog.topics["orders"].id, 0)
    assert states.initialize(key, 0, start, WALL_MS) == ErrorCode.NONE
    assert states.write(key, StateUpdate(-1, -1, start, done, ()), WALL_MS) == ErrorCode.NONE

    topics = (DescribeShareGroupOffsetsRequestTopic("orders", (0,)),)
    asked = DescribeShareGroupOffsetsRequestGroup("g", topics if is_named else None)
    (group,) = peer.ask(DescribeShareGroupOffsetsRequest((asked,)), 1).groups
    assert group.error_code == ErrorCode.NONE
    if not is_named:  # no member has made the group, so it has no topics
        assert group.topics == ()
        return
    (found,) = group.topics[0].partitions
    assert (found.error_code, found.start_offset) == (ErrorCode.NONE, start)
    assert found.lag == (UNKNOWN if UNKNOWN in (start, done) else records - start - done)


TOPICS = {"orders": 2, "other": 3, "unread": 1}
DESCRIBED = {"orders": [(0, 0), (1, 0)], "other": [(0, 0), (1, 0), (2, 0)]}


def join(peer: Peer, group: str, *topics: str) -> None:
    """Let a member join, so that the states of these topics are begun, and leave."""
    for epoch in (0, -1):
        request = ShareGroupHeartbeatRequest(group, "m", epoch, subscribed_topic_names=topics if epoch == 0 else None)
        assert peer.ask(request, 1).error_code == ErrorCode.NONE


def describe(peer: Peer, *groups: tuple[str, tuple[str, ...] | None]) -> Any:
    """The codes of groups, and the codes of their partitions by topic."""
    asked = [
        DescribeShareGroupOffsetsRequestGroup(
            group,
            None if names is None else tuple(DescribeShareGroupOffsetsRequestTopic(name, (0, 1)) for name in names),
        )
        for group, names in groups
    ]
    answer = peer.ask(DescribeShareGroupOffsetsRequest(tuple(asked)), 1)
    return {
        group.group_id: (
            group.error_code,
            {
                topic.topic_name: [(one.partition_index, one.error_code) for one in topic.partitions]
                for topic in group.topics
            },
        )
        for group in answer.groups
    }


def test_each_group_is_described_by_itself() -> None:
    """All that it has, or what is named, of groups that this broker coordinates, and that are loaded."""
    server = InMemory(topics=TOPICS, virtual_brokers=2, offsets_topic_num_partitions=4)
    coordinators, partitions = server.node.world.coordinators, server.node.world.partitions
    names = {0: [], 1: []}
    for name in (f"group {number}" for number in range(20)):
        names[coordinators.of_group(name)].append(name)
    (here, empty, *_), (there, *_) = names[0], names[1]
    join(server.connect(broker=0), here, "orders", "other")
    join(server.connect(broker=1), there, "orders")
    peer = server.connect(broker=0)
    named = ("other", "nowhere")
    found = describe(peer, (here, None), (there, None), (empty, None))
    assert found == {here: (0, DESCRIBED), there: (ErrorCode.NOT_COORDINATOR, {}), empty: (0, {})}
    assert list(describe(peer, (here, named))[here][1].items()) == [
        ("other", [(0, 0), (1, 0)]), ("nowhere", [(0, 0), (1, 0)]),
    ]  # fmt: skip
    assert describe(peer, (there, named), (here, None))[here] == (0, DESCRIBED)
    topic = server.node.world.ledger.catalog.topics["other"].id
    server.node.engine.share_states.unload(server.node.engine.share_states.partition_of(StateKey(here, topic, 1)))
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert describe(peer, (here, None), (empty, None)) == {here: (loading, {}), empty: (0, {})}
    assert describe(peer, (here, named))[here] == (loading, {})
    assert partitions.owner(here).is_loaded


def test_topics_that_a_client_may_not_describe_are_denied_if_it_has_named_them() -> None:
    """They come last then, and tell nothing; where it asks for all they are left out. Each group by itself."""
    server = guarded(topics=TOPICS)
    admin = user(server, "admin")
    for group in "gh":
        join(admin, group, "orders", "other")
    rules = (rule(resource_type=Resource.GROUP, resource_name="*", operation=Operation.DESCRIBE),
             rule(resource_type=Resource.TOPIC, resource_name="other", operation=Operation.DESCRIBE))  # fmt: skip
    admin.ask(CreateAclsRequest(rules), 3)
    denied = [(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED), (1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    allowed = [(0, 0), (1, 0)]
    found = describe(user(server), ("g", ("orders", "other", "unread")), ("h", None))
    assert found == {
        "g": (0, {"other": allowed, "orders": denied, "unread": denied}), "h": (0, {"other": DESCRIBED["other"]}),
    }  # fmt: skip
    assert list(found["g"][1]) == ["other", "orders", "unread"]
    asked = DescribeShareGroupOffsetsRequestGroup("g", (DescribeShareGroupOffsetsRequestTopic("orders", (1,)),))
    (group,) = user(server).ask(DescribeShareGroupOffsetsRequest((asked,)), 1).groups
    (topic,), (one,) = group.topics, group.topics[0].partitions
    assert (topic.topic_id, one.partition_index, one.start_offset, one.leader_epoch, one.lag) == (
        bytes(16),
        1,
        -1,
        0,
        -1,
    )
    assert one.error_message == "Topic authorization failed."
