"""RemoveRaftVoter: remove a voter from the quorum of controllers."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, NULLABLE_STRING, UUID, ZERO_UUID

CHANGES = {
    0: "KIP-853: the first version",
}


class RemoveRaftVoterRequest(Message):
    cluster_id: str | None = ""
    voter_id: int = 0
    voter_directory_id: bytes = ZERO_UUID


REQUEST = Schema(
    RemoveRaftVoterRequest,
    (
        Field("cluster_id", NULLABLE_STRING),
        Field("voter_id", INT32),
        Field("voter_directory_id", UUID),
    ),
)


class RemoveRaftVoterResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""


RESPONSE = Schema(
    RemoveRaftVoterResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)
