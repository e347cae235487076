"""One error for a whole request, each API in its own place: what is answered before a group is looked at.

Where the error of a partition that is still loading goes is Kafka's (G-042), as is the API that does not mind: a
Heartbeat is told that all is well, so that a restart throws nobody out.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from protocol.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseDeletableGroupResult,
)
from protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_LOADING: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def refused(request: Any, version: int, code: ErrorCode) -> Any:
    """The answer to a request for one group that says nothing but `code`."""
    return _ANSWERS[type(request)](request, version, code)


def loading(request: Any, version: int) -> Any:
    """The answer to a request for one group whose partition is not loaded yet."""
    if type(request) is HeartbeatRequest:
        return HeartbeatResponse()
    if type(request) is SyncGroupRequest:
        # Kafka 4 says 14 here, which the Java client takes for fatal; what it said before, every client survives.
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    if type(request) is TxnOffsetCommitRequest and version < 2:
        return refused(request, version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return refused(request, version, _LOADING)


def _join_group(request: JoinGroupRequest, version: int, code: ErrorCode) -> JoinGroupResponse:
    member_id = "" if code is _LOADING else request.member_id
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None if version >= 7 else "")


def _offset_commit(request: OffsetCommitRequest, version: int, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                tuple(OffsetCommitResponsePartition(one.partition_index, code) for one in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _txn_offset_commit(request: TxnOffsetCommitRequest, version: int, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                topic.name,
                tuple(TxnOffsetCommitResponsePartition(one.partition_index, code) for one in topic.partitions),
            )
            for topic in request.topics
        )
    )


_ANSWERS: Final[Mapping[type, Callable[[Any, int, ErrorCode], Any]]] = {
    JoinGroupRequest: _join_group,
    SyncGroupRequest: lambda request, version, code: SyncGroupResponse(error_code=code),
    HeartbeatRequest: lambda request, version, code: HeartbeatResponse(error_code=code),
    LeaveGroupRequest: lambda request, version, code: LeaveGroupResponse(error_code=code),
    OffsetCommitRequest: _offset_commit,
    TxnOffsetCommitRequest: _txn_offset_commit,
    OffsetDeleteRequest: lambda request, version, code: OffsetDeleteResponse(error_code=code),
    ConsumerGroupHeartbeatRequest: lambda request, version, code: ConsumerGroupHeartbeatResponse(error_code=code),
    ListGroupsRequest: lambda request, version, code: ListGroupsResponse(error_code=code),
    DescribeGroupsRequest: lambda request, version, code: DescribeGroupsResponse(
        groups=tuple(DescribeGroupsResponseDescribedGroup(code, group_id=group_id) for group_id in request.groups)
    ),
    ConsumerGroupDescribeRequest: lambda request, version, code: ConsumerGroupDescribeResponse(
        groups=tuple(
            ConsumerGroupDescribeResponseDescribedGroup(code, group_id=group_id) for group_id in request.group_ids
        )
    ),
    DeleteGroupsRequest: lambda request, version, code: DeleteGroupsResponse(
        results=tuple(
            DeleteGroupsResponseDeletableGroupResult(group_id, code) for group_id in dict.fromkeys(request.groups_names)
        )
    ),
}
