"""Which function decides which request: by the request's class, then by the class of the group that it is about."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from coordinator.core.classic.group import ClassicGroup
from coordinator.core.classic.heartbeat import heartbeat
from coordinator.core.classic.join_group import join_group
from coordinator.core.classic.leave_group import leave_group
from coordinator.core.classic.sync_group import sync_group
from coordinator.core.classic.voting import is_subscribed
from coordinator.core.consumer import api as consumer
from coordinator.core.consumer.group import ConsumerGroup
from coordinator.core.offsets import validation
from coordinator.core.offsets.offset_commit import offset_commit
from coordinator.core.offsets.offset_delete import delete_refusal, offset_delete
from coordinator.core.offsets.txn_offset_commit import txn_offset_commit
from coordinator.core.result import Call, Result
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from coordinator.core.shard import Shard  # which imports this table

Group = ClassicGroup | ConsumerGroup
Handler = Callable[["Shard", Any, Call], Result[Any]]


def _consumer_group_heartbeat(shard: "Shard", request: ConsumerGroupHeartbeatRequest, call: Call) -> Result[Any]:
    group_id = request.group_id
    group, limits = shard.groups.get(group_id), shard.limits_of(group_id)
    return consumer.consumer_group_heartbeat(group, request, call, limits, shard.topics, shard.assignors)


def _heartbeat(shard: "Shard", request: HeartbeatRequest, call: Call) -> Result[Any]:
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return consumer.heartbeat(group, request, call, shard.limits_of(request.group_id), shard.topics)
    return heartbeat(group, request, call)


def _join_group(shard: "Shard", request: JoinGroupRequest, call: Call) -> Result[Any]:
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        limits = shard.limits_of(request.group_id)
        return consumer.join_group(group, request, call, limits, shard.topics, shard.assignors)
    return join_group(group, request, call, shard.limits)


def _sync_group(shard: "Shard", request: SyncGroupRequest, call: Call) -> Result[Any]:
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return consumer.sync_group(group, request, call, shard.limits_of(request.group_id), shard.topics)
    return sync_group(group, request, call)


def _leave_group(shard: "Shard", request: LeaveGroupRequest, call: Call) -> Result[Any]:
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return consumer.leave_group(group, request, call, shard.limits_of(request.group_id), shard.topics)
    return leave_group(group, request, call, shard.limits)


def _offset_commit(shard: "Shard", request: OffsetCommitRequest, call: Call) -> Result[Any]:
    group = shard.groups.get(request.group_id)

    def refusal() -> ErrorCode:
        if isinstance(group, ConsumerGroup):
            return consumer.commit_refusal(group, request, call, shard.topics)
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        return validation.commit_refusal(group, generation, member_id, request.group_instance_id, call.version)

    classic = None if isinstance(group, ConsumerGroup) else group  # whose members a commit keeps alive
    result = offset_commit(classic, request, call, shard.limits, shard.topics, refusal)
    shard.tally.commits += len(result.records)
    return result


def _txn_offset_commit(shard: "Shard", request: TxnOffsetCommitRequest, call: Call) -> Result[Any]:
    group = shard.groups.get(request.group_id)

    def refusal() -> ErrorCode:
        if not request.group_id:  # which OffsetCommit takes for an id like any other
            return ErrorCode.INVALID_GROUP_ID
        if isinstance(group, ConsumerGroup):
            return consumer.commit_refusal(group, request, call, shard.topics)
        return validation.txn_commit_refusal(group, request.generation_id, request.member_id, request.group_instance_id)

    result = txn_offset_commit(request, call, shard.limits, shard.topics, refusal)
    shard.tally.commits += len(result.records)
    return result


def _offset_delete(shard: "Shard", request: OffsetDeleteRequest, call: Call) -> Result[Any]:
    group = shard.groups.get(request.group_id)
    if not request.group_id:
        refusal = ErrorCode.INVALID_GROUP_ID
    elif isinstance(group, ConsumerGroup):
        refusal = ErrorCode.NONE  # topics that nobody subscribes to may go while there are members
    else:
        refusal = ErrorCode.GROUP_ID_NOT_FOUND if group is None else delete_refusal(group)

    def in_use(topic: str) -> bool:
        if isinstance(group, ConsumerGroup):
            return consumer.is_subscribed(group, topic)
        return group is not None and is_subscribed(group, topic)

    result = offset_delete(request, shard.offsets, shard.topics, refusal, in_use)
    shard.tally.deletions += len(result.records)
    return result


HANDLERS: Final[dict[type, Handler]] = {
    ConsumerGroupHeartbeatRequest: _consumer_group_heartbeat,
    HeartbeatRequest: _heartbeat,
    JoinGroupRequest: _join_group,
    SyncGroupRequest: _sync_group,
    LeaveGroupRequest: _leave_group,
    OffsetCommitRequest: _offset_commit,
    TxnOffsetCommitRequest: _txn_offset_commit,
    OffsetDeleteRequest: _offset_delete,
}
