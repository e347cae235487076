"""Fire the timers of a classic group: the end of a session, of a join phase, of the wait for a SyncGroup.

Shown by tests/core/scripts/classic/{session_*,sync_timer_is_of_its_generation}.txt and
tests/conformance/stories/rebalance_timing.py.
"""

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.classic.events import Why, event
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.leave_group import remove_member
from coordinator.core.kinds.classic.rebalance import (
    complete_join_phase,
    end_join_phase,
    prepare_rebalance,
    session_timer,
)
from coordinator.core.kinds.classic.states import State
from coordinator.core.limits import NEW_MEMBER_JOIN_TIMEOUT_MS, Limits
from coordinator.core.result import Result
from coordinator.core.timers import Due


def expire_session(group: ClassicGroup, timer: Due, env: Env) -> Result[ClassicGroup]:
    """Remove a pending id or a member that has been silent for too long, unless a request of it is parked."""
    member_id, deadline_ms = timer.member_id, timer.deadline_ms
    now_ms, limits = env.call.now_ms, env.limits
    if member_id in group.pending:
        why = Why(Cause.PENDING_MEMBER_EXPIRED, "timer session", member_id=member_id, deadline_ms=deadline_ms)
        return remove_and_rebalance(group, why, now_ms, limits)
    member = group.members.get(member_id)
    if member is None or (member.is_parked and not member.is_new):
        return Result(group)  # its session begins anew with the response
    # A new member is parked as well. It may have disconnected, and cannot send a heartbeat before it has its id.
    lasted_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
    why = Why(
        Cause.SESSION_EXPIRED,
        "timer session",
        member,
        last_beat_ms=deadline_ms - lasted_ms,
        deadline_ms=deadline_ms,
    )
    return remove_and_rebalance(group, why, now_ms, limits)


def expire_pending_syncs(group: ClassicGroup, timer: Due, env: Env) -> Result[ClassicGroup]:
    """Remove the members that have not sent SyncGroup since the generation began, even if they send heartbeats.

    Kafka: `GroupMetadataManager.expirePendingSync`.
    """
    now_ms, limits = env.call.now_ms, env.limits
    assert group.state in (State.COMPLETING_REBALANCE, State.STABLE), f"a sync timer while {group.state}"
    silent = [member for member in group.members.values() if member.unsynced]
    assert silent, f"group {group.group_id}: a sync timer while all have synced"
    gone = {member.member_id for member in silent}
    after = group.with_members({key: member for key, member in group.members.items() if key not in gone})
    whys = [Why(Cause.PENDING_SYNC_EXPIRED, "timer sync", member) for member in silent]
    told = tuple(event(group, group, now_ms, why) for why in whys[:-1])
    return prepare_rebalance(after, now_ms, limits, whys[-1]).prepend(events=told)


def expire_join_phase(group: ClassicGroup, timer: Due, env: Env) -> Result[ClassicGroup]:
    """End the join phase, or prolong the initial delay."""
    return end_join_phase(group, env.call.now_ms, env.limits)


def restart_timers(group: ClassicGroup, env: Env) -> Result[ClassicGroup]:
    """Start the sessions of a group that was loaded from the log, and rebalance it if it is too large.

    A group without a leader rebalances as well: it was downgraded, and its first rebalance had not ended.
    """
    now_ms, limits = env.call.now_ms, env.limits
    sessions = tuple(session_timer(group.group_id, member, now_ms) for member in group.members.values())
    if group.leader is None:
        cause = Cause.PROTOCOL_DOWNGRADED
    elif len(group.members) > limits.group_max_size:
        cause = Cause.GROUP_OVERSIZED
    else:
        return Result(group, effects=sessions)
    return prepare_rebalance(group, now_ms, limits, Why(cause, "load")).prepend(*sessions)


def remove_and_rebalance(group: ClassicGroup, why: Why, now_ms: int, limits: Limits) -> Result[ClassicGroup]:
    """Remove a member or a pending id, and start a rebalance, or complete the join phase if all others have joined."""
    after, effects = remove_member(group, why)
    if why.member is not None and group.state in (State.STABLE, State.COMPLETING_REBALANCE):
        return prepare_rebalance(after, now_ms, limits, why).prepend(*effects)
    told = (event(group, after, now_ms, why),)
    if group.state is State.PREPARING_REBALANCE and after.has_all_joined:
        # Unlike a leave, this also ends the initial delay early, as in Kafka.
        result = complete_join_phase(after, now_ms, Why(Cause.ALL_MEMBERS_JOINED, why.by))
        return result.prepend(*effects, events=told)
    return Result(after, effects=effects, events=told)
