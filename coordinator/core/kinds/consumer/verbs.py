"""The operator's verbs on a consumer group."""

from typing import Any

from coordinator.core.assignors.spec import NOTHING, AssignorError
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.failover import LoseMembers
from coordinator.core.kinds.consumer import record_builders
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.consumer.removal import remove_members
from coordinator.core.kinds.consumer.target import spec_of
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.kinds.modern.target import check_assignment
from coordinator.core.kinds.modern.topics import metadata_hash
from coordinator.core.refusal import Refusal
from coordinator.core.result import Result
from coordinator.core.verbs import BY, Rebalance, RemoveMember, SetTarget, VerbResponse


def remove_member(group: ConsumerGroup, verb: RemoveMember, env: Env) -> Result[Any]:
    """Remove a member, whichever protocol it speaks."""
    member = group.members.get(verb.member_id)
    if member is None:
        return Result(response=VerbResponse(f"there is no member {verb.member_id!r} in group {verb.group_id!r}"))
    transition = GroupTransition(group, env, BY)
    result = remove_members(transition, {verb.member_id: member}, VerbResponse(), verb.cause, verb.reason)
    if isinstance(result, Refusal):  # the group cannot become a classic one
        assert result.message, "a refusal to downgrade says why"
        return Result(response=VerbResponse(result.message))
    return result


def rebalance(group: ConsumerGroup, verb: Rebalance, env: Env) -> Result[ConsumerGroup]:
    """Raise the group's epoch: a new target is computed at the next heartbeat of a member."""
    if not group.members:
        return Result(response=VerbResponse(f"group {verb.group_id!r} has no members"))
    transition = GroupTransition(group, env, BY)
    _raise_epoch(transition)
    transition.tell(Cause.REBALANCE_REQUESTED, reason=verb.reason)
    return transition.result(VerbResponse())


def set_target(group: ConsumerGroup, verb: SetTarget, env: Env) -> Result[ConsumerGroup]:
    """Write the target assignment as if an assignor had computed it."""
    named = {topic for target in verb.targets.values() for topic in target}
    if verb.standbys:
        return Result(response=VerbResponse("invalid standbys: expected none, as a consumer group has no tasks"))
    if unknown := sorted(topic for topic in named if topic not in env.topics):
        return Result(response=VerbResponse(f"invalid topic {unknown[0]!r}: expected a topic that exists"))
    wanted = {
        member_id: {env.topics.id_of(topic): partitions for topic, partitions in target.items()}
        for member_id, target in verb.targets.items()
    }
    try:
        targets = check_assignment(spec_of(group, env.topics), wanted)
    except AssignorError as error:
        return Result(response=VerbResponse(f"invalid target: {error}"))
    transition = GroupTransition(group, env, BY)
    _raise_epoch(transition)
    for member_id in group.members:
        transition.write(record_builders.target(group.group_id, member_id, targets.get(member_id, NOTHING)))
    transition.write(record_builders.target_epoch(group.group_id, transition.group.epoch, env.call.now_ms))
    transition.tell(Cause.ASSIGNMENT_FORCED)
    return transition.result(VerbResponse())


def lose_members(group: ConsumerGroup, verb: LoseMembers, env: Env) -> Result[ConsumerGroup]:
    """Leave the group without members: each is told UNKNOWN_MEMBER_ID, and joins anew."""
    transition = GroupTransition(group, env, BY)
    result = remove_members(transition, dict(group.members.items()), VerbResponse(), Cause.MEMBERS_LOST)
    assert not isinstance(result, Refusal), "a group without members is not downgraded"
    return result


def _raise_epoch(transition: GroupTransition) -> None:
    group = transition.group
    transition.write(record_builders.epoch(group.group_id, group.epoch + 1, metadata_hash(group, transition.topics)))
