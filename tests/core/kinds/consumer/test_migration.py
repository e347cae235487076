"""What scripts cannot say of the way between the protocols: protocols that cannot be read, and who is told what."""

from typing import Any

import pytest

from coordinator.core.env import Env
from coordinator.core.kinds.consumer.consumer_group_heartbeat import consumer_group_heartbeat
from coordinator.core.kinds.consumer.downgrade import tombstones
from coordinator.core.kinds.consumer.group import ClassicMetadata, ConsumerGroup, Member, Metadata
from coordinator.core.kinds.consumer.leave_group import leave_group
from coordinator.core.kinds.consumer.replay import apply_record
from coordinator.core.kinds.consumer.timers import expire_member
from coordinator.core.kinds.consumer.verbs import remove_member
from coordinator.core.limits import Limits
from coordinator.core.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValueClassicProtocol,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
)
from coordinator.core.result import Call, SetTimer
from coordinator.core.timers import Due
from coordinator.core.topics import Topics
from coordinator.core.verbs import RemoveMember
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from tests.core import world_commands  # noqa: F401 - it adds its commands
from tests.core.kinds.consumer import commands  # noqa: F401 - as above
from tests.core.world import World

ENV = Env(Call(1, 1_000, 5, "c", "/h", lambda: "id"), Limits(), Topics())


def unreadable() -> ConsumerGroup:
    """A consumer `x`, and a classic member whose words nobody can read."""
    protocols = (ConsumerGroupMemberMetadataValueClassicProtocol("range", b""),)
    classic = Metadata(subscribed_topic_regex="", classic_member_metadata=ClassicMetadata(6_000, protocols))
    group = ConsumerGroup("g", epoch=3, assignment_epoch=3)
    return group.with_member(Member("x", Metadata(subscribed_topic_regex=""), 3, 3)).with_member(
        Member("c", classic, 3, 3)
    )


@pytest.mark.rule("K-273")
def test_a_group_whose_members_cannot_be_read_stays_a_consumer_group() -> None:
    """Whoever wants to leave is refused, and nothing changes."""
    group = unreadable()
    leaving: Any = ConsumerGroupHeartbeatRequest("g", "x", -1)
    result = consumer_group_heartbeat(group, leaving, ENV)
    assert result.response.error_code == ErrorCode.GROUP_ID_NOT_FOUND and result.group is None and not result.records
    why = "Cannot downgrade the consumer group g: 0 bytes are too few for a version in version at byte 0."
    assert result.response.error_message == why
    removed: Any = remove_member(group, RemoveMember("g", "x"), ENV)
    assert removed.response.refusal == why and removed.group is None
    leaving = LeaveGroupRequest("g", "", (LeaveGroupRequestMemberIdentity("x"),))
    result = leave_group(group, leaving, ENV)
    assert result.response.error_code == ErrorCode.GROUP_ID_NOT_FOUND and result.group is None


@pytest.mark.rule("K-172 K-396")
def test_a_session_that_ends_there_is_tried_again() -> None:
    """After half a second."""
    result = expire_member(unreadable(), Due(("session", "g", "x"), 1_000), ENV)
    assert result.effects == (SetTimer(("session", "g", "x"), 1_500),) and result.group is None


@pytest.mark.rule("K-267 K-329 K-368")
def test_tombstones_are_in_the_order_that_replay_insists_on() -> None:
    """8t, 7t, 6t, 5t, 16t, 4t, 3t; replayed, they leave nothing."""
    world = World()
    for command in ("limits group_consumer_assignment_interval_ms=0", "topics t:4 u:3", "hb a 0 names=t regex=u",
                    "hb b 0 names=t regex=u", "hb c 0 names=t regex=u", "advance 1s"):  # fmt: skip
        world.run(command)
    group: ConsumerGroup | None = world.shard.groups["g"]
    assert group is not None
    written = tombstones(group)
    kinds = [type(record.key) for record in written]
    assert kinds[:3] == [ConsumerGroupCurrentMemberAssignmentKey] * 3
    assert kinds[3:6] == [ConsumerGroupTargetAssignmentMemberKey] * 3
    assert kinds[7:10] == [ConsumerGroupMemberMetadataKey] * 3
    assert kinds[10] is ConsumerGroupRegularExpressionKey and len(kinds) == 13
    for record in written:
        group = apply_record(group, record)
    assert group is None
