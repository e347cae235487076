"""AlterReplicaLogDirs: partitions stay where they are, for there is one directory.

Shown by tests/conformance/stories/admin_cluster.py.
"""

from typing import Final

from coordinator.core.decision import Steps
from coordinator.core.pace import Pace, name_units
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult,
)

_RESULTS_A_UNIT: Final = 10
_DIRECTORY_CHARACTERS_MAX: Final = 215
"""Kafka copies a partition to `<topic>-<partition>.<32 characters>-future`, which may have 255 characters."""


def alter_replica_log_dirs(
    state: State, request: AlterReplicaLogDirsRequest, env: Env
) -> Steps[AlterReplicaLogDirsResponse]:
    """Accept the directory that the partitions are in, and refuse any other. Of a partition that is named again the
    last one counts."""
    own, pace = state.logs.path, Pace()
    found: dict[str, dict[int, AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult]] = {}
    for one in request.dirs:
        is_own = one.path == own
        for topic in one.topics:
            if pace.is_due(name_units(topic.name)):
                yield
            for index in topic.partitions:
                if pace.is_due():
                    yield
                found.setdefault(topic.name, {})[index] = _result(state, topic.name, index, is_own=is_own)
    results: list[AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult] = []
    for name, partitions in found.items():
        if pace.is_due(1 + len(partitions) // _RESULTS_A_UNIT):
            yield
        results.append(AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult(name, tuple(partitions.values())))
    return AlterReplicaLogDirsResponse(results=tuple(results))


def _result(
    state: State, topic: str, index: int, *, is_own: bool
) -> AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult:
    error = ErrorCode.NONE
    if len(f"{topic}-{index}") > _DIRECTORY_CHARACTERS_MAX:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif not is_own:
        error = ErrorCode.LOG_DIR_NOT_FOUND
    elif not state.has(topic, index):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult(index, error)
