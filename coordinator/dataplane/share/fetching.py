"""Read the logs of share partitions, and acquire records for a member.

A fetch first looks what there is: it takes nothing before there is enough, or before its wait is over. Kafka:
`DelayedShareFetch`, `ShareFetchUtils.processFetchResponse`.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from coordinator.core.share_partitions.aborted import leave_out
from coordinator.core.share_partitions.acquire import (
    Acquisition,
    BatchOffsets,
    Wish,
    acquire,
    find_last_wanted,
    next_fetch_offset,
)
from coordinator.core.share_partitions.transition import archive_missing, move_log_start
from coordinator.core.share_partitions.values import Limits, Run, SharePartition
from coordinator.core.share_state.values import StateKey
from coordinator.dataplane.share.changes import drop, limits_of
from coordinator.dataplane.share.partitions import SharePartitions
from coordinator.dataplane.state import State
from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.record_batch import BatchHeader
from storage.files import StorageError
from storage.log import Log
from storage.producers import AbortedTransaction

READ_COMMITTED: Final = "read_committed"
READS_MAX: Final = 500  # partitions whose records are in one response, as of Fetch
BATCHES_MAX: Final = 5_000  # of one response, and those of its last partition: some ten milliseconds
AHEAD_BYTES: Final = 16_384  # that are read first: mostly enough for a member that wants few records


class ShareFetch(Struct, frozen=True, gc=False):
    """What a ShareFetch asks for, after its session was found."""

    group_id: str
    member_id: str
    keys: tuple[StateKey, ...]
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    is_exact: bool
    session: int = 0  # its number
    refused: Mapping[StateKey, ErrorCode] = {}  # partitions that are not read


class Look(Struct, frozen=True, gc=False):
    """What a share partition has at its next fetch offset."""

    key: StateKey
    offset: int = 0
    records: bytes = b""
    batches: tuple[BatchHeader, ...] = ()  # of the records
    error: ErrorCode = ErrorCode.NONE
    ends_wait: bool = False  # whether the client hears of it at once


class Taken(Struct, frozen=True, gc=False):
    """What a member has acquired of a partition, and the batches that hold it."""

    key: StateKey
    error: ErrorCode = ErrorCode.NONE
    records: bytes = b""
    acquired: tuple[Run, ...] = ()


def look(state: State, asked: ShareFetch) -> list[Look]:
    """Read what could be acquired now. Partitions that are not served, or have no room, are left out."""
    limits = limits_of(state, asked.group_id)
    able = list(_find_able(state.share, asked.keys, limits))
    room = min(asked.max_bytes, state.fetch_room)
    share = max(room // len(able), 1) if able else 0  # so much for each, as by Kafka's `PartitionMaxBytesStrategy`
    is_committed = state.runtime.group_limits(asked.group_id).share_isolation_level == READ_COMMITTED
    found: list[Look] = []
    left, batches = READS_MAX, 0
    for key, partition in able:
        one = _look_at(state, asked, key, partition, min(share, room), left == READS_MAX, is_committed)
        if one.records:
            left -= 1
            batches += len(one.batches)
            room = max(room - len(one.records), 0) if left and batches < BATCHES_MAX else 0
        found.append(one)
    return found


def _find_able(
    share: SharePartitions, keys: Iterable[StateKey], limits: Limits
) -> Iterator[tuple[StateKey, SharePartition]]:
    for key in keys:
        partition = share.find(key)
        if key in share.changing:
            share.changing[key] = True
        elif partition is not None and _can_acquire(partition, limits):
            yield key, partition


def _can_acquire(partition: SharePartition, limits: Limits) -> bool:
    return partition.in_flight < limits.record_locks_max or next_fetch_offset(partition) < partition.end_offset


def _look_at(
    state: State,
    asked: ShareFetch,
    key: StateKey,
    partition: SharePartition,
    max_bytes: int,
    is_first: bool,
    is_committed: bool,
) -> Look:
    name, offset = state.name_of(key.topic_id), next_fetch_offset(partition)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name is None else state.try_open(name, key.partition)
    if name is None or error:
        drop(state, key)
        return Look(key, error=error, ends_wait=True)
    log = state.log(name, key.partition)
    if log is None:
        return Look(key, offset)
    if offset < log.start_offset:  # retention or DeleteRecords has removed them: the client asks again
        state.share.put(key, move_log_start(partition, log.start_offset))
        return Look(key, log.start_offset, ends_wait=True)
    end = log.last_stable_offset if is_committed else log.end_offset
    if offset >= end or not (max_bytes > 0 or is_first):
        return Look(key, offset)
    try:
        records = _read(log, offset, find_last_wanted(partition, asked.max_records), max_bytes, is_first, end)
        if len(records) < max(asked.min_bytes, 1):  # all that is there counts; what is wanted may be compacted away
            records = log.read(offset, max_bytes, min_one=is_first, before=end)
    except StorageError as failure:
        drop(state, key)
        return Look(key, error=state.close_failed_partition(name, key.partition, failure), ends_wait=True)
    return Look(key, offset, records, tuple([header for _, header in record_batch.batches(records)]))


def _read(log: Log, offset: int, last_wanted: int, max_bytes: int, is_first: bool, end: int) -> bytes:
    """Return the batches up to the one that holds the last offset that a member could acquire: a log may have many
    more, and the next fetch would read them again."""
    before, next_offset = min(end, last_wanted + 1), offset
    records = log.read(offset, min(max_bytes, AHEAD_BYTES), min_one=is_first, before=before)
    for _, header in record_batch.batches(records):
        next_offset = header.next_offset
    if next_offset >= before:
        return records
    return log.read(offset, max_bytes, min_one=is_first, before=before)


def is_enough(asked: ShareFetch, found: Iterable[Look]) -> bool:
    """Return whether to answer now: there are enough bytes, or an error of a partition."""
    size, is_any = 0, False
    for one in found:
        if one.ends_wait:
            return True
        is_any = True
        size += len(one.records)
    return is_any and size >= asked.min_bytes


def take(state: State, asked: ShareFetch, found: Iterable[Look], now_ms: int) -> list[Taken]:
    """Acquire what was found, up to the number of records that the member wants of all partitions together."""
    limits = limits_of(state, asked.group_id)
    is_committed = state.runtime.group_limits(asked.group_id).share_isolation_level == READ_COMMITTED
    left, taken = asked.max_records, list[Taken]()
    for one in found:
        partition = state.share.find(one.key)
        if one.error or not one.records or partition is None:
            taken.append(Taken(one.key, one.error))
            continue
        batches = one.batches
        partition = archive_missing(partition, one.offset, batches[0].base_offset)
        wish = Wish(asked.member_id, left, asked.batch_size, asked.is_exact, asked.session)
        fetched = [BatchOffsets(header.base_offset, header.last_offset) for header in batches]
        acquisition = acquire(partition, wish, fetched, limits, now_ms)
        left -= acquisition.count
        if is_committed:
            acquisition = _leave_out_aborted(state, one, acquisition)
        state.share.put(one.key, acquisition.partition)
        state.share.tally.count_acquired(acquisition.acquired)
        taken.append(Taken(one.key, ErrorCode.NONE, _cut(one.records, batches, acquisition), acquisition.acquired))
    return taken


def _leave_out_aborted(state: State, one: Look, acquisition: Acquisition) -> Acquisition:
    """Archive what belongs to aborted transactions."""
    name = state.name_of(one.key.topic_id)
    log: Log | None = None if name is None else state.log(name, one.key.partition)
    if log is None or not log.producers.aborted:
        return acquisition
    gone = log.collect_aborted_transactions(one.batches[0].base_offset, one.batches[-1].next_offset)
    aborted = _find_aborted(one.batches, gone)
    return leave_out(acquisition, aborted) if aborted else acquisition


def _find_aborted(batches: Iterable[BatchHeader], gone: Iterable[AbortedTransaction]) -> list[BatchOffsets]:
    """Find the batches of aborted transactions. Those of one producer follow each other, as its batches do."""
    left, found = defaultdict[int, deque[AbortedTransaction]](deque), list[BatchOffsets]()
    for one in gone:
        left[one.producer_id].append(one)
    for header in batches:
        if not header.is_transactional or header.is_control:
            continue
        aborted = left[header.producer_id]
        while aborted and aborted[0].last_offset < header.base_offset:
            aborted.popleft()
        if aborted and aborted[0].first_offset <= header.base_offset:
            found.append(BatchOffsets(header.base_offset, header.last_offset))
    return found


def _cut(records: bytes, batches: Sequence[BatchHeader], acquisition: Acquisition) -> bytes:
    """Return the batches that hold what was acquired. Kafka: `maybeSliceFetchRecords`."""
    if not acquisition.acquired:
        return b""
    first, last = acquisition.acquired[0].first_offset, acquisition.acquired[-1].last_offset
    begin = end = 0
    for header in batches:
        if header.last_offset < first:
            begin += header.size
        if header.base_offset <= last:
            end += header.size
    return records[begin:end]
