"""OffsetForLeaderEpoch (KIP-320): the end of an epoch, by which a consumer finds out whether the log was truncated.

Shown by tests/dataplane/test_steps.py and tests/conformance/stories/fetch.py.
"""

from collections.abc import Generator

from coordinator.dataplane.brokers import LEADER_EPOCH, NO_EPOCH
from coordinator.dataplane.pace import PartitionPace
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderEpochResponseTopicResult,
)


def offset_for_leader_epoch(
    state: State, request: OffsetForLeaderEpochRequest, env: Env
) -> Generator[None, None, OffsetForLeaderEpochResponse]:
    """Return the end of the epoch in each partition, in steps. There is one epoch, which ends with the log."""
    pace = PartitionPace(state.logs)
    topics: list[OffsetForLeaderEpochResponseTopicResult] = []
    for topic in request.topics:
        results: list[OffsetForLeaderEpochResponseEpochEndOffset] = []
        for one in topic.partitions:
            if pace.count_partition():
                yield
            yield from state.open_log_in_steps(topic.topic, one.partition)
            results.append(_end(state, topic.topic, one))
        topics.append(OffsetForLeaderEpochResponseTopicResult(topic.topic, tuple(results)))
    return OffsetForLeaderEpochResponse(topics=tuple(topics))


def _end(
    state: State, topic: str, asked: OffsetForLeaderEpochRequestPartition
) -> OffsetForLeaderEpochResponseEpochEndOffset:
    if (error := state.try_open(topic, asked.partition)) != ErrorCode.NONE:
        return _answer(asked.partition, error=error)
    if asked.current_leader_epoch > LEADER_EPOCH:
        return _answer(asked.partition, error=ErrorCode.UNKNOWN_LEADER_EPOCH)
    if asked.current_leader_epoch < NO_EPOCH:
        return _answer(asked.partition, error=ErrorCode.FENCED_LEADER_EPOCH)
    log = state.log(topic, asked.partition)
    if asked.leader_epoch < NO_EPOCH:  # older than all: it ends where the first one begins
        return _answer(asked.partition, asked.leader_epoch, 0 if log is None else log.start_offset)
    if asked.leader_epoch != LEADER_EPOCH:
        return _answer(asked.partition)  # an epoch that never was: undefined
    return _answer(asked.partition, LEADER_EPOCH, 0 if log is None else log.end_offset)


def _answer(
    partition: int, epoch: int = -1, end_offset: int = -1, error: ErrorCode = ErrorCode.NONE
) -> OffsetForLeaderEpochResponseEpochEndOffset:
    return OffsetForLeaderEpochResponseEpochEndOffset(error, partition, epoch, end_offset)
