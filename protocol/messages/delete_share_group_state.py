"""DeleteShareGroupState: forget the state of share partitions (KIP-932). Brokers send it to the share coordinator."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "KIP-932: the first version",
}


class DeleteShareGroupStateRequestPartitionData(Message):
    partition: int = 0


REQUEST_PARTITION_DATA = Schema(
    DeleteShareGroupStateRequestPartitionData,
    (Field("partition", INT32),),
)


class DeleteShareGroupStateRequestDeleteStateData(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[DeleteShareGroupStateRequestPartitionData, ...] = ()


REQUEST_DELETE_STATE_DATA = Schema(
    DeleteShareGroupStateRequestDeleteStateData,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(REQUEST_PARTITION_DATA)),
    ),
)


class DeleteShareGroupStateRequest(Message):
    group_id: str = ""
    topics: tuple[DeleteShareGroupStateRequestDeleteStateData, ...] = ()


REQUEST = Schema(
    DeleteShareGroupStateRequest,
    (
        Field("group_id", STRING),
        Field("topics", Array(REQUEST_DELETE_STATE_DATA)),
    ),
)


class DeleteShareGroupStateResponsePartitionResult(Message):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None


RESPONSE_PARTITION_RESULT = Schema(
    DeleteShareGroupStateResponsePartitionResult,
    (
        Field("partition", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class DeleteShareGroupStateResponseDeleteStateResult(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[DeleteShareGroupStateResponsePartitionResult, ...] = ()


RESPONSE_DELETE_STATE_RESULT = Schema(
    DeleteShareGroupStateResponseDeleteStateResult,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(RESPONSE_PARTITION_RESULT)),
    ),
)


class DeleteShareGroupStateResponse(Message):
    results: tuple[DeleteShareGroupStateResponseDeleteStateResult, ...] = ()


RESPONSE = Schema(
    DeleteShareGroupStateResponse,
    (Field("results", Array(RESPONSE_DELETE_STATE_RESULT)),),
)
