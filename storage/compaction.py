"""What survives a compaction, as pure functions of batches: no file, no clock. `cleaner.py` carries it out.

The plan. Walk the part of the log that is new since the last time and note the latest offset of every key. Then walk
all of it from the start and keep, of each batch, the records that are their key's latest. Beside that:
- A tombstone is kept for `delete.retention.ms` from the first compaction that sees it, so that every reader can hear
of it.
- Records of aborted transactions go. Records of committed ones are records like any other, but they need their end
marker: it
  stays as long as one of them does, and for `delete.retention.ms` more. Undecided transactions are past the last stable
  offset, where no compaction goes.
- The last batch of each producer stays, if only as an empty batch, because it says which sequence comes next.
- Keys and values are never looked into: records of types that nobody here knows survive like all others.

Survivors keep their offsets, and the batches cover all offsets without a gap: where nothing is left of a batch, its
neighbour or an empty batch spans its offsets. So the base offset of every batch is told by the one before, which is
what makes damage to it visible (it is not covered by the checksum). Plain batches next to each other become one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from protocol import record_batch
from protocol.record_batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    MAGIC,
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
)
from protocol.records import Record
from storage.producers import Aborted, Producers

MERGED_BYTES = 16 * 1024
_SPAN_MAX = 2**31 - 1


class Decided(msgspec.Struct, frozen=True):
    """The transactions and producers of a log at the start of a compaction; all its transactions are decided."""

    aborted: Mapping[int, list[Aborted]]
    last_offsets: frozenset[int]
    """Where the last batch of each producer ends."""

    @classmethod
    def of(cls, producers: Producers) -> Decided:
        aborted: dict[int, list[Aborted]] = {}
        for transaction in producers.aborted:
            aborted.setdefault(transaction.producer_id, []).append(transaction)
        last = {offset for _, producer in producers.items() for offset in producer.last_offsets}
        return cls(aborted, frozenset(last))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to an aborted transaction."""
        transactions = self.aborted.get(header.producer_id, ()) if header.is_transactional else ()
        return any(t.first_offset <= header.base_offset <= t.last_offset for t in transactions)


def note_latest(latest: dict[bytes, int], header: BatchHeader, records: list[Record], decided: Decided) -> None:
    """Note the offsets of the keys of a batch, which comes after all that were noted before."""
    if not header.is_control and not decided.is_aborted(header):
        latest.update([(record.key, record.offset) for record in records if record.key is not None])


class Kept(msgspec.Struct, frozen=True):
    """What is left of a batch; a batch without records is kept for its header."""

    records: list[Record]
    delete_horizon_ms: int | None


class Survivors:
    """Asked batch by batch, from the start of the log on: it follows which transactions still have records."""

    def __init__(self, latest: Mapping[bytes, int], decided: Decided, now_ms: int, delete_retention_ms: int) -> None:
        self._latest, self._decided = latest, decided
        self._now_ms, self._horizon_ms = now_ms, now_ms + delete_retention_ms
        self._has_records: set[int] = set()
        """Producers of whose current transaction a record has survived."""

    def of(self, header: BatchHeader, records: list[Record]) -> Kept | None:
        """What of the batch survives; None for a batch of which nothing need be known any more."""
        horizon = header.delete_horizon_ms
        is_over = horizon is not None and horizon <= self._now_ms
        if header.is_control:
            kept, horizon = self._marker(header, records, horizon, is_over)
        elif self._decided.is_aborted(header):
            kept = []
        else:
            latest = self._latest.get
            kept = [
                record
                for record in records
                if record.key is not None
                and latest(record.key, -1) <= record.offset
                and not (is_over and record.value is None)
            ]
            if kept and header.is_transactional:
                self._has_records.add(header.producer_id)
            if horizon is None and any(record.value is None for record in kept):
                horizon = self._horizon_ms
        if not kept and header.last_offset not in self._decided.last_offsets:
            return None
        return Kept(kept, None if is_over or not kept else horizon)

    def _marker(
        self, header: BatchHeader, records: list[Record], horizon: int | None, is_over: bool
    ) -> tuple[list[Record], int | None]:
        if header.producer_id in self._has_records:
            self._has_records.discard(header.producer_id)
            return records, None
        return ([], None) if is_over else (records, horizon or self._horizon_ms)


class Repacker:
    """Turns surviving batches into the batches to be written, which cover the offsets from `base_offset` on without a
    gap."""

    def __init__(self, base_offset: int) -> None:
        self._next = base_offset
        self._plain: list[Record] = []
        self._plain_bytes = 0
        self._alike: tuple[int, int | None] = (0, None)
        """Leader epoch and delete horizon that the collected plain records share."""

    def take(self, header: BatchHeader, kept: Kept | None) -> list[bytes]:
        """The batches that are finished once this one is known. Batches come in the order of the log."""
        if kept is None:
            return []
        if header.producer_id != NO_PRODUCER or header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON):
            return [*self.upto(header.base_offset, header.leader_epoch), self._own(header, kept)]
        alike = (header.leader_epoch, kept.delete_horizon_ms)
        finished: list[bytes] = []
        if self._plain and (alike != self._alike or header.last_offset - self._next > _SPAN_MAX):
            finished = self.upto(header.base_offset, self._alike[0])
        self._alike = alike
        self._plain += kept.records
        self._plain_bytes += sum([len(record.key or b"") + len(record.value or b"") for record in kept.records])
        if self._plain_bytes >= MERGED_BYTES:
            finished += self.upto(header.next_offset, header.leader_epoch)
        return finished

    def upto(self, end_offset: int, leader_epoch: int) -> list[bytes]:
        """What has been collected, as batches that reach to `end_offset`."""
        finished: list[bytes] = []
        while self._next < end_offset:
            last = min(end_offset - 1, self._next + _SPAN_MAX)
            finished.append(self._merged(last, self._alike[0] if self._plain else leader_epoch))
            self._next = last + 1
            self._plain, self._plain_bytes = [], 0
        return finished

    def _merged(self, last_offset: int, leader_epoch: int) -> bytes:
        records, horizon = self._plain, self._alike[1] if self._plain else None
        first = records[0].timestamp if records else NO_TIMESTAMP
        latest = max([record.timestamp for record in records], default=NO_TIMESTAMP)
        header = BatchHeader(
            base_offset=self._next, length=0, leader_epoch=leader_epoch, magic=MAGIC, crc=0,
            attributes=0 if horizon is None else DELETE_HORIZON, last_offset_delta=last_offset - self._next,
            base_timestamp=first if horizon is None else horizon, max_timestamp=latest,
            producer_id=NO_PRODUCER, producer_epoch=-1, base_sequence=NO_SEQUENCE, count=0,
        )  # fmt: skip
        return record_batch.rewritten(header, records)

    def _own(self, header: BatchHeader, kept: Kept) -> bytes:
        """A batch that keeps its header, because it says something of a producer or of its records' time."""
        self._next = header.next_offset
        attributes = header.attributes & ~DELETE_HORIZON
        base_timestamp = header.base_timestamp
        if header.delete_horizon_ms is not None:
            base_timestamp = kept.records[0].timestamp if kept.records else header.max_timestamp
        if kept.delete_horizon_ms is not None:
            attributes, base_timestamp = attributes | DELETE_HORIZON, kept.delete_horizon_ms
        changed = msgspec.structs.replace(header, attributes=attributes, base_timestamp=base_timestamp)
        return record_batch.rewritten(changed, kept.records)
