"""What holds of a shard whatever has happened to it: the timers of its groups and members, and what it counts."""

from typing import Any

from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.modern.epochs import AWAY
from coordinator.core.kinds.share.group import ShareGroup
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.core.shard import Shard
from coordinator.core.timers import EXPIRY, INITIAL, REGEX, Timers, join, rebalance, session, sync
from tests.core.weighing import weigh_groups, weigh_members

FEW = 20
"""Groups, and timers: a larger shard is not checked where that would be done after each turn of a server."""


def check_small_shard(shard: Shard) -> None:
    """Check a shard, unless that takes long."""
    if len(shard.groups) <= FEW and len(shard.timers) <= FEW:
        check_shard(shard)


def check_shard(shard: Shard) -> None:
    """Every member has a session, and is fenced after a while if it has something to give up, and only then. Timers are
    those of groups that there are, and of their members. What they take is what is counted."""
    for group_id, group in shard.groups.items():
        assert not group.departed, group_id
        if isinstance(group, ClassicGroup):
            _check_classic_timers(group, shard.timers)
            _check_classic_counters(group)
        elif isinstance(group, ConsumerGroup | ShareGroup | StreamsGroup):
            _check_timers(group, shard.timers)
    for key, _ in shard.timers.items():
        _, group_id, timed = key
        if key != EXPIRY:
            assert group_id in shard.groups, f"{key} of a group that is not there"
            assert timed == "" or shard.groups[group_id].has_member(timed), f"{key} of a member that is not there"
    assert shard.members_bytes == weigh_members(shard), "what members take is not counted"
    assert shard.groups_bytes == weigh_groups(shard), "what groups take is not counted"


def _check_classic_timers(group: ClassicGroup, timers: Timers) -> None:
    """The session of a member that waits for a response may have ended: it begins anew with the response. Only one that
    is new is removed nevertheless."""
    group_id = group.group_id
    for member_id in group.pending:
        assert session(group_id, member_id) in timers, f"{member_id} is waited for without an end"
    for member_id, member in group.members.items():
        if not member.is_parked or member.is_new:
            assert session(group_id, member_id) in timers, f"{member_id} has no session"
    assert (join(group_id) in timers) == (group.state is State.PREPARING_REBALANCE), group.state
    has_to_sync = any(member.unsynced for member in group.members.values())
    assert (sync(group_id) in timers) == has_to_sync, f"{group.state}: {has_to_sync}"


def _check_classic_counters(group: ClassicGroup) -> None:
    members = tuple(group.members.values())
    assert group.joined == sum(member.join_ticket is not None for member in members)
    assert group.unsynced == sum(member.unsynced for member in members)
    names = [name for member in members for name in member.offers]
    assert dict(group.supports) == {name: names.count(name) for name in names}
    static = {member.instance_id: member.member_id for member in members if member.is_static}
    assert dict(group.instances.items()) == static
    assert not group.members.keys() & group.pending.keys()


def _check_timers(group: Any, timers: Timers) -> None:
    group_id = group.group_id
    for member_id, member in group.members.items():
        assert session(group_id, member_id) in timers, f"{member_id} has no session"
        if isinstance(group, ShareGroup) or getattr(member, "classic", None) is not None or member.epoch == AWAY:
            continue  # they give up nothing, or have to join or sync by then, or owe nothing any more
        is_revoking = member.state.name.startswith("UNREVOKED")
        assert (rebalance(group_id, member_id) in timers) == is_revoking, f"{member_id}: {member.state}"
    if isinstance(group, ConsumerGroup):
        assert ((REGEX, group_id, "") in timers) == (group.resolving is not None), group.resolving
    if isinstance(group, StreamsGroup):
        assert ((INITIAL, group_id, "") in timers) == group.is_delayed, group.is_delayed
