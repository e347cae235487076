"""The operator's verbs on a streams group."""

from collections.abc import Mapping
from typing import Any

from coordinator.core.assignors.spec import AssignorError
from coordinator.core.assignors.task_spec import TaskAssignment, Tasks
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.modern import verbs
from coordinator.core.kinds.streams import record_builders
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.core.kinds.streams.removal import raise_epoch, remove_members
from coordinator.core.kinds.streams.target import check_target, spec_of, target_records
from coordinator.core.kinds.streams.transition import GroupTransition
from coordinator.core.moves import LoseMembers
from coordinator.core.result import Result
from coordinator.core.verbs import BY, Rebalance, RemoveMember, SetTarget, VerbResponse
from protocol.steps import finish_steps


def remove_member(group: StreamsGroup, verb: RemoveMember, env: Env) -> Result[Any]:
    """Remove a member."""
    member = group.members.get(verb.member_id)
    if member is None:
        return verbs.refuse_unknown_member(verb)
    transition = GroupTransition(group, env, BY)
    return remove_members(transition, {verb.member_id: member}, VerbResponse(), verb.cause, verb.reason)


def rebalance(group: StreamsGroup, verb: Rebalance, env: Env) -> Result[Any]:
    """Raise the group's epoch: a new target is computed at the next heartbeat of a member."""
    return verbs.rebalance(GroupTransition(group, env, BY), verb, raise_epoch)


def set_target(group: StreamsGroup, verb: SetTarget, env: Env) -> Result[Any]:
    """Write the target assignment as if an assignor had computed it. It holds until the group's epoch is raised."""
    configured = group.configured
    if configured is None or not configured.is_ready:
        return verbs.refuse(f"the topology of group {verb.group_id!r} is not ready")
    targets = {
        member_id: TaskAssignment(_tasks(verb.targets.get(member_id)), _tasks(verb.standbys.get(member_id)))
        for member_id in {**verb.targets, **verb.standbys}
    }
    try:
        check_target(finish_steps(spec_of(group, configured, group.settings)), targets)
    except AssignorError as error:
        return verbs.refuse(f"invalid target: {error}")
    transition = GroupTransition(group, env, BY)
    raise_epoch(transition)
    transition.write(*finish_steps(target_records(transition.group, targets)))
    transition.write(record_builders.target_epoch(group.group_id, transition.group.epoch, env.call.now_ms))
    transition.tell(Cause.ASSIGNMENT_FORCED)
    return transition.result(VerbResponse())


def lose_members(group: StreamsGroup, verb: LoseMembers, env: Env) -> Result[Any]:
    """Leave the group without members: each is told UNKNOWN_MEMBER_ID, and joins anew."""
    transition = GroupTransition(group, env, BY)
    return remove_members(transition, dict(group.members.items()), VerbResponse(), Cause.MEMBERS_LOST)


def _tasks(named: Mapping[str, tuple[int, ...]] | None) -> Tasks:
    return {number: tuple(sorted(set(partitions))) for number, partitions in (named or {}).items() if partitions}
