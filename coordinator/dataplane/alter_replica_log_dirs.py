"""AlterReplicaLogDirs: partitions stay where they are, for there is one directory."""

from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult,
)


def alter_replica_log_dirs(state: State, request: AlterReplicaLogDirsRequest, env: Env) -> AlterReplicaLogDirsResponse:
    """Accept the directory that the partitions are in, and refuse any other."""
    return AlterReplicaLogDirsResponse(
        results=tuple([
            AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult(
                topic.name, tuple([_result(state, one.path, topic.name, index) for index in topic.partitions])
            )
            for one in request.dirs
            for topic in one.topics
        ])
    )  # fmt: skip


def _result(
    state: State, path: str, topic: str, index: int
) -> AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult:
    error = ErrorCode.NONE
    if path != state.logs.path:
        error = ErrorCode.LOG_DIR_NOT_FOUND
    elif not state.has(topic, index):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult(index, error)
