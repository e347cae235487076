"""AlterReplicaLogDirs: partitions stay where they are, for there is one directory.

Shown by tests/conformance/stories/admin_cluster.py.
"""

from coordinator.core.decision import Steps
from coordinator.core.pace import Pace
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult,
)


def alter_replica_log_dirs(
    state: State, request: AlterReplicaLogDirsRequest, env: Env
) -> Steps[AlterReplicaLogDirsResponse]:
    """Accept the directory that the partitions are in, and refuse any other."""
    own, pace = state.logs.path, Pace()
    results: list[AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult] = []
    for one in request.dirs:
        is_own = one.path == own
        for topic in one.topics:
            partitions: list[AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult] = []
            for index in topic.partitions:
                if pace.is_due():
                    yield
                partitions.append(_result(state, topic.name, index, is_own=is_own))
            results.append(AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult(topic.name, tuple(partitions)))
            if pace.is_due():
                yield
    return AlterReplicaLogDirsResponse(results=tuple(results))


def _result(
    state: State, topic: str, index: int, *, is_own: bool
) -> AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult:
    error = ErrorCode.NONE
    if not is_own:
        error = ErrorCode.LOG_DIR_NOT_FOUND
    elif not state.has(topic, index):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult(index, error)
