"""What holds of a shard whatever has happened to it: the timers of its groups and members, what it counts, and what it
tells of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from coordinator.core.group_view import MemberView
from coordinator.core.groups import view_group
from coordinator.core.kinds.classic.group import ClassicGroup, Member
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.modern.epochs import AWAY
from coordinator.core.kinds.registry import kind_of
from coordinator.core.kinds.share.group import ShareGroup
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.core.offsets.store import OffsetStore
from coordinator.core.result import Call
from coordinator.core.shard import Shard
from coordinator.core.timers import EXPIRY, INITIAL, REGEX, Timers, join, rebalance, session, sync
from coordinator.core.topics import Topics
from tests.core.weighing import weigh_groups, weigh_members

LATEST_VERSION = 2**15 - 1
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


def check_views(shard: Shard) -> None:
    """What an operator sees of each group, and what clients are told that describe it, is what the group is."""
    call = Call(0, 0, LATEST_VERSION, None, "", str)
    for group_id, group in shard.groups.items():
        kind, topics = kind_of(group), shard.topics
        view: Any = view_group(group, OffsetStore(), topics)
        told = shard.describe(kind, group_id, call)
        assert (view.group, view.type, view.state) == (told.group_id, kind.name, told.group_state)
        if kind.counts_by == "epoch":
            epochs = view.generation, told.group_epoch, told.assignment_epoch
            assert epochs == (group.epoch, group.epoch, group.assignment_epoch)
        else:
            assert view.generation == group.generation
        for member, seen, entry in zip(group.members.values(), view.members, told.members, strict=True):
            _check_names(member, seen, entry)
            _check_assignments(group, member, seen, entry, topics)


def _check_names(member: Any, seen: MemberView, entry: Any) -> None:
    host = (member if isinstance(member, Member) else member.metadata).client_host
    assert seen.member_id == entry.member_id == member.member_id
    assert seen.client_id == entry.client_id == member.client_id
    assert seen.host == entry.client_host == host
    assert seen.epoch == getattr(entry, "member_epoch", None) == getattr(member, "epoch", None)
    instance = getattr(entry, "group_instance_id" if isinstance(member, Member) else "instance_id", None)
    assert seen.instance_id == instance == member.instance_id


def _check_assignments(group: Any, member: Any, seen: MemberView, entry: Any, topics: Topics) -> None:
    if isinstance(group, ClassicGroup):
        waits_in = {(True, False): "JoinGroup", (False, True): "SyncGroup", (False, False): ""}
        assert seen.waits_in == waits_in[member.join_ticket is not None, member.sync_ticket is not None]
        assert entry.member_assignment == member.assignment
    elif isinstance(group, StreamsGroup):
        target = group.target(member.member_id)
        for role in ("active", "standby", "warmup"):
            has = {(number, one) for number, held in getattr(member.assigned, role).items() for one in held}
            assert set((seen.tasks or {})[role]) == {f"{number}_{one}" for number, one in has}
            assert {(of.subtopology_id, one) for of in _tasks(entry.assignment, role) for one in of.partitions} == has
            wanted = {(number, one) for number, shall in getattr(target, role).items() for one in shall}
            told = {(of.subtopology_id, one) for of in _tasks(entry.target_assignment, role) for one in of.partitions}
            assert told == wanted
    else:
        has = _pairs(member.assigned)
        named = {(name, one) for name, held in seen.assignment.items() for one in held}
        assert named == {(_name(topic_id, topics) or topic_id.hex(), one) for topic_id, one in has}
        target = getattr(entry, "target_assignment", None)
        for told, held in ((entry.assignment, has | _pairs(getattr(member, "pending", {}))), (target, None)):
            held = _pairs(group.target(member.member_id)) if held is None else held
            if told is not None:
                found = {(of.topic_name, one) for of in told.topic_partitions for one in of.partitions}
                assert found == {(name, one) for topic_id, one in held if (name := _name(topic_id, topics))}


def _tasks(assignment: Any, role: str) -> Any:
    return getattr(assignment, f"{role}_tasks")


def _pairs(held: Mapping[bytes, Iterable[int]]) -> set[tuple[bytes, int]]:
    return {(topic_id, partition) for topic_id, partitions in held.items() for partition in partitions}


def _name(topic_id: bytes, topics: Topics) -> str:
    return next((topic.name for topic in topics.values() if topic.id == topic_id), "")
