"""ConsumerGroupDescribe: consumer groups (KIP-848) with epochs, members, current and target assignments."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT8, INT16, INT32, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "KIP-848: the first version",
    1: "KIP-1099: whether a member speaks the classic or the consumer protocol",
}


class ConsumerGroupDescribeRequest(Message):
    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


REQUEST = Schema(
    ConsumerGroupDescribeRequest,
    (
        Field("group_ids", Array(STRING)),
        Field("include_authorized_operations", BOOLEAN),
    ),
)


class ConsumerGroupDescribeResponseTopicPartitions(Message):
    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[int, ...] = ()


RESPONSE_TOPIC_PARTITIONS = Schema(
    ConsumerGroupDescribeResponseTopicPartitions,
    (
        Field("topic_id", UUID),
        Field("topic_name", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class ConsumerGroupDescribeResponseAssignment(Message):
    topic_partitions: tuple[ConsumerGroupDescribeResponseTopicPartitions, ...] = ()


RESPONSE_ASSIGNMENT = Schema(
    ConsumerGroupDescribeResponseAssignment,
    (Field("topic_partitions", Array(RESPONSE_TOPIC_PARTITIONS)),),
)


class ConsumerGroupDescribeResponseMember(Message):
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: ConsumerGroupDescribeResponseAssignment = ConsumerGroupDescribeResponseAssignment()
    target_assignment: ConsumerGroupDescribeResponseAssignment = ConsumerGroupDescribeResponseAssignment()
    member_type: int = -1  # -1 unknown, 0 classic, 1 consumer


RESPONSE_MEMBER = Schema(
    ConsumerGroupDescribeResponseMember,
    (
        Field("member_id", STRING),
        Field("instance_id", NULLABLE_STRING),
        Field("rack_id", NULLABLE_STRING),
        Field("member_epoch", INT32),
        Field("client_id", STRING),
        Field("client_host", STRING),
        Field("subscribed_topic_names", Array(STRING)),
        Field("subscribed_topic_regex", NULLABLE_STRING),
        Field("assignment", RESPONSE_ASSIGNMENT),
        Field("target_assignment", RESPONSE_ASSIGNMENT),
        Field("member_type", INT8, since=1),
    ),
)


class ConsumerGroupDescribeResponseDescribedGroup(Message):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[ConsumerGroupDescribeResponseMember, ...] = ()
    authorized_operations: int = -(2**31)  # bits by operation; the default: not asked for


RESPONSE_DESCRIBED_GROUP = Schema(
    ConsumerGroupDescribeResponseDescribedGroup,
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


class ConsumerGroupDescribeResponse(Message):
    throttle_time_ms: int = 0
    groups: tuple[ConsumerGroupDescribeResponseDescribedGroup, ...] = ()


RESPONSE = Schema(
    ConsumerGroupDescribeResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("groups", Array(RESPONSE_DESCRIBED_GROUP)),
    ),
)
