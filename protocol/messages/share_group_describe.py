"""ShareGroupDescribe: share groups (KIP-932) with epochs, members and assignments."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    1: "KIP-932: the first version that is not a preview",
}


class ShareGroupDescribeRequest(Message):
    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


REQUEST = Schema(
    ShareGroupDescribeRequest,
    (
        Field("group_ids", Array(STRING)),
        Field("include_authorized_operations", BOOLEAN),
    ),
)


class ShareGroupDescribeResponseTopicPartitions(Message):
    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[int, ...] = ()


RESPONSE_TOPIC_PARTITIONS = Schema(
    ShareGroupDescribeResponseTopicPartitions,
    (
        Field("topic_id", UUID),
        Field("topic_name", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class ShareGroupDescribeResponseAssignment(Message):
    topic_partitions: tuple[ShareGroupDescribeResponseTopicPartitions, ...] = ()


RESPONSE_ASSIGNMENT = Schema(
    ShareGroupDescribeResponseAssignment,
    (Field("topic_partitions", Array(RESPONSE_TOPIC_PARTITIONS)),),
)


class ShareGroupDescribeResponseMember(Message):
    member_id: str = ""
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    assignment: ShareGroupDescribeResponseAssignment = ShareGroupDescribeResponseAssignment()


RESPONSE_MEMBER = Schema(
    ShareGroupDescribeResponseMember,
    (
        Field("member_id", STRING),
        Field("rack_id", NULLABLE_STRING),
        Field("member_epoch", INT32),
        Field("client_id", STRING),
        Field("client_host", STRING),
        Field("subscribed_topic_names", Array(STRING)),
        Field("assignment", RESPONSE_ASSIGNMENT),
    ),
)


class ShareGroupDescribeResponseDescribedGroup(Message):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[ShareGroupDescribeResponseMember, ...] = ()
    authorized_operations: int = -(2**31)  # bits by operation; the default: not asked for


RESPONSE_DESCRIBED_GROUP = Schema(
    ShareGroupDescribeResponseDescribedGroup,
    (
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("group_id", STRING),
        Field("group_state", STRING),
        Field("group_epoch", INT32),
        Field("assignment_epoch", INT32),
        Field("assignor_name", STRING),
        Field("members", Array(RESPONSE_MEMBER)),
        Field("authorized_operations", INT32),
    ),
)


class ShareGroupDescribeResponse(Message):
    throttle_time_ms: int = 0
    groups: tuple[ShareGroupDescribeResponseDescribedGroup, ...] = ()


RESPONSE = Schema(
    ShareGroupDescribeResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("groups", Array(RESPONSE_DESCRIBED_GROUP)),
    ),
)
