"""DescribeLogDirs: the directories that hold logs, and the size of each partition in them."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, INT64, STRING, Array, NullableArray

CHANGES = {
    0: "KIP-113: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-482: flexible",
    3: "KIP-784: an error of the whole request",
    4: "KIP-827: size and free space of the volume",
    5: "KIP-1066: cordoned directories",
}


class DescribeLogDirsRequestDescribableLogDirTopic(Message):
    topic: str = ""
    partitions: tuple[int, ...] = ()


REQUEST_DESCRIBABLE_LOG_DIR_TOPIC = Schema(
    DescribeLogDirsRequestDescribableLogDirTopic,
    (
        Field("topic", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class DescribeLogDirsRequest(Message):
    topics: tuple[DescribeLogDirsRequestDescribableLogDirTopic, ...] | None = ()  # null: all


REQUEST = Schema(
    DescribeLogDirsRequest,
    (Field("topics", NullableArray(REQUEST_DESCRIBABLE_LOG_DIR_TOPIC)),),
)


class DescribeLogDirsResponseDescribeLogDirsPartition(Message):
    partition_index: int = 0
    partition_size: int = 0  # bytes of all segments
    offset_lag: int = 0  # records that the log is behind the high watermark, or the future log behind the log
    is_future_key: bool = False  # whether this log is to replace the current one


RESPONSE_DESCRIBE_LOG_DIRS_PARTITION = Schema(
    DescribeLogDirsResponseDescribeLogDirsPartition,
    (
        Field("partition_index", INT32),
        Field("partition_size", INT64),
        Field("offset_lag", INT64),
        Field("is_future_key", BOOLEAN),
    ),
)


class DescribeLogDirsResponseDescribeLogDirsTopic(Message):
    name: str = ""
    partitions: tuple[DescribeLogDirsResponseDescribeLogDirsPartition, ...] = ()


RESPONSE_DESCRIBE_LOG_DIRS_TOPIC = Schema(
    DescribeLogDirsResponseDescribeLogDirsTopic,
    (
        Field("name", STRING),
        Field("partitions", Array(RESPONSE_DESCRIBE_LOG_DIRS_PARTITION)),
    ),
)


class DescribeLogDirsResponseDescribeLogDirsResult(Message):
    error_code: int = 0
    log_dir: str = ""  # an absolute path
    topics: tuple[DescribeLogDirsResponseDescribeLogDirsTopic, ...] = ()  # those with partitions here
    total_bytes: int = -1  # of the volume; -1: unknown
    usable_bytes: int = -1  # of the volume; -1: unknown
    is_cordoned: bool = False  # whether it takes no new partitions


RESPONSE_DESCRIBE_LOG_DIRS_RESULT = Schema(
    DescribeLogDirsResponseDescribeLogDirsResult,
    (
        Field("error_code", INT16),
        Field("log_dir", STRING),
        Field("topics", Array(RESPONSE_DESCRIBE_LOG_DIRS_TOPIC)),
        Field("total_bytes", INT64, since=4),
        Field("usable_bytes", INT64, since=4),
        Field("is_cordoned", BOOLEAN, since=5),
    ),
)


class DescribeLogDirsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    results: tuple[DescribeLogDirsResponseDescribeLogDirsResult, ...] = ()


RESPONSE = Schema(
    DescribeLogDirsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16, since=3),
        Field("results", Array(RESPONSE_DESCRIBE_LOG_DIRS_RESULT)),
    ),
)
