"""What a coordinator would know after reading a log from beginning to end, as Kafka does it: one record at a time.

This is the judge of everything faster. A tombstone removes an offset at once and from every open transaction of its
group; a transaction's commits wait for its marker; on COMMIT each applies only if it was written after what stands
there (KAFKA-14505), on ABORT they are dropped.
"""

import heapq
from collections.abc import Iterable, Iterator
from operator import itemgetter

import msgspec

from pipeline.decode.layout import LogDir, segments
from pipeline.decode.plain import PlainBatch, PlainCommit, PlainRecord, batches, commit, marker, records

Key = tuple[str, str, int]  # group, topic, partition


class State(msgspec.Struct):
    """Offsets that count, each with the offset of its record; and those of transactions still open, by producer id."""

    offsets: dict[Key, tuple[int, PlainCommit]] = {}
    pending: dict[int, dict[Key, tuple[int, PlainCommit]]] = {}
    group_records: dict[bytes, bytes] = {}  # every other key, by its bytes


def read(log: LogDir) -> Iterator[tuple[PlainBatch, PlainRecord]]:
    """Every record of every valid batch of a log, in order."""
    for segment in segments(log):
        data = log.store.read(segment.path)
        for batch in batches(data):
            if batch.valid:
                for record in records(data, batch):
                    yield batch, record


def merged(copies: list[LogDir]) -> Iterator[tuple[PlainBatch, PlainRecord]]:
    """The records of several copies of one log: of each offset that of the highest epoch, then of the first name."""
    last = -1
    for (offset, _, _), batch, record in heapq.merge(*map(_placed, copies), key=itemgetter(0)):
        if offset != last or len(copies) == 1:
            yield batch, record
        last = offset


def _placed(log: LogDir) -> Iterator[tuple[tuple[int, int, str], PlainBatch, PlainRecord]]:
    for batch, record in read(log):
        yield (record.offset, -batch.leader_epoch, log.name), batch, record


def replay(entries: Iterable[tuple[PlainBatch, PlainRecord]], state: State | None = None) -> State:
    """Apply records in order."""
    state = state or State()
    for batch, record in entries:
        if batch.is_control:
            end(state, batch.producer_id, commits=marker(record))
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
    """One offset commit or tombstone, whose record has the offset `at`."""
    key = (value.group, value.topic, value.partition)
    if value.offset is None:
        state.offsets.pop(key, None)
        for waiting in state.pending.values():
            waiting.pop(key, None)
    elif batch.is_txn:
        state.pending.setdefault(batch.producer_id, {})[key] = (at, value)
    else:
        state.offsets[key] = (at, value)


def end(state: State, producer_id: int, *, commits: bool) -> None:
    """The marker that ends a producer's transaction."""
    waiting = state.pending.pop(producer_id, {})
    for key, (at, value) in waiting.items() if commits else ():
        standing = state.offsets.get(key)
        if standing is None or at > standing[0]:
            state.offsets[key] = (at, value)
