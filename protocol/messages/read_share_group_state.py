"""ReadShareGroupState: read the state of share partitions, and raise their leader epochs (KIP-932).

A broker sends it to the share coordinator when it begins to serve a share partition.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT8, INT16, INT32, INT64, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "KIP-932: the first version",
}


class ReadShareGroupStateRequestPartitionData(Message):
    partition: int = 0
    leader_epoch: int = 0


REQUEST_PARTITION_DATA = Schema(
    ReadShareGroupStateRequestPartitionData,
    (
        Field("partition", INT32),
        Field("leader_epoch", INT32),
    ),
)


class ReadShareGroupStateRequestReadStateData(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[ReadShareGroupStateRequestPartitionData, ...] = ()


REQUEST_READ_STATE_DATA = Schema(
    ReadShareGroupStateRequestReadStateData,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(REQUEST_PARTITION_DATA)),
    ),
)


class ReadShareGroupStateRequest(Message):
    group_id: str = ""
    topics: tuple[ReadShareGroupStateRequestReadStateData, ...] = ()


REQUEST = Schema(
    ReadShareGroupStateRequest,
    (
        Field("group_id", STRING),
        Field("topics", Array(REQUEST_READ_STATE_DATA)),
    ),
)


class ReadShareGroupStateResponseStateBatch(Message):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0


RESPONSE_STATE_BATCH = Schema(
    ReadShareGroupStateResponseStateBatch,
    (
        Field("first_offset", INT64),
        Field("last_offset", INT64),
        Field("delivery_state", INT8),
        Field("delivery_count", INT16),
    ),
)


class ReadShareGroupStateResponsePartitionResult(Message):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    state_batches: tuple[ReadShareGroupStateResponseStateBatch, ...] = ()


RESPONSE_PARTITION_RESULT = Schema(
    ReadShareGroupStateResponsePartitionResult,
    (
        Field("partition", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("state_epoch", INT32),
        Field("start_offset", INT64),
        Field("state_batches", Array(RESPONSE_STATE_BATCH)),
    ),
)


class ReadShareGroupStateResponseReadStateResult(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[ReadShareGroupStateResponsePartitionResult, ...] = ()


RESPONSE_READ_STATE_RESULT = Schema(
    ReadShareGroupStateResponseReadStateResult,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(RESPONSE_PARTITION_RESULT)),
    ),
)


class ReadShareGroupStateResponse(Message):
    results: tuple[ReadShareGroupStateResponseReadStateResult, ...] = ()


RESPONSE = Schema(
    ReadShareGroupStateResponse,
    (Field("results", Array(RESPONSE_READ_STATE_RESULT)),),
)
