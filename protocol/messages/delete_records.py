"""DeleteRecords: give up what lies before an offset; the log begins there from now on."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, STRING, Array

CHANGES = {
    0: "KIP-107: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-482: flexible, so compact lengths and tagged fields",
}


class DeleteRecordsRequestPartition(Message):
    partition_index: int = 0
    offset: int = 0  # -1: all that is replicated


REQUEST_PARTITION = Schema(
    DeleteRecordsRequestPartition,
    (
        Field("partition_index", INT32),
        Field("offset", INT64),
    ),
)


class DeleteRecordsRequestTopic(Message):
    name: str = ""
    partitions: tuple[DeleteRecordsRequestPartition, ...] = ()


REQUEST_TOPIC = Schema(
    DeleteRecordsRequestTopic,
    (
        Field("name", STRING),
        Field("partitions", Array(REQUEST_PARTITION)),
    ),
)


class DeleteRecordsRequest(Message):
    topics: tuple[DeleteRecordsRequestTopic, ...] = ()
    timeout_ms: int = 0


REQUEST = Schema(
    DeleteRecordsRequest,
    (
        Field("topics", Array(REQUEST_TOPIC)),
        Field("timeout_ms", INT32),
    ),
)


class DeleteRecordsResponsePartitionResult(Message):
    partition_index: int = 0
    low_watermark: int = 0  # the log's first offset now
    error_code: int = 0


RESPONSE_PARTITION_RESULT = Schema(
    DeleteRecordsResponsePartitionResult,
    (
        Field("partition_index", INT32),
        Field("low_watermark", INT64),
        Field("error_code", INT16),
    ),
)


class DeleteRecordsResponseTopicResult(Message):
    name: str = ""
    partitions: tuple[DeleteRecordsResponsePartitionResult, ...] = ()


RESPONSE_TOPIC_RESULT = Schema(
    DeleteRecordsResponseTopicResult,
    (
        Field("name", STRING),
        Field("partitions", Array(RESPONSE_PARTITION_RESULT)),
    ),
)


class DeleteRecordsResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[DeleteRecordsResponseTopicResult, ...] = ()


RESPONSE = Schema(
    DeleteRecordsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("topics", Array(RESPONSE_TOPIC_RESULT)),
    ),
)
