"""DescribeShareGroupOffsets: the start offsets of share partitions (KIP-932)."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array, NullableArray

CHANGES = {
    0: "KIP-932: the first version",
    1: "KIP-1226: the lag",
}


class DescribeShareGroupOffsetsRequestTopic(Message):
    topic_name: str = ""
    partitions: tuple[int, ...] = ()


REQUEST_TOPIC = Schema(
    DescribeShareGroupOffsetsRequestTopic,
    (
        Field("topic_name", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class DescribeShareGroupOffsetsRequestGroup(Message):
    group_id: str = ""
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = None  # None: all of the group


REQUEST_GROUP = Schema(
    DescribeShareGroupOffsetsRequestGroup,
    (
        Field("group_id", STRING),
        Field("topics", NullableArray(REQUEST_TOPIC)),
    ),
)


class DescribeShareGroupOffsetsRequest(Message):
    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...] = ()


REQUEST = Schema(
    DescribeShareGroupOffsetsRequest,
    (Field("groups", Array(REQUEST_GROUP)),),
)


class DescribeShareGroupOffsetsResponsePartition(Message):
    partition_index: int = 0
    start_offset: int = 0
    leader_epoch: int = 0
    lag: int = -1
    error_code: int = 0
    error_message: str | None = None


RESPONSE_PARTITION = Schema(
    DescribeShareGroupOffsetsResponsePartition,
    (
        Field("partition_index", INT32),
        Field("start_offset", INT64),
        Field("leader_epoch", INT32),
        Field("lag", INT64, since=1),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class DescribeShareGroupOffsetsResponseTopic(Message):
    topic_name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...] = ()


RESPONSE_TOPIC = Schema(
    DescribeShareGroupOffsetsResponseTopic,
    (
        Field("topic_name", STRING),
        Field("topic_id", UUID),
        Field("partitions", Array(RESPONSE_PARTITION)),
    ),
)


class DescribeShareGroupOffsetsResponseGroup(Message):
    group_id: str = ""
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = ()
    error_code: int = 0
    error_message: str | None = None


RESPONSE_GROUP = Schema(
    DescribeShareGroupOffsetsResponseGroup,
    (
        Field("group_id", STRING),
        Field("topics", Array(RESPONSE_TOPIC)),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class DescribeShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = 0
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...] = ()


RESPONSE = Schema(
    DescribeShareGroupOffsetsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("groups", Array(RESPONSE_GROUP)),
    ),
)
