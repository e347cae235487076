"""ReadShareGroupStateSummary: read the start offsets and epochs of share partitions, without their batches (KIP-932).

Brokers send it to the share coordinator.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "KIP-932: the first version",
    1: "KIP-1226: the count of deliveries that are complete",
}


class ReadShareGroupStateSummaryRequestPartitionData(Message):
    partition: int = 0
    leader_epoch: int = 0


REQUEST_PARTITION_DATA = Schema(
    ReadShareGroupStateSummaryRequestPartitionData,
    (
        Field("partition", INT32),
        Field("leader_epoch", INT32),
    ),
)


class ReadShareGroupStateSummaryRequestReadStateSummaryData(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[ReadShareGroupStateSummaryRequestPartitionData, ...] = ()


REQUEST_READ_STATE_SUMMARY_DATA = Schema(
    ReadShareGroupStateSummaryRequestReadStateSummaryData,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(REQUEST_PARTITION_DATA)),
    ),
)


class ReadShareGroupStateSummaryRequest(Message):
    group_id: str = ""
    topics: tuple[ReadShareGroupStateSummaryRequestReadStateSummaryData, ...] = ()


REQUEST = Schema(
    ReadShareGroupStateSummaryRequest,
    (
        Field("group_id", STRING),
        Field("topics", Array(REQUEST_READ_STATE_SUMMARY_DATA)),
    ),
)


class ReadShareGroupStateSummaryResponsePartitionResult(Message):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1


RESPONSE_PARTITION_RESULT = Schema(
    ReadShareGroupStateSummaryResponsePartitionResult,
    (
        Field("partition", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("state_epoch", INT32),
        Field("leader_epoch", INT32),
        Field("start_offset", INT64),
        Field("delivery_complete_count", INT32, since=1),
    ),
)


class ReadShareGroupStateSummaryResponseReadStateSummaryResult(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[ReadShareGroupStateSummaryResponsePartitionResult, ...] = ()


RESPONSE_READ_STATE_SUMMARY_RESULT = Schema(
    ReadShareGroupStateSummaryResponseReadStateSummaryResult,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(RESPONSE_PARTITION_RESULT)),
    ),
)


class ReadShareGroupStateSummaryResponse(Message):
    results: tuple[ReadShareGroupStateSummaryResponseReadStateSummaryResult, ...] = ()


RESPONSE = Schema(
    ReadShareGroupStateSummaryResponse,
    (Field("results", Array(RESPONSE_READ_STATE_SUMMARY_RESULT)),),
)
