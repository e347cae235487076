"""The operator's verbs on a share group."""

from typing import Any

from msgspec.structs import replace

from coordinator.core.assignors.spec import NOTHING, Assignment
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.modern import verbs
from coordinator.core.kinds.modern.topics import metadata_hash
from coordinator.core.kinds.modern.transition import GroupTransition
from coordinator.core.kinds.share import record_builders
from coordinator.core.kinds.share.group import ShareGroup
from coordinator.core.kinds.share.share_group_heartbeat import remove_members as _remove
from coordinator.core.moves import LoseMembers
from coordinator.core.result import Result
from coordinator.core.verbs import BY, Rebalance, RemoveMember, SetTarget, VerbResponse


def remove_member(group: ShareGroup, verb: RemoveMember, env: Env) -> Result[Any]:
    """Remove a member. The records that it has acquired stay acquired until their locks end."""
    member = group.members.get(verb.member_id)
    if member is None:
        return verbs.refuse_unknown_member(verb)
    transition = GroupTransition(group, env, BY)
    return _remove(transition, (member,), verb.cause, verb.reason).result(VerbResponse())


def rebalance(group: ShareGroup, verb: Rebalance, env: Env) -> Result[Any]:
    """Raise the group's epoch: a new target is computed at the next heartbeat of a member."""
    return verbs.rebalance(GroupTransition(group, env, BY), verb, _raise_epoch)


def set_target(group: ShareGroup, verb: SetTarget, env: Env) -> Result[Any]:
    """Write the target assignment as if the assignor had computed it. Members may share partitions."""
    if verb.standbys:
        return verbs.refuse("invalid standbys: expected none, as a share group has no tasks")
    targets: dict[str, Assignment] = {}
    for member_id, target in verb.targets.items():
        if member_id not in group.members:
            return verbs.refuse(f"invalid target: {member_id} is no member")
        for name, partitions in target.items():
            topic = env.topics.get(name)
            if topic is None:
                return verbs.refuse(f"invalid topic {name!r}: expected a topic that exists")
            if not all(0 <= one < topic.partitions for one in partitions):
                return verbs.refuse(f"invalid target: topic {name!r} lacks some of these partitions")
            targets[member_id] = {**targets.get(member_id, NOTHING), topic.id: tuple(sorted(set(partitions)))}
    transition = GroupTransition(group, env, BY)
    _raise_epoch(transition)
    transition.group = replace(transition.group, forced_epoch=transition.group.epoch)
    return verbs.write_target(transition, targets, record_builders, NOTHING)


def lose_members(group: ShareGroup, verb: LoseMembers, env: Env) -> Result[Any]:
    """Leave the group without members: each is told UNKNOWN_MEMBER_ID, and joins anew."""
    transition = GroupTransition(group, env, BY)
    return _remove(transition, tuple(group.members.values()), Cause.MEMBERS_LOST).result(VerbResponse())


def _raise_epoch(transition: GroupTransition[ShareGroup]) -> None:
    group = transition.group
    found = metadata_hash(group, transition.topics)
    transition.write(record_builders.epoch(group.group_id, group.epoch + 1, found))
