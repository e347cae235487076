"""LeaveGroup: members go, or an operator removes static ones by their instance ids. One rebalance for all of them.

Shown by tests/core/scripts/classic/{leave*,static_removal}.txt and tests/conformance/stories/classic_leave.py.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.classic.events import Why, event
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.rebalance import maybe_complete_join, prepare_rebalance
from coordinator.core.kinds.classic.replies import refuse_parked_requests
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.classic.validation import validate_member
from coordinator.core.limits import Limits
from coordinator.core.result import Effect, Result
from protocol.errors import ErrorCode
from protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMemberIdentity,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
)

BATCH_SINCE = 3
BY = "LeaveGroup"


def leave_group(group: ClassicGroup | None, request: LeaveGroupRequest, env: Env) -> Result[ClassicGroup]:
    """Remove the members that the request names, each with an answer of its own; before version 3 it names one."""
    if not request.group_id:
        return Result(response=LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    named = named_members(request, env.call.version)
    if group is None:
        return Result(response=leave_response(named, [ErrorCode.UNKNOWN_MEMBER_ID] * len(named), env.call.version))
    after = group
    effects: list[Effect] = []
    errors: list[ErrorCode] = []
    whys: list[Why] = []
    for who in named:
        error, why = _find_member(after, who)
        errors.append(error)
        if why is not None:
            whys.append(why)
            after, gone = remove_member(after, why)
            effects += gone
    result = _rebalance_without(group, after, env.call.now_ms, env.limits, whys) if whys else Result(group)
    return result.prepend(*effects).with_response(leave_response(named, errors, env.call.version))


def named_members(request: LeaveGroupRequest, version: int) -> tuple[LeaveGroupRequestMemberIdentity, ...]:
    """Return the members that the request names."""
    return request.members if version >= BATCH_SINCE else (LeaveGroupRequestMemberIdentity(request.member_id),)


def leave_response(
    named: Sequence[LeaveGroupRequestMemberIdentity], errors: Sequence[ErrorCode], version: int
) -> LeaveGroupResponse:
    """Return each entry as it was sent, with its outcome; before version 3 there is one."""
    if version < BATCH_SINCE:
        return LeaveGroupResponse(error_code=errors[0])
    members = [
        LeaveGroupResponseMember(who.member_id, who.group_instance_id, error)
        for who, error in zip(named, errors, strict=True)
    ]
    return LeaveGroupResponse(members=tuple(members))


def _find_member(group: ClassicGroup, who: LeaveGroupRequestMemberIdentity) -> tuple[ErrorCode, Why | None]:
    """Find the member that the entry means, as the reason why the group changes; or return the error."""
    member_id = who.member_id
    if not member_id:  # an operator names a static member by its instance id alone
        member_id = group.instances.get(who.group_instance_id, "") if who.group_instance_id is not None else ""
        if not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID, None
    elif member_id in group.pending:
        return ErrorCode.NONE, Why(Cause.PENDING_MEMBER_LEFT, BY, member_id=member_id, reason=who.reason)
    elif error := validate_member(group, member_id, who.group_instance_id):
        return error, None
    return ErrorCode.NONE, Why(Cause.MEMBER_LEFT, BY, group.members[member_id], reason=who.reason)


def remove_member(group: ClassicGroup, why: Why) -> tuple[ClassicGroup, tuple[Effect, ...]]:
    """Return the group without the member or the pending id that `why` is about, and what ends with it."""
    if why.member is None:
        return group.without_pending_id(why.member_id), ()
    return group.without_member(why.member), refuse_parked_requests(why.member, ErrorCode.UNKNOWN_MEMBER_ID, "")


def _rebalance_without(
    group: ClassicGroup, after: ClassicGroup, now_ms: int, limits: Limits, whys: list[Why]
) -> Result[ClassicGroup]:
    """Start one rebalance for all who left; the last is named as its cause, the others in events of their own."""
    *others, last = whys
    told = tuple(event(group, group, now_ms, why) for why in others)
    match after.state:
        case State.STABLE | State.COMPLETING_REBALANCE:
            result = prepare_rebalance(after, now_ms, limits, last)
        case State.PREPARING_REBALANCE:
            result = maybe_complete_join(after, now_ms, last)
        case _:
            result = Result(after, events=(event(group, after, now_ms, last),))
    return replace(result, events=told + result.events)
