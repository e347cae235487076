"""What survives a compaction, as pure functions of batches: no file, no clock. `cleaner.py` carries it out.

The plan. Walk the part of the log that is new since the last time and note the latest offset of every key. Then walk
all of it from the start and keep, of each batch, the records that are their key's latest. Beside that:
- A tombstone is kept for `delete.retention.ms` from the first compaction that sees it, so that every reader can hear
  of it.
- Records of aborted transactions go. Records of committed ones are records like any other, but they need their end
  marker: it stays as long as one of them does, and for `delete.retention.ms` more. Undecided transactions are past the
  last stable offset, where no compaction goes.
- The last batch of each producer stays, if only as an empty batch, because it says which sequence comes next.
- Keys and values are never looked into: records of types that nobody here knows survive like all others.

Survivors keep their offsets, and the batches cover all offsets without a gap: where nothing is left of a batch, its
neighbour or an empty batch spans its offsets. So the base offset of every batch is told by the one before, which is
what makes damage to it visible (it is not covered by the checksum). Small plain batches next to each other become
one; of the others the records that survive are copied byte for byte, which is most of what makes a compaction cheap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import repeat
from operator import attrgetter, le

import msgspec

from protocol import record_batch, records
from protocol.record_batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    MAGIC,
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
)
from protocol.records import Outline, Record
from storage.index import RELATIVE_MAX
from storage.producers import AbortedTransaction, Producers

MERGED_BYTES = 16 * 1024
ALONE_BYTES = 512
"""From so many bytes of survivors on a plain batch stays a batch of its own: its header is then a small part of it."""
STEP_KEYS = 20_000
"""So many are marked between two looks at what else there is to do: a millisecond or two."""
MARKED_MAX = 16_000_000
"""So many offsets have a mark each, a byte, that says whether they are their key's latest. Where a log that others have
compacted leaves out more than that, its batches are looked into."""

_last_offset = attrgetter("last_offset")


class DecidedTransactions(msgspec.Struct, frozen=True):
    """The transactions and producers of a log at the start of a compaction; all its transactions are decided."""

    aborted: Mapping[int, list[AbortedTransaction]]
    last_offsets: frozenset[int]
    """Where the last batch of each producer ends."""

    @classmethod
    def of(cls, producers: Producers) -> DecidedTransactions:
        aborted: dict[int, list[AbortedTransaction]] = {}
        for transaction in producers.aborted:
            aborted.setdefault(transaction.producer_id, []).append(transaction)
        last = {offset for _, producer in producers.items() for offset in producer.last_offsets}
        return cls(aborted, frozenset(last))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether the batch belongs to an aborted transaction."""
        transactions = self.aborted.get(header.producer_id, ()) if header.is_transactional else ()
        at = bisect_left(transactions, header.base_offset, key=_last_offset)  # those of one producer follow each other
        return at < len(transactions) and transactions[at].first_offset <= header.base_offset


class Batch(msgspec.Struct, frozen=True):
    """A batch as compaction sees it: `data[start:end]` holds its records, decompressed."""

    header: BatchHeader
    data: bytes
    start: int
    end: int
    whole: bytes | None
    """The batch itself, unless it was compressed: what survives is written uncompressed."""

    @classmethod
    def at(cls, chunk: bytes, at: int, header: BatchHeader) -> Batch:
        data, start, end = record_batch.plain(chunk, at, header)
        whole = None if header.compression else chunk[at : at + header.size]
        return cls(header, data, start, end, whole)

    def read_keys(self) -> tuple[list[bytes], list[int]] | None:
        """Keys and offsets, where every record has a key and a value, which is so in nearly every batch."""
        found = records.read_keys(self.data, self.start, self.end, self.header.count)
        if found is None:
            return None
        base_offset = self.header.base_offset
        return found[0], [base_offset + place for place in found[1]]

    @property
    def outlines(self) -> list[Outline]:
        """Made anew whenever it is asked for. Raises `ProtocolError` for records that cannot be read."""
        base_offset, base_timestamp = self.header.base_offset, self.header.base_timestamp
        found = records.outlines(self.data, self.start, self.end, self.header.count, base_offset, base_timestamp)
        time_ms = self.header.append_time_ms
        return found if time_ms is None else record_batch.with_time(found, time_ms)

    def records(self, kept: list[Outline]) -> list[Record]:
        base_offset, base_timestamp = self.header.base_offset, self.header.base_timestamp
        found = [records.read(self.data, o.start, o.end, 1, base_offset, base_timestamp)[0] for o in kept]
        time_ms = self.header.append_time_ms
        return found if time_ms is None else record_batch.with_time(found, time_ms)


class KeyIndex(msgspec.Struct):
    """What is known of the part of a log that is new, of the batches in `offsets`: read from the log, or noted when
    they were appended."""

    offsets: range
    latest: dict[bytes, int] = {}
    """The latest offset of each key."""
    mixed: set[int] = set()
    """Base offsets of the batches in which a record has no key or no value."""
    control: list[int] = []
    """Offsets of end markers."""
    epochs: set[int] = set()
    """The leader epochs of the batches."""
    marks: bytearray | None = None
    """1 for each offset that is its key's latest; None when they are too many."""
    stops: bytearray = bytearray()
    """The marks, and 1 also for the offsets of other batches that survive or have to be looked at."""

    def pass_over(self, header: BatchHeader) -> None:
        """Note that the next batch exists. What its records say is still to be noted."""
        self.offsets = range(self.offsets.start, header.next_offset)
        self.epochs.add(header.leader_epoch)
        if header.is_control:
            self.control.append(header.base_offset)

    def note(self, batch: Batch, decided: DecidedTransactions) -> None:
        """Note the keys of the next batch."""
        header = batch.header
        self.pass_over(header)
        if header.is_control or decided.is_aborted(header):
            return
        keyed = batch.read_keys()
        if keyed is None:
            self.mixed.add(header.base_offset)
            self.latest.update([(outline.key, outline.offset) for outline in batch.outlines if outline.key is not None])
        else:
            self.latest.update(zip(*keyed, strict=True))

    def extend(self, later: KeyIndex) -> None:
        """Add what is known of the batches behind these."""
        self.offsets = range(self.offsets.start, max(self.offsets.stop, later.offsets.stop))
        self.latest |= later.latest
        self.mixed |= later.mixed
        self.control += later.control
        self.epochs |= later.epochs

    def marking(self, decided: DecidedTransactions) -> Iterator[None]:
        """Set the marks, once everything is noted; each `next` is a short step."""
        if len(self.offsets) > MARKED_MAX:
            return
        start = self.offsets.start
        marks = bytearray(len(self.offsets))
        for number, offset in enumerate(self.latest.values(), 1):
            if offset >= start:  # a batch may have begun before all this
                marks[offset - start] = 1
            if not number % STEP_KEYS:
                yield
        stops = bytearray(marks)
        for offset in (*self.control, *decided.last_offsets):
            if offset in self.offsets:
                stops[offset - start] = 1
        self.marks, self.stops = marks, stops

    def count(self, header: BatchHeader) -> int | None:
        """Return how many records of a batch are the latest of their keys; None where only the records themselves can
        tell."""
        if self.marks is None or header.is_control or header.base_offset not in self.offsets:
            return None
        at = header.base_offset - self.offsets.start
        return self.marks.count(1, at, at + header.last_offset_delta + 1)

    def next_stop(self, offset: int) -> int:
        """Return the first offset from `offset` on whose batch may survive; the batches before it need not be read."""
        if self.marks is None or offset not in self.offsets:
            return offset
        at = self.stops.find(1, offset - self.offsets.start)
        return self.offsets.stop if at < 0 else self.offsets.start + at


class Remainder(msgspec.Struct, frozen=True):
    """What is left of a batch; a batch without records is kept for its header."""

    outlines: list[Outline] | None
    """None: the batch as it is."""
    delete_horizon_ms: int | None


_AS_IT_IS = Remainder(None, None)


class Survivors:
    """Asked batch by batch, from the start of the log on: it follows which transactions still have records."""

    def __init__(
        self, key_index: KeyIndex, decided: DecidedTransactions, now_ms: int, delete_retention_ms: int
    ) -> None:
        self._key_index, self._decided = key_index, decided
        self._now_ms, self._horizon_ms = now_ms, now_ms + delete_retention_ms
        self._has_records: set[int] = set()
        """Producers of whose current transaction a record has survived."""

    def has_any(self, header: BatchHeader) -> bool:
        """Return whether something of a batch may survive, told without looking into it: most of what is new is
        dead."""
        return self._key_index.count(header) != 0 or header.last_offset in self._decided.last_offsets

    def next_stop(self, offset: int) -> int:
        """Return the first offset from `offset` on of which something may survive, told without reading the log."""
        return self._key_index.next_stop(offset)

    def of(self, batch: Batch) -> Remainder | None:
        """Return what of the batch survives; None for a batch of which nothing need be known any more."""
        header = batch.header
        if self._is_left_alone(batch):
            if header.is_transactional:
                self._has_records.add(header.producer_id)
            return _AS_IT_IS
        horizon = header.delete_horizon_ms
        is_over = horizon is not None and horizon <= self._now_ms
        if header.is_control:
            kept, horizon = self._marker(header, batch.outlines, horizon, is_over)
        elif self._decided.is_aborted(header):
            kept = []
        else:
            latest = self._key_index.latest.get
            kept = [o for o in batch.outlines if o.key is not None and latest(o.key, -1) <= o.offset]
            if is_over:
                kept = [o for o in kept if not o.is_tombstone]
            if kept and header.is_transactional:
                self._has_records.add(header.producer_id)
            if horizon is None and any(o.is_tombstone for o in kept):
                horizon = self._horizon_ms
        if not kept and header.last_offset not in self._decided.last_offsets:
            return None
        return Remainder(kept, None if is_over or not kept else horizon)

    def _is_left_alone(self, batch: Batch) -> bool:
        """Return whether the batch is copied as it is: it has no tombstone and no marker, and no key has a later
        value."""
        header = batch.header
        if header.is_control or header.attributes & (COMPRESSION_MASK | DELETE_HORIZON) or not header.count:
            return False
        if header.base_offset in self._key_index.mixed or self._decided.is_aborted(header):
            return False
        if (count := self._key_index.count(header)) is not None:
            return count == header.count
        if (keyed := batch.read_keys()) is None:
            return False
        keys, offsets = keyed
        return all(map(le, map(self._key_index.latest.get, keys, repeat(-1)), offsets))

    def _marker(
        self, header: BatchHeader, marker: list[Outline], horizon: int | None, is_over: bool
    ) -> tuple[list[Outline], int | None]:
        if header.producer_id in self._has_records:
            self._has_records.discard(header.producer_id)
            return marker, None
        return ([], None) if is_over else (marker, horizon or self._horizon_ms)


class Repacker:
    """Turns surviving batches into the batches to be written, which cover the offsets from `base_offset` on without a
    gap."""

    def __init__(self, base_offset: int) -> None:
        self._next = base_offset
        self._plain: list[Record] = []
        self._plain_bytes = 0
        self._alike: tuple[int, int | None] = (0, None)
        """Leader epoch and delete horizon that the collected plain records share."""

    def take(self, batch: Batch, kept: Remainder | None) -> list[bytes]:
        """Return the batches that are finished once this one is known. Batches come in the order of the log."""
        if kept is None:
            return []
        header = batch.header
        outlines = kept.outlines
        size = batch.end - batch.start if outlines is None else sum([o.end - o.start for o in outlines])
        is_plain = header.producer_id == NO_PRODUCER and not header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON)
        if not is_plain or size >= ALONE_BYTES:
            return [*self.upto(header.base_offset, header.leader_epoch), self._alone(batch, kept)]
        alike = (header.leader_epoch, kept.delete_horizon_ms)
        finished: list[bytes] = []
        if (self._plain and alike != self._alike) or header.last_offset - self._next > RELATIVE_MAX:
            finished = self.upto(header.base_offset, self._alike[0])
        self._alike = alike
        self._plain += batch.records(batch.outlines if outlines is None else outlines)
        self._plain_bytes += size
        if self._plain_bytes >= MERGED_BYTES:
            finished += self.upto(header.next_offset, header.leader_epoch)
        return finished

    def upto(self, end_offset: int, leader_epoch: int) -> list[bytes]:
        """Return what has been collected, as batches that reach to `end_offset`."""
        finished: list[bytes] = []
        while self._next < end_offset:
            last = min(end_offset - 1, self._next + RELATIVE_MAX)
            finished.append(self._merge(last, self._alike[0] if self._plain else leader_epoch))
            self._next = last + 1
            self._plain, self._plain_bytes = [], 0
        return finished

    def _merge(self, last_offset: int, leader_epoch: int) -> bytes:
        records, horizon = self._plain, self._alike[1] if self._plain else None
        first = records[0].timestamp if records else NO_TIMESTAMP
        latest = max([record.timestamp for record in records], default=NO_TIMESTAMP)
        header = BatchHeader(
            base_offset=self._next, length=0, leader_epoch=leader_epoch, magic=MAGIC, crc=0,
            attributes=0 if horizon is None else DELETE_HORIZON, last_offset_delta=last_offset - self._next,
            base_timestamp=first if horizon is None else horizon, max_timestamp=latest,
            producer_id=NO_PRODUCER, producer_epoch=-1, base_sequence=NO_SEQUENCE, count=0,
        )  # fmt: skip
        return record_batch.rewrite(header, records)

    def _alone(self, batch: Batch, kept: Remainder) -> bytes:
        """Return a batch that keeps its header, because it is large, or says something of a producer or of its records'
        time."""
        header, outlines = batch.header, kept.outlines
        self._next = header.next_offset
        if outlines is None:
            assert batch.whole is not None, "what is kept as it is was not compressed"
            return batch.whole
        if kept.delete_horizon_ms != header.delete_horizon_ms:
            return self._with_horizon(batch, outlines, kept.delete_horizon_ms)
        if batch.whole is not None and len(outlines) == header.count:
            return batch.whole
        latest = max([o.timestamp for o in outlines], default=header.max_timestamp)
        attributes = header.attributes & ~COMPRESSION_MASK
        changed = msgspec.structs.replace(header, attributes=attributes, max_timestamp=latest, count=len(outlines))
        return record_batch.seal(changed, b"".join([batch.data[o.start : o.end] for o in outlines]))

    def _with_horizon(self, batch: Batch, outlines: list[Outline], horizon_ms: int | None) -> bytes:
        """Return the batch with another delete horizon, or none any more: timestamps are told from the base, which
        changes."""
        header = batch.header
        latest = max([o.timestamp for o in outlines], default=header.max_timestamp)
        attributes, base_timestamp = header.attributes | DELETE_HORIZON, horizon_ms
        if base_timestamp is None:
            attributes &= ~DELETE_HORIZON
            base_timestamp = outlines[0].timestamp if outlines else header.max_timestamp
        changed = msgspec.structs.replace(
            header, attributes=attributes, base_timestamp=base_timestamp, max_timestamp=latest
        )
        return record_batch.rewrite(changed, batch.records(outlines))
