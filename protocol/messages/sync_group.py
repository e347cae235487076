"""SyncGroup: the leader hands in who gets what; every member is answered with its share.

The assignments are opaque to the coordinator (among consumers: `consumer_protocol.ConsumerProtocolAssignment`).
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BYTES, INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "the first version",
    1: "KIP-124: the answer says how long the client was throttled",
    2: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    3: "KIP-345: a static member names itself by its group instance id",
    4: "KIP-482: flexible, so compact lengths and tagged fields",
    5: "KIP-559: both sides name protocol type and name, and a contradiction is INCONSISTENT_GROUP_PROTOCOL",
}


class SyncGroupRequestAssignment(Message):
    member_id: str = ""
    assignment: bytes = b""


REQUEST_ASSIGNMENT = Schema(
    SyncGroupRequestAssignment,
    (
        Field("member_id", STRING),
        Field("assignment", BYTES),
    ),
)


class SyncGroupRequest(Message):
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()  # from the leader only


REQUEST = Schema(
    SyncGroupRequest,
    (
        Field("group_id", STRING),
        Field("generation_id", INT32),
        Field("member_id", STRING),
        Field("group_instance_id", NULLABLE_STRING, since=3),
        Field("protocol_type", NULLABLE_STRING, since=5),
        Field("protocol_name", NULLABLE_STRING, since=5),
        Field("assignments", Array(REQUEST_ASSIGNMENT)),
    ),
)


class SyncGroupResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""  # b"" beside an error


RESPONSE = Schema(
    SyncGroupResponse,
    (
        Field("throttle_time_ms", INT32, since=1),
        Field("error_code", INT16),
        Field("protocol_type", NULLABLE_STRING, since=5),
        Field("protocol_name", NULLABLE_STRING, since=5),
        Field("assignment", BYTES),
    ),
)
