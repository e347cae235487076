"""AddRaftVoter: add a voter to the quorum of controllers."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, NULLABLE_STRING, STRING, UINT16, UUID, ZERO_UUID, Array

CHANGES = {
    0: "KIP-853: the first version",
    1: "KIP-1186: a response before the new voters are committed",
}


class AddRaftVoterRequestListener(Message):
    name: str = ""
    host: str = ""
    port: int = 0


REQUEST_LISTENER = Schema(
    AddRaftVoterRequestListener,
    (
        Field("name", STRING),
        Field("host", STRING),
        Field("port", UINT16),
    ),
)


class AddRaftVoterRequest(Message):
    cluster_id: str | None = ""
    timeout_ms: int = 0
    voter_id: int = 0
    voter_directory_id: bytes = ZERO_UUID
    listeners: tuple[AddRaftVoterRequestListener, ...] = ()
    ack_when_committed: bool = True


REQUEST = Schema(
    AddRaftVoterRequest,
    (
        Field("cluster_id", NULLABLE_STRING),
        Field("timeout_ms", INT32),
        Field("voter_id", INT32),
        Field("voter_directory_id", UUID),
        Field("listeners", Array(REQUEST_LISTENER)),
        Field("ack_when_committed", BOOLEAN, since=1),
    ),
)


class AddRaftVoterResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""


RESPONSE = Schema(
    AddRaftVoterResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)
