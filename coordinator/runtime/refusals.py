"""One error for a whole request about one group: what is answered before the group is looked at.

Where the error of a partition that is still loading goes is Kafka's (G-042), as is the API that does not mind: a
Heartbeat is told that all is well, so that a restart throws nobody out.
"""

from typing import Any, Final

from coordinator.core.classic.replies import join_refused
from coordinator.runtime.error_response import error_response
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

_LOADING: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def loading(request: Any, version: int) -> Any:
    """The response to a request for one group whose partition is not loaded yet."""
    if type(request) is HeartbeatRequest:
        return HeartbeatResponse()
    if type(request) is JoinGroupRequest:
        return join_refused(_LOADING, "", version)
    if type(request) is SyncGroupRequest:
        # Kafka 4 says 14 here, which the Java client takes for fatal; what it said before, every client survives.
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    if type(request) is TxnOffsetCommitRequest and version < 2:
        return error_response(request, version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return error_response(request, version, _LOADING)
