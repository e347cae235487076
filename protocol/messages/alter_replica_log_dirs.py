"""AlterReplicaLogDirs: move partitions to another directory of the same broker."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, STRING, Array

CHANGES = {
    0: "KIP-113: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-482: flexible",
}


class AlterReplicaLogDirsRequestAlterReplicaLogDirTopic(Message):
    name: str = ""
    partitions: tuple[int, ...] = ()


REQUEST_ALTER_REPLICA_LOG_DIR_TOPIC = Schema(
    AlterReplicaLogDirsRequestAlterReplicaLogDirTopic,
    (
        Field("name", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class AlterReplicaLogDirsRequestAlterReplicaLogDir(Message):
    path: str = ""  # an absolute path
    topics: tuple[AlterReplicaLogDirsRequestAlterReplicaLogDirTopic, ...] = ()


REQUEST_ALTER_REPLICA_LOG_DIR = Schema(
    AlterReplicaLogDirsRequestAlterReplicaLogDir,
    (
        Field("path", STRING),
        Field("topics", Array(REQUEST_ALTER_REPLICA_LOG_DIR_TOPIC)),
    ),
)


class AlterReplicaLogDirsRequest(Message):
    dirs: tuple[AlterReplicaLogDirsRequestAlterReplicaLogDir, ...] = ()


REQUEST = Schema(
    AlterReplicaLogDirsRequest,
    (Field("dirs", Array(REQUEST_ALTER_REPLICA_LOG_DIR)),),
)


class AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult(Message):
    partition_index: int = 0
    error_code: int = 0


RESPONSE_ALTER_REPLICA_LOG_DIR_PARTITION_RESULT = Schema(
    AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
    ),
)


class AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult(Message):
    topic_name: str = ""
    partitions: tuple[AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult, ...] = ()


RESPONSE_ALTER_REPLICA_LOG_DIR_TOPIC_RESULT = Schema(
    AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult,
    (
        Field("topic_name", STRING),
        Field("partitions", Array(RESPONSE_ALTER_REPLICA_LOG_DIR_PARTITION_RESULT)),
    ),
)


class AlterReplicaLogDirsResponse(Message):
    throttle_time_ms: int = 0
    results: tuple[AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult, ...] = ()


RESPONSE = Schema(
    AlterReplicaLogDirsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("results", Array(RESPONSE_ALTER_REPLICA_LOG_DIR_TOPIC_RESULT)),
    ),
)
