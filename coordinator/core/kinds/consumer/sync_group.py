"""SyncGroup to a consumer group: a member of the classic protocol is told what it may own.

Shown by tests/core/scripts/consumer/classic_timers.txt and tests/conformance/stories/migration.py.
"""

from typing import Any

from coordinator.core.env import Env
from coordinator.core.kinds.classic.replies import refuse_sync
from coordinator.core.kinds.classic.voting import CONSUMER
from coordinator.core.kinds.consumer.downgrade import encode_assignment
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.consumer.heartbeat import classic_member, rejoin_timer
from coordinator.core.kinds.consumer.states import MemberState
from coordinator.core.result import CancelTimer, Result, SetTimer
from coordinator.core.timers import SYNC, session
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_NAMED_SINCE = 5  # KIP-559


def sync_group(group: ConsumerGroup, request: SyncGroupRequest, env: Env) -> Result[Any]:
    """Answer with what the member is assigned. What the request assigns is ignored: no classic member leads."""
    call = env.call
    is_named = request.protocol_type is not None and request.protocol_name is not None
    if call.version >= PROTOCOL_NAMED_SINCE and not is_named:
        return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    member = classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    if isinstance(member, ErrorCode):
        return _refuse(member)
    assert member.classic is not None, "classic_member has seen to it"
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, _protocol(member)):
        return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        refusal = refuse_sync(ErrorCode.REBALANCE_IN_PROGRESS)
        return Result(response=refusal, effects=rejoin_timer(group, member, call.now_ms))
    metadata = member.classic.supported_protocols[0].metadata
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_assignment(member.assigned, metadata, env.topics),
    )
    at_ms = call.now_ms + member.classic.session_timeout_ms
    effects = (
        CancelTimer((SYNC, group.group_id, member.member_id)),
        SetTimer(session(group.group_id, member.member_id), at_ms),
    )
    return Result(response=response, effects=effects)


def _refuse(error: ErrorCode) -> Result[Any]:
    return Result(response=refuse_sync(error))


def _protocol(member: Member) -> str:
    assert member.classic is not None, "only classic members have one"
    return member.classic.supported_protocols[0].name
