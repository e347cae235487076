"""Timers of a share group: sessions that end."""

from typing import Any

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.modern.transition import GroupTransition, with_deadline
from coordinator.core.kinds.share.group import ShareGroup
from coordinator.core.kinds.share.share_group_heartbeat import remove_members
from coordinator.core.result import Result, SetTimer
from coordinator.core.timers import Due, session


def expire_session(group: ShareGroup, timer: Due, env: Env) -> Result[Any]:
    """Remove a member that has been silent. The records that it has acquired stay acquired until their locks end."""
    member = group.members[timer.member_id]
    transition = GroupTransition(group, env, "timer session")
    result = remove_members(transition, (member,), Cause.SESSION_EXPIRED).result()
    return with_deadline(result, Cause.SESSION_EXPIRED, timer)


def restart_timers(group: ShareGroup, env: Env) -> Result[Any]:
    """Return the timers of a group that was read from the log: everybody has a full session."""
    at_ms = env.call.now_ms + env.limits.group_share_session_timeout_ms
    return Result(effects=tuple([SetTimer(session(group.group_id, member_id), at_ms) for member_id in group.members]))
