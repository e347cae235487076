"""AlterShareGroupOffsets: let an empty share group begin at other offsets (KIP-932)."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "KIP-932: the first version",
}


class AlterShareGroupOffsetsRequestPartition(Message):
    partition_index: int = 0
    start_offset: int = 0


REQUEST_PARTITION = Schema(
    AlterShareGroupOffsetsRequestPartition,
    (
        Field("partition_index", INT32),
        Field("start_offset", INT64),
    ),
)


class AlterShareGroupOffsetsRequestTopic(Message):
    topic_name: str = ""
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...] = ()


REQUEST_TOPIC = Schema(
    AlterShareGroupOffsetsRequestTopic,
    (
        Field("topic_name", STRING),
        Field("partitions", Array(REQUEST_PARTITION)),
    ),
)


class AlterShareGroupOffsetsRequest(Message):
    group_id: str = ""
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...] = ()


REQUEST = Schema(
    AlterShareGroupOffsetsRequest,
    (
        Field("group_id", STRING),
        Field("topics", Array(REQUEST_TOPIC)),
    ),
)


class AlterShareGroupOffsetsResponsePartition(Message):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


RESPONSE_PARTITION = Schema(
    AlterShareGroupOffsetsResponsePartition,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class AlterShareGroupOffsetsResponseTopic(Message):
    topic_name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...] = ()


RESPONSE_TOPIC = Schema(
    AlterShareGroupOffsetsResponseTopic,
    (
        Field("topic_name", STRING),
        Field("topic_id", UUID),
        Field("partitions", Array(RESPONSE_PARTITION)),
    ),
)


class AlterShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = ()


RESPONSE = Schema(
    AlterShareGroupOffsetsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("responses", Array(RESPONSE_TOPIC)),
    ),
)
