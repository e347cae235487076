"""DescribeGroups: classic groups with state, members and assignments, for an administrator.

Metadata and assignments are there only while the group is stable.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, BYTES, INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "the first version",
    1: "KIP-124: the answer says how long the client was throttled",
    2: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    3: "KIP-430: authorized operations, if asked",
    4: "KIP-345: a static member names itself by its group instance id",
    5: "KIP-482: flexible, so compact lengths and tagged fields",
    6: "KIP-1043: a missing group is GROUP_ID_NOT_FOUND with a message, no longer a dead group without error",
}


class DescribeGroupsRequest(Message):
    groups: tuple[str, ...] = ()
    include_authorized_operations: bool = False


REQUEST = Schema(
    DescribeGroupsRequest,
    (
        Field("groups", Array(STRING)),
        Field("include_authorized_operations", BOOLEAN, since=3),
    ),
)


class DescribeGroupsResponseDescribedGroupMember(Message):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


RESPONSE_DESCRIBED_GROUP_MEMBER = Schema(
    DescribeGroupsResponseDescribedGroupMember,
    (
        Field("member_id", STRING),
        Field("group_instance_id", NULLABLE_STRING, since=4),
        Field("client_id", STRING),
        Field("client_host", STRING),
        Field("member_metadata", BYTES),
        Field("member_assignment", BYTES),
    ),
)


class DescribeGroupsResponseDescribedGroup(Message):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""  # as in `Stable`, `PreparingRebalance`
    protocol_type: str = ""
    protocol_data: str = ""  # the protocol's name, while the group is stable
    members: tuple[DescribeGroupsResponseDescribedGroupMember, ...] = ()
    authorized_operations: int = -(2**31)  # bits by operation; the default: not asked for


RESPONSE_DESCRIBED_GROUP = Schema(
    DescribeGroupsResponseDescribedGroup,
    (
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING, since=6),
        Field("group_id", STRING),
        Field("group_state", STRING),
        Field("protocol_type", STRING),
        Field("protocol_data", STRING),
        Field("members", Array(RESPONSE_DESCRIBED_GROUP_MEMBER)),
        Field("authorized_operations", INT32, since=3),
    ),
)


class DescribeGroupsResponse(Message):
    throttle_time_ms: int = 0
    groups: tuple[DescribeGroupsResponseDescribedGroup, ...] = ()


RESPONSE = Schema(
    DescribeGroupsResponse,
    (
        Field("throttle_time_ms", INT32, since=1),
        Field("groups", Array(RESPONSE_DESCRIBED_GROUP)),
    ),
)
