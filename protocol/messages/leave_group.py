"""LeaveGroup: members leave a classic group now, instead of by their session timeout.

From version 3 an administrator may remove several at once, static ones by their instance id alone.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "the first version",
    1: "KIP-124: the answer says how long the client was throttled",
    2: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    3: "KIP-345: several members at once, each with its own result",
    4: "KIP-482: flexible, so compact lengths and tagged fields",
    5: "KIP-800: why the member leaves",
}


class LeaveGroupRequestMemberIdentity(Message):
    member_id: str = ""  # "": the member with the instance id
    group_instance_id: str | None = None
    reason: str | None = None


REQUEST_MEMBER_IDENTITY = Schema(
    LeaveGroupRequestMemberIdentity,
    (
        Field("member_id", STRING, since=3),
        Field("group_instance_id", NULLABLE_STRING, since=3),
        Field("reason", NULLABLE_STRING, since=5),
    ),
)


class LeaveGroupRequest(Message):
    group_id: str = ""
    member_id: str = ""
    members: tuple[LeaveGroupRequestMemberIdentity, ...] = ()


REQUEST = Schema(
    LeaveGroupRequest,
    (
        Field("group_id", STRING),
        Field("member_id", STRING, until=2),
        Field("members", Array(REQUEST_MEMBER_IDENTITY), since=3),
    ),
)


class LeaveGroupResponseMember(Message):
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int = 0


RESPONSE_MEMBER = Schema(
    LeaveGroupResponseMember,
    (
        Field("member_id", STRING, since=3),
        Field("group_instance_id", NULLABLE_STRING, since=3),
        Field("error_code", INT16, since=3),
    ),
)


class LeaveGroupResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    members: tuple[LeaveGroupResponseMember, ...] = ()


RESPONSE = Schema(
    LeaveGroupResponse,
    (
        Field("throttle_time_ms", INT32, since=1),
        Field("error_code", INT16),
        Field("members", Array(RESPONSE_MEMBER), since=3),
    ),
)
