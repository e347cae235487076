"""OffsetForLeaderEpoch (KIP-320): where an epoch ends in the log, to tell a consumer whether the log was cut."""

from coordinator.dataplane.brokers import LEADER_EPOCH
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
) -> OffsetForLeaderEpochResponse:
    """Answer for each partition. There is one epoch, so it ends where the log does."""
    return OffsetForLeaderEpochResponse(
        topics=tuple([
            OffsetForLeaderEpochResponseTopicResult(
                topic.topic, tuple([_end(state, topic.topic, one) for one in topic.partitions])
            )
            for topic in request.topics
        ])
    )  # fmt: skip


def _end(
    state: State, topic: str, asked: OffsetForLeaderEpochRequestPartition
) -> OffsetForLeaderEpochResponseEpochEndOffset:
    if (error := state.refusal(topic, asked.partition)) != ErrorCode.NONE:
        return _answer(asked.partition, error=error)
    if asked.current_leader_epoch > LEADER_EPOCH:
        return _answer(asked.partition, error=ErrorCode.UNKNOWN_LEADER_EPOCH)
    if asked.leader_epoch != LEADER_EPOCH:
        return _answer(asked.partition)  # an epoch that never was: undefined
    log = state.log(topic, asked.partition)
    return _answer(asked.partition, LEADER_EPOCH, 0 if log is None else log.end_offset)


def _answer(
    partition: int, epoch: int = -1, end_offset: int = -1, error: ErrorCode = ErrorCode.NONE
) -> OffsetForLeaderEpochResponseEpochEndOffset:
    return OffsetForLeaderEpochResponseEpochEndOffset(error, partition, epoch, end_offset)
