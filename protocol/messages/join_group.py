"""JoinGroup: a member asks to be in a classic group, and is answered when all members have asked.

The answer names the generation and the protocol that all members share; only the leader's lists the members, whose
metadata the coordinator passes on unread (among consumers: `consumer_protocol.ConsumerProtocolSubscription`).
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, BYTES, INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "the first version",
    1: "KIP-62: a rebalance timeout beside the session timeout",
    2: "KIP-124: the answer says how long the client was throttled",
    3: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    4: "KIP-394: same bytes; a member without an id is first told one, with MEMBER_ID_REQUIRED",
    5: "KIP-345: a static member names itself by its group instance id",
    6: "KIP-482: flexible, so compact lengths and tagged fields",
    7: "KIP-559: the answer names the protocol type, and a refused member gets no protocol",
    8: "KIP-800: why the member joins",
    9: "KIP-814: a static leader that came back is told to skip the assignment",
}


class JoinGroupRequestProtocol(Message):
    name: str = ""
    metadata: bytes = b""


REQUEST_PROTOCOL = Schema(
    JoinGroupRequestProtocol,
    (
        Field("name", STRING),
        Field("metadata", BYTES),
    ),
)


class JoinGroupRequest(Message):
    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1  # -1 in version 0, which has none: the session timeout stands for it
    member_id: str = ""  # "": not known yet
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()  # in the member's order of preference
    reason: str | None = None


REQUEST = Schema(
    JoinGroupRequest,
    (
        Field("group_id", STRING),
        Field("session_timeout_ms", INT32),
        Field("rebalance_timeout_ms", INT32, since=1),
        Field("member_id", STRING),
        Field("group_instance_id", NULLABLE_STRING, since=5),
        Field("protocol_type", STRING),
        Field("protocols", Array(REQUEST_PROTOCOL)),
        Field("reason", NULLABLE_STRING, since=8),
    ),
)


class JoinGroupResponseMember(Message):
    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""


RESPONSE_MEMBER = Schema(
    JoinGroupResponseMember,
    (
        Field("member_id", STRING),
        Field("group_instance_id", NULLABLE_STRING, since=5),
        Field("metadata", BYTES),
    ),
)


class JoinGroupResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1  # -1 beside an error
    protocol_type: str | None = None
    protocol_name: str | None = ""  # None for a refused member from version 7, "" before
    leader: str = ""
    skip_assignment: bool = False  # the assignment of the running generation stands
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()  # for the leader only


RESPONSE = Schema(
    JoinGroupResponse,
    (
        Field("throttle_time_ms", INT32, since=2),
        Field("error_code", INT16),
        Field("generation_id", INT32),
        Field("protocol_type", NULLABLE_STRING, since=7),
        Field("protocol_name", STRING, nullable_since=7),
        Field("leader", STRING),
        Field("skip_assignment", BOOLEAN, since=9),
        Field("member_id", STRING),
        Field("members", Array(RESPONSE_MEMBER)),
    ),
)
