"""DeleteRecords: move the start of partitions forward.

Shown by tests/dataplane/test_steps.py and tests/conformance/stories/internal_topics.py.
"""

from collections.abc import Generator
from typing import Final

from coordinator.core.catalog.names import INTERNAL
from coordinator.dataplane.pace import WRITE_WORK, PartitionPace
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartitionResult,
    DeleteRecordsResponseTopicResult,
)
from storage.files import StorageError

ALL: Final = -1


def delete_records(
    state: State, request: DeleteRecordsRequest, env: Env
) -> Generator[None, None, DeleteRecordsResponse]:
    """Delete the records before each offset, one partition a step. -1 stands for all records.

    Of a partition that is named twice the last offset counts, and it is told once.
    """
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update({one.partition_index: one.offset for one in topic.partitions})
    pace = PartitionPace(state.logs)
    topics: list[DeleteRecordsResponseTopicResult] = []
    for name, offsets in wanted.items():
        results: list[DeleteRecordsResponsePartitionResult] = []
        for index, offset in offsets.items():
            if pace.count_partition():
                yield
            yield from state.open_log_in_steps(name, index)
            results.append(_delete(state, name, index, offset, pace))
            if (log := state.logs.find_open((name, index))) is not None:
                yield from log.remove_deleted_in_steps()
        topics.append(DeleteRecordsResponseTopicResult(name, tuple(results)))
    return DeleteRecordsResponse(topics=tuple(topics))


def _delete(
    state: State, topic: str, index: int, offset: int, pace: PartitionPace
) -> DeleteRecordsResponsePartitionResult:
    if (error := _validate(state, topic, index)) != ErrorCode.NONE:
        return DeleteRecordsResponsePartitionResult(index, -1, error)
    log = state.logs.log(topic, index)
    upto = log.end_offset if offset == ALL else offset
    if not 0 <= upto <= log.end_offset:
        return DeleteRecordsResponsePartitionResult(index, -1, ErrorCode.OFFSET_OUT_OF_RANGE)
    if upto > log.start_offset:
        pace.add(WRITE_WORK)
        try:
            log.delete_before(upto)
        except StorageError as failure:
            return DeleteRecordsResponsePartitionResult(index, -1, state.close_failed_partition(topic, index, failure))
        state.polls.wake((topic, index))
    return DeleteRecordsResponsePartitionResult(index, log.start_offset)


def _validate(state: State, topic: str, index: int) -> ErrorCode:
    if (error := state.try_open(topic, index)) != ErrorCode.NONE:
        return error
    if topic in INTERNAL:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    settings = state.catalog.settings_of(topic)
    # A topic that is only compacted promises to keep the latest of each key.
    is_kept = settings.is_compacted and not settings.is_deleted
    return ErrorCode.POLICY_VIOLATION if is_kept else ErrorCode.NONE
