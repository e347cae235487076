"""WriteShareGroupState: write what has changed in the state of share partitions (KIP-932).

Brokers send it to the share coordinator.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT8, INT16, INT32, INT64, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "KIP-932: the first version",
    1: "KIP-1226: the count of deliveries that are complete",
}


class WriteShareGroupStateRequestStateBatch(Message):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0  # 0 available, 2 acknowledged, 4 archived
    delivery_count: int = 0


REQUEST_STATE_BATCH = Schema(
    WriteShareGroupStateRequestStateBatch,
    (
        Field("first_offset", INT64),
        Field("last_offset", INT64),
        Field("delivery_state", INT8),
        Field("delivery_count", INT16),
    ),
)


class WriteShareGroupStateRequestPartitionData(Message):
    partition: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0  # -1: unchanged
    delivery_complete_count: int = -1
    state_batches: tuple[WriteShareGroupStateRequestStateBatch, ...] = ()


REQUEST_PARTITION_DATA = Schema(
    WriteShareGroupStateRequestPartitionData,
    (
        Field("partition", INT32),
        Field("state_epoch", INT32),
        Field("leader_epoch", INT32),
        Field("start_offset", INT64),
        Field("delivery_complete_count", INT32, since=1),
        Field("state_batches", Array(REQUEST_STATE_BATCH)),
    ),
)


class WriteShareGroupStateRequestWriteStateData(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[WriteShareGroupStateRequestPartitionData, ...] = ()


REQUEST_WRITE_STATE_DATA = Schema(
    WriteShareGroupStateRequestWriteStateData,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(REQUEST_PARTITION_DATA)),
    ),
)


class WriteShareGroupStateRequest(Message):
    group_id: str = ""
    topics: tuple[WriteShareGroupStateRequestWriteStateData, ...] = ()


REQUEST = Schema(
    WriteShareGroupStateRequest,
    (
        Field("group_id", STRING),
        Field("topics", Array(REQUEST_WRITE_STATE_DATA)),
    ),
)


class WriteShareGroupStateResponsePartitionResult(Message):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None


RESPONSE_PARTITION_RESULT = Schema(
    WriteShareGroupStateResponsePartitionResult,
    (
        Field("partition", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class WriteShareGroupStateResponseWriteStateResult(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[WriteShareGroupStateResponsePartitionResult, ...] = ()


RESPONSE_WRITE_STATE_RESULT = Schema(
    WriteShareGroupStateResponseWriteStateResult,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(RESPONSE_PARTITION_RESULT)),
    ),
)


class WriteShareGroupStateResponse(Message):
    results: tuple[WriteShareGroupStateResponseWriteStateResult, ...] = ()


RESPONSE = Schema(
    WriteShareGroupStateResponse,
    (Field("results", Array(RESPONSE_WRITE_STATE_RESULT)),),
)
