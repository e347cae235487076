"""Heartbeat: a member is alive, and learns whether it has to rejoin. The most frequent request by far.

Shown by tests/core/scripts/classic/{heartbeat,session_*}.txt and tests/conformance/stories/classic_heartbeat.py.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.core.env import Env
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.states import HEARTBEAT
from coordinator.core.kinds.classic.validation import validate_member
from coordinator.core.renewal import SUCCESS
from coordinator.core.result import Result, SetTimer
from coordinator.core.timers import SESSION
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

ANSWERS: Final[Mapping[ErrorCode, HeartbeatResponse]] = {
    error: HeartbeatResponse(error_code=error) if error else SUCCESS
    for error in (
        ErrorCode.NONE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    )
}
_BY_STATE: Final = {state: ANSWERS[error] for state, error in HEARTBEAT.items()}


def heartbeat(group: ClassicGroup | None, request: HeartbeatRequest, env: Env) -> Result[ClassicGroup]:
    """Renew the member's session. A beat that is refused renews nothing."""
    if group is None:
        return Result(response=ANSWERS[ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID])
    member_id = request.member_id
    member = group.members.get(member_id)
    if member is None or request.group_instance_id is not None:
        if error := validate_member(group, member_id, request.group_instance_id):
            # The nameless group may hold offsets but never members, so whoever beats there is met here.
            return Result(response=ANSWERS[error if request.group_id else ErrorCode.INVALID_GROUP_ID])
    if request.generation_id != group.generation:
        return Result(response=ANSWERS[ErrorCode.ILLEGAL_GENERATION])
    at_ms = env.call.now_ms + member.session_timeout_ms
    # The key is that of `timers.session`, spelled out: this is the hottest line there is.
    return Result(None, _BY_STATE[group.state], (), (SetTimer((SESSION, group.group_id, member_id), at_ms),))
