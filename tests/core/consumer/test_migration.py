"""What scripts cannot say of the way between the protocols: protocols that cannot be read, and who is told what."""

from typing import Any

import pytest

from coordinator.core.consumer.consumer_group_heartbeat import consumer_group_heartbeat
from coordinator.core.consumer.downgrade import tombstones
from coordinator.core.consumer.group import ClassicMetadata, ConsumerGroup, Member, Metadata
from coordinator.core.consumer.leave_group import leave_group
from coordinator.core.consumer.replay import apply_record
from coordinator.core.consumer.timers import expire_member
from coordinator.core.env import Env
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
from coordinator.core.verbs import RemoveMember, remove_consumer_member
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from tests.core.consumer.crowd import Classic, Consumer, Crowd

ENV = Env(Call(1, 1_000, 5, "c", "/h", lambda: "id"), Limits(), Topics())


def unreadable() -> ConsumerGroup:
    """A consumer `x`, and a classic member whose words nobody can read."""
    protocols = (ConsumerGroupMemberMetadataValueClassicProtocol("range", b""),)
    classic = Metadata(subscribed_topic_regex="", classic_member_metadata=ClassicMetadata(6_000, protocols))
    group = ConsumerGroup("g", epoch=3, assignment_epoch=3)
    return group.having(Member("x", Metadata(subscribed_topic_regex=""), 3, 3)).having(Member("c", classic, 3, 3))


@pytest.mark.rule("K-273")
def test_a_group_whose_members_cannot_be_read_stays_a_consumer_group() -> None:
    """Whoever wants to leave is refused, and nothing changes."""
    group = unreadable()
    leaving: Any = ConsumerGroupHeartbeatRequest("g", "x", -1)
    result = consumer_group_heartbeat(group, leaving, ENV)
    assert result.response.error_code == ErrorCode.GROUP_ID_NOT_FOUND and result.group is None and not result.records
    why = "Cannot downgrade the consumer group g: 0 bytes are too few for a version in version at byte 0."
    assert result.response.error_message == why
    removed: Any = remove_consumer_member(group, RemoveMember("g", "x"), ENV)
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
    crowd = Crowd()
    for _ in range(3):
        crowd.add(Consumer(crowd, ["t"], regex="u"))
    crowd.wait(1)
    group: ConsumerGroup | None = crowd.group
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


@pytest.mark.rule("K-227 K-228")
def test_a_rolling_change_of_protocol_and_back_loses_nothing() -> None:
    """T-16, T-18, K-227, K-228: classic members are replaced one by one by consumers, and those by classic ones."""
    crowd = Crowd(group_consumer_assignment_interval_ms=0)
    for _ in range(3):
        crowd.add(Classic(crowd, ["t", "u"]))
    crowd.settle(10)
    for kind, ends_as in ((Consumer, "ConsumerGroup"), (Classic, "ClassicGroup")):
        for name in tuple(crowd.clients):
            crowd.clients[name].leave()
            crowd.drop(name)
            crowd.add(kind(crowd, ["t", "u"]))
            crowd.settle(12)
            owned = [partition for client in crowd.clients.values() for partition in client.owned]
            assert len(owned) == len(set(owned)) == 7, "every partition has one owner"
        assert type(crowd.group).__name__ == ends_as
        crowd.restart(compacted=True)
        crowd.settle(12)


@pytest.mark.rule("K-398")
def test_an_upgraded_group_survives_a_crash_at_any_moment() -> None:
    """K-398, T-23: whatever step of the way a restart comes in."""
    for moment in range(8):
        crowd = Crowd(group_consumer_assignment_interval_ms=0)
        for _ in range(2):
            crowd.add(Classic(crowd, ["t"]))
        crowd.settle(10)
        crowd.add(Consumer(crowd, ["t"]))
        for client in [*crowd.clients.values(), *crowd.clients.values(), *crowd.clients.values()][:moment]:
            client.step(promptly=True)
        crowd.restart(compacted=bool(moment % 2))
        crowd.settle(16)
