"""DescribeTopicPartitions: topics with their partitions, a page at a time.

Where a page ends, the answer's cursor says at which topic and partition the next one begins.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import (
    BOOLEAN,
    INT16,
    INT32,
    NULLABLE_STRING,
    STRING,
    UUID,
    ZERO_UUID,
    Array,
    Nullable,
    NullableArray,
)

CHANGES = {
    0: "KIP-966: the first version, with eligible leader replicas",
}


class DescribeTopicPartitionsRequestTopic(Message):
    name: str = ""


REQUEST_TOPIC = Schema(
    DescribeTopicPartitionsRequestTopic,
    (Field("name", STRING),),
)


class DescribeTopicPartitionsRequestCursor(Message):
    topic_name: str = ""
    partition_index: int = 0


REQUEST_CURSOR = Schema(
    DescribeTopicPartitionsRequestCursor,
    (
        Field("topic_name", STRING),
        Field("partition_index", INT32),
    ),
)


class DescribeTopicPartitionsRequest(Message):
    topics: tuple[DescribeTopicPartitionsRequestTopic, ...] = ()  # empty: all
    response_partition_limit: int = 2000
    cursor: DescribeTopicPartitionsRequestCursor | None = None


REQUEST = Schema(
    DescribeTopicPartitionsRequest,
    (
        Field("topics", Array(REQUEST_TOPIC)),
        Field("response_partition_limit", INT32),
        Field("cursor", Nullable(REQUEST_CURSOR)),
    ),
)


class DescribeTopicPartitionsResponsePartition(Message):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] = ()


RESPONSE_PARTITION = Schema(
    DescribeTopicPartitionsResponsePartition,
    (
        Field("error_code", INT16),
        Field("partition_index", INT32),
        Field("leader_id", INT32),
        Field("leader_epoch", INT32),
        Field("replica_nodes", Array(INT32)),
        Field("isr_nodes", Array(INT32)),
        Field("eligible_leader_replicas", NullableArray(INT32)),
        Field("last_known_elr", NullableArray(INT32)),
        Field("offline_replicas", Array(INT32)),
    ),
)


class DescribeTopicPartitionsResponseTopic(Message):
    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: int = -(2**31)  # bits by operation; the default: not asked for


RESPONSE_TOPIC = Schema(
    DescribeTopicPartitionsResponseTopic,
    (
        Field("error_code", INT16),
        Field("name", NULLABLE_STRING),
        Field("topic_id", UUID),
        Field("is_internal", BOOLEAN),
        Field("partitions", Array(RESPONSE_PARTITION)),
        Field("topic_authorized_operations", INT32),
    ),
)


class DescribeTopicPartitionsResponseCursor(Message):
    topic_name: str = ""
    partition_index: int = 0


RESPONSE_CURSOR = Schema(
    DescribeTopicPartitionsResponseCursor,
    (
        Field("topic_name", STRING),
        Field("partition_index", INT32),
    ),
)


class DescribeTopicPartitionsResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: DescribeTopicPartitionsResponseCursor | None = None  # None: that was all


RESPONSE = Schema(
    DescribeTopicPartitionsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("topics", Array(RESPONSE_TOPIC)),
        Field("next_cursor", Nullable(RESPONSE_CURSOR)),
    ),
)
