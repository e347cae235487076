"""LeaveGroup to a consumer group: members go, of either protocol, or an operator removes static ones by instance id.

Shown by tests/core/scripts/consumer/leave_classic.txt and tests/conformance/stories/migration.py.
"""

from typing import Any, Final

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.classic.leave_group import leave_response, named_members
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.consumer.membership import find_member
from coordinator.core.kinds.consumer.removal import remove_members
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.kinds.consumer.validation import unknown_instance
from coordinator.core.refusal import Refusal
from coordinator.core.result import Result
from protocol.errors import ErrorCode
from protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMemberIdentity,
    LeaveGroupResponse,
)

BY: Final = "LeaveGroup"


def leave_group(group: ConsumerGroup, request: LeaveGroupRequest, env: Env) -> Result[Any]:
    """Remove whom the request names, all at once, each with an answer of its own; before version 3 it names one."""
    named = named_members(request, env.call.version)
    found = [_find_member(group, who) for who in named]
    going = {one.member_id: one for one in found if isinstance(one, Member)}
    errors = [one.error if isinstance(one, Refusal) else ErrorCode.NONE for one in found]
    response = leave_response(named, errors, env.call.version)
    if not going:
        return Result(response=response)
    reason = next((who.reason for who in named if who.reason), "")
    transition = GroupTransition(group, env, BY)
    result = remove_members(transition, going, response, Cause.MEMBER_LEFT, reason)
    return Result(response=LeaveGroupResponse(error_code=result.error)) if isinstance(result, Refusal) else result


def _find_member(group: ConsumerGroup, who: LeaveGroupRequestMemberIdentity) -> Member | Refusal:
    """Find the member that the entry names. An operator names a static member by its instance id alone."""
    if who.group_instance_id is not None and not who.member_id:
        return group.by_instance(who.group_instance_id) or unknown_instance(who.group_instance_id)
    return find_member(group, who.member_id, who.group_instance_id)
