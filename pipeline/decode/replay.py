"""Replay a log from beginning to end as Kafka's coordinator does, one record at a time.

This is the judge of everything faster. A tombstone removes an offset at once and from every open transaction of its
group; a transaction's commits wait for its marker; on COMMIT each applies only if it was written after what stands
there (KAFKA-14505), on ABORT they are dropped.
"""

import heapq
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import itemgetter

import msgspec

from pipeline.decode.copies import NEVER, find_epoch_ends
from pipeline.decode.layout import segments
from pipeline.decode.logs import LogDir
from pipeline.decode.plain import PlainBatch, PlainCommit, PlainRecord, batches, commit, control_type, records

Key = tuple[str, str, int]  # group, topic, partition
ABORT, COMMIT = 0, 1  # types of control records; others end no transaction


class State(msgspec.Struct):
    """Offsets that count, each with the offset of its record; and those of transactions still open, by producer id."""

    offsets: dict[Key, tuple[int, PlainCommit]] = {}
    pending: dict[int, dict[Key, tuple[int, PlainCommit]]] = {}
    group_records: dict[bytes, bytes] = {}  # every other key, by its bytes


def read(log: LogDir) -> Iterator[tuple[PlainBatch, PlainRecord]]:
    """Yield every record of every valid batch of a log, in order; of a batch that makes no sense those that still
    do."""
    for batch, data in _batches(log):
        try:
            for record in records(data, batch):
                yield batch, record
        except (ValueError, IndexError, struct.error):
            continue  # the columns report it as a problem


def _batches(log: LogDir) -> Iterator[tuple[PlainBatch, bytes]]:
    for data in _parts(log):
        for batch in batches(data):
            if batch.valid:
                yield batch, data


def _parts(log: LogDir) -> Iterator[bytes]:
    """Yield the bytes of a log: a segment at a time, or what a Fetch brought."""
    if log.is_on_cluster:
        from pipeline.decode.cluster import read_all

        yield from read_all(log)
        return
    for segment in segments(log):
        yield log.store.read(segment.path, 0, segment.size)


def merge_copies(
    copies: list[LogDir], report_conflict: Callable[[LogDir, int], None] = lambda _log, _offset: None
) -> Iterator[tuple[PlainBatch, PlainRecord]]:
    """Yield the records of several copies of one log: of each offset that of the highest epoch, then of the first name.

    A record of an old epoch at an offset that a later epoch has reached is the tail of a copy that diverged: Kafka
    truncates it when that broker follows again, so it does not count. Two records of the same offset and epoch are
    the same record; where they are not, the conflict is reported.
    """
    if len(copies) == 1:
        yield from read(copies[0])
        return
    ends = find_epoch_ends(
        (log.name, batch.leader_epoch, batch.base_offset, batch.base_offset + batch.last_delta)
        for log in copies
        for batch, _ in _batches(log)
    )
    epoch, last = -1, PlainRecord(-1, 0, None, None)
    for (offset, _, _), log, batch, record in heapq.merge(*map(_place, copies), key=itemgetter(0)):
        if offset >= ends.get(batch.leader_epoch, NEVER):
            continue
        if offset != last.offset:
            epoch, last = batch.leader_epoch, record
            yield batch, record
        elif batch.leader_epoch == epoch and record != last:
            report_conflict(log, offset)


def _place(log: LogDir) -> Iterator[tuple[tuple[int, int, str], LogDir, PlainBatch, PlainRecord]]:
    for batch, record in read(log):
        yield (record.offset, -batch.leader_epoch, log.name), log, batch, record


def replay(entries: Iterable[tuple[PlainBatch, PlainRecord]], state: State | None = None) -> State:
    """Apply records in order."""
    state = state or State()
    for batch, record in entries:
        if batch.is_control:
            with suppress(ValueError):  # the columns report it as a problem
                if (kind := control_type(record)) in (ABORT, COMMIT):
                    end(state, batch.producer_id, commits=kind == COMMIT)
            continue
        value = commit(record)
        if value is not None:
            apply(state, batch, record.offset, value)
        elif record.key is not None and record.value is None:
            state.group_records.pop(record.key, None)
        elif record.key is not None and record.value is not None:
            state.group_records[record.key] = record.value
    return state


def apply(state: State, batch: PlainBatch, at: int, value: PlainCommit) -> None:
    """Apply an offset commit or tombstone, whose record has the offset `at`."""
    key = (value.group, value.topic, value.partition)
    if value.is_tombstone:
        state.offsets.pop(key, None)
        for waiting in state.pending.values():
            waiting.pop(key, None)
    elif batch.is_txn:
        state.pending.setdefault(batch.producer_id, {})[key] = (at, value)
    else:
        state.offsets[key] = (at, value)


def end(state: State, producer_id: int, *, commits: bool) -> None:
    """End the transaction of a producer, as its marker says."""
    waiting = state.pending.pop(producer_id, {})
    for key, (at, value) in waiting.items() if commits else ():
        standing = state.offsets.get(key)
        if standing is None or at > standing[0]:
            state.offsets[key] = (at, value)
