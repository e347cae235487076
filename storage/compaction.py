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
A batch of which nothing goes stays as it came, and is not unpacked where its marks say so. What is left of a packed one
is packed again in the same way: otherwise a megabyte of a client could become gigabytes on the disk.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import attrgetter, le

import msgspec

from protocol import compression, record_batch, records
from protocol.compression import Meter
from protocol.record_batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    MAGIC,
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    PlainRecords,
)
from protocol.records import Outline, Portion, Record
from storage.index import RELATIVE_MAX
from storage.producers import AbortedTransaction, Producers

MERGED_BYTES = 16 * 1024
ALONE_BYTES = 512
"""From so many bytes of survivors on a plain batch stays a batch of its own: its header is then a small part of it."""
PORTION_RECORDS = 4_000
"""So many records of one batch are looked at in one step."""
STEP_KEYS = 20_000
"""So many are marked between two looks at what else there is to do: a millisecond or two."""
MARKED_MAX = 16_000_000
"""So many offsets have a mark each, a byte, that says whether they are their key's latest. Where a log that others have
compacted leaves out more than that, its batches are looked into."""
TIME_MAX = 2**62
"""Times within this, on both sides of zero, are told from any other such time in 64 bits. Others keep their base."""

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


class Batch:
    """A batch as compaction sees it: as it came, and, where somebody must look into it, its records in plain bytes."""

    __slots__ = ("_plain", "header", "whole")

    def __init__(self, chunk: bytes, at: int, header: BatchHeader) -> None:
        self.header = header
        self.whole = chunk[at : at + header.size]
        self._plain: PlainRecords | None = None

    def unpack(self, meter: Meter) -> Generator[None, None, None]:
        """Make the records ready to be looked at. Raises `ProtocolError`."""
        if self._plain is None:
            self._plain = yield from record_batch.plain_in_steps(self.whole, 0, self.header, meter)

    @property
    def is_packed(self) -> bool:
        return bool(self.header.compression)

    @property
    def plain(self) -> PlainRecords:
        """The records, which must have been unpacked if they were packed."""
        if self._plain is None:
            assert not self.is_packed, "the records are unpacked before they are looked at"
            return self.whole, HEADER_BYTES, self.header.size
        return self._plain

    @property
    def plain_bytes(self) -> int:
        _, start, end = self.plain
        return end - start

    def portions(self) -> Iterator[Portion]:
        """Divide the records into portions that are looked at in one step."""
        data, start, end = self.plain
        return records.portions(data, start, end, self.header.count, PORTION_RECORDS)

    def read_keys(self, portion: Portion) -> tuple[list[bytes], list[int]] | None:
        """Keys and offsets, where every record has a key and a value, which is so in nearly every batch."""
        found = records.read_keys(self.plain[0], *portion)
        if found is None:
            return None
        base_offset = self.header.base_offset
        return found[0], [base_offset + place for place in found[1]]

    def outlines(self, portion: Portion) -> list[Outline]:
        """Return the outlines of some records. Raises `ProtocolError` for records that cannot be read."""
        base_offset, base_timestamp = self.header.base_offset, self.header.base_timestamp
        found = records.outlines(self.plain[0], *portion, base_offset, base_timestamp)
        time_ms = self.header.append_time_ms
        return found if time_ms is None else record_batch.with_time(found, time_ms)

    def all_outlines(self) -> list[Outline]:
        """Return the outlines of all records of a batch that is known to be small."""
        _, start, end = self.plain
        return self.outlines((start, end, self.header.count))

    def records(self, kept: list[Outline]) -> list[Record]:
        base_offset, base_timestamp = self.header.base_offset, self.header.base_timestamp
        data = self.plain[0]
        found = [records.read(data, o.start, o.end, 1, base_offset, base_timestamp)[0] for o in kept]
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

    def note(self, batch: Batch, decided: DecidedTransactions, meter: Meter) -> Iterator[None]:
        """Note the keys of the next batch; each `next` is a short step."""
        header = batch.header
        self.pass_over(header)
        if header.is_control or decided.is_aborted(header):
            return
        yield from batch.unpack(meter)
        for number, portion in enumerate(batch.portions()):
            if number:
                yield
            keyed = batch.read_keys(portion)
            if keyed is None:
                self.mixed.add(header.base_offset)
                outlines = batch.outlines(portion)
                self.latest.update([(outline.key, outline.offset) for outline in outlines if outline.key is not None])
            else:
                self.latest.update(zip(*keyed, strict=True))

    def extend(self, later: KeyIndex) -> None:
        """Add what is known of the batches behind these."""
        self.offsets = range(self.offsets.start, max(self.offsets.stop, later.offsets.stop))
        self.latest |= later.latest
        self.mixed |= later.mixed
        self.control += later.control
        self.epochs |= later.epochs

    def set_marks(self, decided: DecidedTransactions) -> Iterator[None]:
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
        self._now_ms, self._horizon_ms = now_ms, min(now_ms + delete_retention_ms, TIME_MAX)
        self._has_records: set[int] = set()
        """Producers of whose current transaction a record has survived."""

    def has_any(self, header: BatchHeader) -> bool:
        """Return whether something of a batch may survive, told without looking into it: most of what is new is
        dead."""
        return self._key_index.count(header) != 0 or header.last_offset in self._decided.last_offsets

    def next_stop(self, offset: int) -> int:
        """Return the first offset from `offset` on of which something may survive, told without reading the log."""
        return self._key_index.next_stop(offset)

    def of(self, batch: Batch, meter: Meter) -> Generator[None, None, Remainder | None]:
        """Return what of the batch survives; None for a batch of which nothing need be known any more."""
        header = batch.header
        is_left_alone = self._is_left_alone_by_marks(header)
        if is_left_alone is None:
            yield from batch.unpack(meter)
            is_left_alone = yield from self._is_left_alone(batch)
        if is_left_alone:
            if header.is_transactional:
                self._has_records.add(header.producer_id)
            return _AS_IT_IS
        yield from batch.unpack(meter)
        horizon = header.delete_horizon_ms
        is_over = horizon is not None and horizon <= self._now_ms
        if header.is_control:
            kept, horizon = self._marker(header, batch.all_outlines(), horizon, is_over)
        elif self._decided.is_aborted(header):
            kept = []
        else:
            kept = yield from self._select(batch, keeps_tombstones=not is_over)
            if kept and header.is_transactional:
                self._has_records.add(header.producer_id)
            if horizon is None and any(o.is_tombstone for o in kept) and _are_near(kept):
                horizon = self._horizon_ms
        if not kept and header.last_offset not in self._decided.last_offsets:
            return None
        return Remainder(kept, None if is_over or not kept else horizon)

    def _select(self, batch: Batch, *, keeps_tombstones: bool) -> Generator[None, None, list[Outline]]:
        """Select the records that are the latest of their keys."""
        latest = self._key_index.latest.get
        kept: list[Outline] = []
        for number, portion in enumerate(batch.portions()):
            if number:
                yield
            found = batch.outlines(portion)
            found = [o for o in found if o.key is not None and latest(o.key, -1) <= o.offset]
            kept += found if keeps_tombstones else [o for o in found if not o.is_tombstone]
        return kept

    def _is_left_alone_by_marks(self, header: BatchHeader) -> bool | None:
        """Return whether the batch is copied as it is, told without looking into it; None where that cannot be told."""
        if header.is_control or header.attributes & DELETE_HORIZON or not header.count:
            return False
        if header.base_offset in self._key_index.mixed or self._decided.is_aborted(header):
            return False
        count = self._key_index.count(header)
        return None if count is None else count == header.count

    def _is_left_alone(self, batch: Batch) -> Generator[None, None, bool]:
        """Return whether the batch has no tombstone, and no key has a later value."""
        for number, portion in enumerate(batch.portions()):
            if number:
                yield
            if (keyed := batch.read_keys(portion)) is None:
                return False
            keys, offsets = keyed
            if not all(map(le, map(self._key_index.latest.get, keys, repeat(-1)), offsets)):
                return False
        return True

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

    def take(self, batch: Batch, kept: Remainder | None, meter: Meter) -> Generator[None, None, list[bytes]]:
        """Return the batches that are finished once this one is known. Batches come in the order of the log."""
        if kept is None:
            return []
        header = batch.header
        outlines = kept.outlines
        found: list[Record] = []
        is_merged = self._may_be_merged(batch, outlines)
        if is_merged:
            found = batch.records(batch.all_outlines() if outlines is None else outlines)
        if not (is_merged and _are_near(found)):
            finished = self.upto(header.base_offset, header.leader_epoch)
            return [*finished, (yield from self._alone(batch, kept, meter))]
        alike = (header.leader_epoch, kept.delete_horizon_ms)
        finished = []
        if (self._plain and alike != self._alike) or header.last_offset - self._next > RELATIVE_MAX:
            finished = self.upto(header.base_offset, self._alike[0])
        self._alike = alike
        self._plain += found
        self._plain_bytes += batch.plain_bytes if outlines is None else sum([o.end - o.start for o in outlines])
        if self._plain_bytes >= MERGED_BYTES:
            finished += self.upto(header.next_offset, header.leader_epoch)
        return finished

    @staticmethod
    def _may_be_merged(batch: Batch, outlines: list[Outline] | None) -> bool:
        """Return whether what is left of a batch is little, and says nothing of a producer or of its records' time."""
        header = batch.header
        if header.producer_id != NO_PRODUCER or header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON):
            return False
        if outlines is None:
            return not batch.is_packed and batch.plain_bytes < ALONE_BYTES
        return sum([o.end - o.start for o in outlines]) < ALONE_BYTES

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

    def _alone(self, batch: Batch, kept: Remainder, meter: Meter) -> Generator[None, None, bytes]:
        """Return a batch that keeps its header, because it is large, or says something of a producer or of its records'
        time."""
        header, outlines = batch.header, kept.outlines
        self._next = header.next_offset
        is_same = kept.delete_horizon_ms == header.delete_horizon_ms
        if outlines is None or (is_same and len(outlines) == header.count):
            return batch.whole
        latest = max([o.timestamp for o in outlines], default=header.max_timestamp)
        changed = msgspec.structs.replace(header, max_timestamp=latest, count=len(outlines))
        if is_same:
            pieces = _copy_records(batch, outlines)
        else:
            changed = _with_horizon(changed, outlines, kept.delete_horizon_ms)
            pieces = _rewrite_records(batch, outlines, changed)
        if not (batch.is_packed and outlines):
            plain = msgspec.structs.replace(changed, attributes=changed.attributes & ~COMPRESSION_MASK)
            return record_batch.seal(plain, b"".join(pieces))
        packed = yield from compression.pack_in_steps(header.compression, pieces, meter)
        return record_batch.seal(changed, packed)


def _are_near(found: Sequence[Outline] | Sequence[Record]) -> bool:
    """Return whether each time can be told from another base: a producer may choose any."""
    return all(-TIME_MAX < one.timestamp < TIME_MAX for one in found)


def _with_horizon(header: BatchHeader, outlines: list[Outline], horizon_ms: int | None) -> BatchHeader:
    """Return the header with another delete horizon, or none any more: times are told from the base, which changes."""
    attributes, base_timestamp = header.attributes | DELETE_HORIZON, horizon_ms
    if base_timestamp is None:
        attributes &= ~DELETE_HORIZON
        base_timestamp = outlines[0].timestamp if outlines else header.max_timestamp
    return msgspec.structs.replace(header, attributes=attributes, base_timestamp=base_timestamp)


def _copy_records(batch: Batch, outlines: list[Outline]) -> Iterator[bytes]:
    """Yield the bytes of these records, some at a time."""
    data = batch.plain[0]
    for some in _batches(outlines):
        yield b"".join([data[o.start : o.end] for o in some])


def _rewrite_records(batch: Batch, outlines: list[Outline], header: BatchHeader) -> Iterator[bytes]:
    """Yield these records as they are written below another header, some at a time."""
    for some in _batches(outlines):
        yield record_batch.write_records(header, batch.records(some))


def _batches(outlines: list[Outline]) -> Iterable[list[Outline]]:
    return (outlines[at : at + PORTION_RECORDS] for at in range(0, len(outlines), PORTION_RECORDS))
