"""Acknowledge records: accept, release, reject, say that there is none, or prolong the lock.

One wrong range undoes all of them. Kafka: `SharePartition.acknowledge`.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, Protocol

from msgspec.structs import replace

from coordinator.core.decision import Steps
from coordinator.core.pace import Pace
from coordinator.core.share_partitions.runs import Segment, find_run, part
from coordinator.core.share_partitions.transition import change_runs, free, settle
from coordinator.core.share_partitions.values import AcknowledgeType, Change, Limits, Run, SharePartition
from coordinator.core.share_state.values import DeliveryState
from protocol.errors import ErrorCode

_SETTLED: Final = {
    AcknowledgeType.GAP: DeliveryState.ARCHIVED,
    AcknowledgeType.ACCEPT: DeliveryState.ACKNOWLEDGED,
    AcknowledgeType.REJECT: DeliveryState.ARCHIVED,
}


class AcknowledgementBatch(Protocol):
    """A range in a ShareFetch or ShareAcknowledge request."""

    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def acknowledge_types(self) -> Sequence[int]: ...


def validate_batches(batches: Iterable[AcknowledgementBatch], highest_type: int) -> Steps[ErrorCode]:
    """Return INVALID_REQUEST for ranges that no share partition could take, with checkpoints.

    They are in order, and each has a type for all of its records or one for each.
    Kafka: `KafkaApis.validateAcknowledgementBatches`.
    """
    pace, previous = Pace(), -1
    for batch in batches:
        types = batch.acknowledge_types
        if pace.is_due():
            yield
        if batch.first_offset > batch.last_offset or batch.first_offset < previous or not types:
            return ErrorCode.INVALID_REQUEST
        if len(types) > 1 and len(types) != batch.last_offset - batch.first_offset + 1:
            return ErrorCode.INVALID_REQUEST
        if min(types) < AcknowledgeType.GAP or max(types) > highest_type:
            return ErrorCode.INVALID_REQUEST
        previous = batch.last_offset
    return ErrorCode.NONE


def acknowledge(
    partition: SharePartition,
    member_id: str,
    batches: Iterable[AcknowledgementBatch],
    limits: Limits,
    now_ms: int,
    session: int,
) -> Steps[Change | ErrorCode]:
    """Return what becomes of the partition, or why the ranges, which are valid, are refused.

    What the member renews it has in this session from now on.

    With checkpoints: the caller lets nobody else change the partition until the last step is done.
    """
    pace, changed = Pace(), list[Run]()
    previous = partition.start_offset - 1
    for segment in (yield from _join(_segments(batches, partition.start_offset))):
        if segment.last_offset >= partition.end_offset:
            return ErrorCode.INVALID_REQUEST if partition.runs else ErrorCode.INVALID_RECORD_STATE
        if segment.first_offset <= previous:
            return ErrorCode.INVALID_RECORD_STATE
        previous = segment.last_offset
        for run in _runs_of(partition, segment):
            if pace.is_due():
                yield
            if run.state != DeliveryState.ACQUIRED or run.member_id != member_id or run.locked_until_ms <= now_ms:
                return ErrorCode.INVALID_RECORD_STATE
            changed.append(_apply(run, segment.type, limits, now_ms, session))
    yield
    return change_runs(partition, changed) if changed else Change(partition)


def _segments(batches: Iterable[AcknowledgementBatch], start_offset: int) -> Iterator[Segment]:
    """Return the ranges of one type. Offsets below the start offset are done: they count as success."""
    for batch in batches:
        first, types = batch.first_offset, batch.acknowledge_types
        if batch.last_offset < start_offset:
            continue
        sizes = [(types[0], batch.last_offset - first + 1)] if len(types) == 1 else _count_equal(types)
        for acknowledge_type, size in sizes:
            last = first + size - 1
            if last >= start_offset:
                yield Segment(max(first, start_offset), last, acknowledge_type)
            first = last + 1


def _join(segments: Iterable[Segment]) -> Steps[list[Segment]]:
    """Join ranges that follow each other and say the same: a client may acknowledge each record by itself."""
    pace, joined = Pace(), list[Segment]()
    for segment in segments:
        if pace.is_due():
            yield
        before = joined[-1] if joined else None
        if before is not None and segment.first_offset == before.last_offset + 1 and segment.type == before.type:
            joined[-1] = Segment(before.first_offset, segment.last_offset, before.type)
        else:
            joined.append(segment)
    return joined


def _count_equal(types: Sequence[int]) -> list[tuple[int, int]]:
    return [(acknowledge_type, len(list(same))) for acknowledge_type, same in groupby(types)]


def _runs_of(partition: SharePartition, segment: Segment) -> Iterator[Run]:
    runs, first = partition.runs, segment.first_offset
    at = find_run(runs, first)
    while first <= segment.last_offset:
        run = runs[at]
        yield part(run, first, min(run.last_offset, segment.last_offset))
        first, at = run.last_offset + 1, at + 1


def _apply(run: Run, acknowledge_type: int, limits: Limits, now_ms: int, session: int) -> Run:
    match acknowledge_type:
        case AcknowledgeType.RENEW:
            return replace(run, locked_until_ms=now_ms + limits.lock_duration_ms, session=session)
        case AcknowledgeType.RELEASE:
            return free(run, limits.delivery_count_limit)
        case _:
            return settle(run, _SETTLED[AcknowledgeType(acknowledge_type)])
