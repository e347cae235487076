"""Timers of a streams group: sessions and rebalances that end, and the initial delay."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.assignors.spec import AssignorError
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.modern.epochs import is_within_interval
from coordinator.core.kinds.modern.transition import with_deadline
from coordinator.core.kinds.streams.group import Member, StreamsGroup
from coordinator.core.kinds.streams.removal import remove_members
from coordinator.core.kinds.streams.states import MemberState
from coordinator.core.kinds.streams.target import compute_target
from coordinator.core.kinds.streams.transition import GroupTransition
from coordinator.core.result import Effect, Result, SetTimer
from coordinator.core.timers import REBALANCE, SESSION, Due, rebalance, session


def expire_member(group: StreamsGroup, timer: Due, env: Env) -> Result[Any]:
    """Remove a member that has been silent, or has not given up its tasks in time."""
    kind, member_id = timer.key[0], timer.member_id
    member = group.members[member_id]
    assert kind != REBALANCE or _still_owes(member), "the timer ends with what it is for"
    cause = _CAUSES[kind]
    result = remove_members(GroupTransition(group, env, f"timer {kind}"), {member_id: member}, None, cause)
    return with_deadline(result, cause, timer)


def end_initial_delay(group: StreamsGroup, timer: Due, env: Env) -> Result[Any]:
    """Compute the first target of the members that have joined meanwhile. Kafka: `computeDelayedTargetAssignment`."""
    transition = GroupTransition(replace(group, is_delayed=False), env, "timer initial")
    configured = group.configured
    if not group.members or configured is None or group.epoch <= group.assignment_epoch:
        return transition.result()
    if is_within_interval(group, env.limits.group_streams_assignment_interval_ms, env.call.now_ms):
        return transition.result()  # the next heartbeat computes it when it may
    waiting = transition.group
    transition.tell(Cause.INITIAL_DELAY_PASSED)
    try:
        compute_target(transition, configured)
    except AssignorError:
        return Result(waiting)  # the next heartbeat fails with it
    return transition.result()


def restart_timers(group: StreamsGroup, env: Env) -> Result[Any]:
    """Return the timers of a group that was read from the log: every member has a full session, and full time to give
    up its tasks."""
    effects: list[Effect] = []
    now_ms = env.call.now_ms
    for member_id, member in group.members.items():
        session_at_ms = now_ms + env.limits.group_streams_session_timeout_ms
        effects.append(SetTimer(session(group.group_id, member_id), session_at_ms))
        if _still_owes(member):
            at_ms = now_ms + member.metadata.rebalance_timeout_ms
            effects.append(SetTimer(rebalance(group.group_id, member_id), at_ms))
    return Result(effects=tuple(effects))


def _still_owes(member: Member) -> bool:
    return member.state is MemberState.UNREVOKED_TASKS


_CAUSES: Final[Mapping[str, Cause]] = {SESSION: Cause.SESSION_EXPIRED, REBALANCE: Cause.REBALANCE_TIMED_OUT}
