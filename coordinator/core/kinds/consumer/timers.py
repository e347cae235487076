"""Timers of a consumer group: sessions and rebalances that end, classic members that do not come, patterns to match.

Shown by tests/core/scripts/consumer/{classic_timers,timers_go_with_their_member}.txt and
tests/conformance/stories/consumer_static.py.
"""

from collections.abc import Mapping
from typing import Any, Final

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.consumer import patterns
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.consumer.removal import remove_members
from coordinator.core.kinds.consumer.states import MemberState
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.kinds.modern.transition import with_deadline
from coordinator.core.refusal import Refusal
from coordinator.core.result import Effect, Result, SetTimer
from coordinator.core.timers import JOIN, REBALANCE, RETRY_MS, SESSION, SYNC, Due, rebalance, session


def resolve_patterns(group: ConsumerGroup, timer: Due, env: Env) -> Result[Any]:
    """Match some more of the group's regular expressions."""
    transition = GroupTransition(group, env, "timer regex")
    patterns.resolve_patterns(transition)
    return transition.result()


def give_up_patterns(group: ConsumerGroup, timer: Due, env: Env) -> Result[Any]:
    """Give up what has matched, because the log does not take so many topics at once. After a while a heartbeat begins
    anew."""
    transition = GroupTransition(group, env, "timer regex")
    patterns.give_up(transition)
    return transition.result()


def expire_member(group: ConsumerGroup, timer: Due, env: Env) -> Result[Any]:
    """Remove a member that has been silent, or has not done in time what it was told to do."""
    kind, member_id = timer.key[0], timer.member_id
    member = group.members[member_id]
    if kind == REBALANCE and not _still_owes(member):
        return Result()
    transition = GroupTransition(group, env, f"timer {kind}")
    cause = _CAUSES[kind]
    result = remove_members(transition, {member_id: member}, None, cause)
    if isinstance(result, Refusal):
        # What the classic members said cannot be read, so the group cannot become classic: try again, as Kafka does.
        return Result(effects=(SetTimer(timer.key, env.call.now_ms + RETRY_MS),))
    return with_deadline(result, cause, timer)


def restart_timers(group: ConsumerGroup, env: Env) -> Result[Any]:
    """Return the timers of a group that was read from the log: everybody has a full session, and full time to give
    up."""
    effects: list[Effect] = []
    now_ms = env.call.now_ms
    session_at_ms = now_ms + env.limits.group_consumer_session_timeout_ms
    for member_id, member in group.members.items():
        effects.append(SetTimer(session(group.group_id, member_id), session_at_ms))
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            at_ms = now_ms + member.metadata.rebalance_timeout_ms
            effects.append(SetTimer(rebalance(group.group_id, member_id), at_ms))
    return Result(effects=tuple(effects))


def _still_owes(member: Member) -> bool:
    """Return whether the member has not given up what it had to. One that is away has nothing pending."""
    return member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch >= 0


_CAUSES: Final[Mapping[str, Cause]] = {
    SESSION: Cause.SESSION_EXPIRED,
    REBALANCE: Cause.REBALANCE_TIMED_OUT,
    JOIN: Cause.REBALANCE_TIMED_OUT,
    SYNC: Cause.PENDING_SYNC_EXPIRED,
}
