"""InitializeShareGroupState: begin the state of share partitions, or begin it anew at another offset (KIP-932).

Brokers send it to the share coordinator.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "KIP-932: the first version",
}


class InitializeShareGroupStateRequestPartitionData(Message):
    partition: int = 0
    state_epoch: int = 0
    start_offset: int = 0  # -1: not known before the first fetch


REQUEST_PARTITION_DATA = Schema(
    InitializeShareGroupStateRequestPartitionData,
    (
        Field("partition", INT32),
        Field("state_epoch", INT32),
        Field("start_offset", INT64),
    ),
)


class InitializeShareGroupStateRequestInitializeStateData(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[InitializeShareGroupStateRequestPartitionData, ...] = ()


REQUEST_INITIALIZE_STATE_DATA = Schema(
    InitializeShareGroupStateRequestInitializeStateData,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(REQUEST_PARTITION_DATA)),
    ),
)


class InitializeShareGroupStateRequest(Message):
    group_id: str = ""
    topics: tuple[InitializeShareGroupStateRequestInitializeStateData, ...] = ()


REQUEST = Schema(
    InitializeShareGroupStateRequest,
    (
        Field("group_id", STRING),
        Field("topics", Array(REQUEST_INITIALIZE_STATE_DATA)),
    ),
)


class InitializeShareGroupStateResponsePartitionResult(Message):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None


RESPONSE_PARTITION_RESULT = Schema(
    InitializeShareGroupStateResponsePartitionResult,
    (
        Field("partition", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class InitializeShareGroupStateResponseInitializeStateResult(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[InitializeShareGroupStateResponsePartitionResult, ...] = ()


RESPONSE_INITIALIZE_STATE_RESULT = Schema(
    InitializeShareGroupStateResponseInitializeStateResult,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(RESPONSE_PARTITION_RESULT)),
    ),
)


class InitializeShareGroupStateResponse(Message):
    results: tuple[InitializeShareGroupStateResponseInitializeStateResult, ...] = ()


RESPONSE = Schema(
    InitializeShareGroupStateResponse,
    (Field("results", Array(RESPONSE_INITIALIZE_STATE_RESULT)),),
)
