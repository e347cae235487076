"""OffsetDelete: forget offsets of topics that the group is not subscribed to."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, STRING, Array

CHANGES = {
    0: "KIP-496: the first version",
}


class OffsetDeleteRequestPartition(Message):
    partition_index: int = 0


REQUEST_PARTITION = Schema(
    OffsetDeleteRequestPartition,
    (Field("partition_index", INT32),),
)


class OffsetDeleteRequestTopic(Message):
    name: str = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


REQUEST_TOPIC = Schema(
    OffsetDeleteRequestTopic,
    (
        Field("name", STRING),
        Field("partitions", Array(REQUEST_PARTITION)),
    ),
)


class OffsetDeleteRequest(Message):
    group_id: str = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()


REQUEST = Schema(
    OffsetDeleteRequest,
    (
        Field("group_id", STRING),
        Field("topics", Array(REQUEST_TOPIC)),
    ),
)


class OffsetDeleteResponsePartition(Message):
    partition_index: int = 0
    error_code: int = 0


RESPONSE_PARTITION = Schema(
    OffsetDeleteResponsePartition,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
    ),
)


class OffsetDeleteResponseTopic(Message):
    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


RESPONSE_TOPIC = Schema(
    OffsetDeleteResponseTopic,
    (
        Field("name", STRING),
        Field("partitions", Array(RESPONSE_PARTITION)),
    ),
)


class OffsetDeleteResponse(Message):
    error_code: int = 0
    throttle_time_ms: int = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()


RESPONSE = Schema(
    OffsetDeleteResponse,
    (
        Field("error_code", INT16),
        Field("throttle_time_ms", INT32),
        Field("topics", Array(RESPONSE_TOPIC)),
    ),
)
