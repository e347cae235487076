"""Logs as another broker leaves them after compactions: gaps between batches and between segments, batches of which
records or all records are gone, empty segments, leader epochs that rise, codecs, transactions and times of both kinds.

`GappedLog` is the simple model of such a log: its segments as lists of batches. All questions are answered by a look at
each batch.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import msgspec

from protocol import record_batch
from protocol.compression import Compression, Meter
from protocol.record_batch import DELETE_HORIZON, LOG_APPEND_TIME, MAGIC, TRANSACTIONAL, BatchHeader, header_at, place
from protocol.records import EndMarker, Record, read_end_marker
from storage.log import LogConfig
from storage.producers import AbortedTransaction
from storage.segment import file_name
from tests.storage.compressing import COMPRESS
from tests.storage.crashing_disk import CrashingDisk

DIRECTORY = "data/orders-0"
KEYS = [b"key %d" % number for number in range(5)]


class KnownBatch(msgspec.Struct, frozen=True):
    """A batch as it was written, and what is in it."""

    whole: bytes
    header: BatchHeader
    records: list[Record]

    @classmethod
    def of(cls, whole: bytes) -> KnownBatch:
        header = header_at(whole)
        assert header.size == len(whole), "one whole batch"
        return cls(whole, header, record_batch.read(whole, 0, header, Meter()))

    @property
    def end(self) -> int:
        return self.header.next_offset


class KnownSegment:
    """The batches of a file, and when it was written."""

    def __init__(self, base_offset: int, batches: Iterable[KnownBatch] = (), modified_ms: int = -1) -> None:
        self.base_offset = base_offset
        self.batches = list(batches)
        self.modified_ms = modified_ms

    @property
    def path(self) -> str:
        return f"{DIRECTORY}/{file_name(self.base_offset)}"

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else self.base_offset

    @property
    def size(self) -> int:
        return sum(len(batch.whole) for batch in self.batches)

    @property
    def latest_ms(self) -> int:
        times = [batch.header.max_timestamp for batch in self.batches]
        return max(times, default=-1) if max(times, default=-1) >= 0 else self.modified_ms


class GappedLog:
    """A log, batch by batch."""

    def __init__(self, segments: Iterable[KnownSegment], start: int) -> None:
        self.segments = list(segments)
        self.start = start
        self.learnt = self.batches
        """What the log has learnt of transactions from since it was opened; some of it may be deleted by now."""

    @property
    def end(self) -> int:
        return self.segments[-1].end

    @property
    def batches(self) -> list[KnownBatch]:
        return [batch for segment in self.segments for batch in segment.batches]

    def write(self, disk: CrashingDisk) -> None:
        for segment in self.segments:
            disk.put(segment.path, b"".join(batch.whole for batch in segment.batches))
            disk.open(segment.path).set_modified_ms(segment.modified_ms)

    def read(self, offset: int, max_bytes: int, *, min_one: bool, before: int | None) -> list[bytes]:
        """Return the batches of one segment, from the one that has the offset on, or the first behind it."""
        for segment in self.segments:
            left = [batch for batch in segment.batches if batch.end > offset]
            if left:
                return list(_take(left, max_bytes, min_one=min_one, before=2**63 if before is None else before))
        return []

    def append(self, batch: bytes, leader_epoch: int, segment_bytes: int) -> None:
        placed = KnownBatch.of(b"".join(place(batch, self.end, leader_epoch)))
        if self.segments[-1].batches and self.segments[-1].size + len(batch) > segment_bytes:
            self.roll()
        self.segments[-1].batches.append(placed)
        self.learnt.append(placed)

    def roll(self) -> None:
        if self.segments[-1].batches:
            self.segments.append(KnownSegment(self.end))

    def open(self) -> None:
        self.learnt = self.batches

    def delete_before(self, offset: int) -> None:
        """Kafka: a segment goes once the next one begins at or before the start of the log."""
        if offset == self.start:
            return
        if offset == self.end:
            self.roll()
        self.start = offset
        while len(self.segments) > 1 and self.segments[1].base_offset <= offset:
            del self.segments[0]

    def retain(self, now_ms: int, retention_ms: int, retention_bytes: int) -> None:
        upto, size = self.start, sum(segment.size for segment in self.segments)
        bases = [segment.base_offset for segment in self.segments]
        for segment, end in zip(self.segments, [*bases[1:], self.end], strict=True):
            is_old = retention_ms >= 0 and segment.latest_ms >= 0 and now_ms - segment.latest_ms > retention_ms
            is_surplus = retention_bytes >= 0 and size - segment.size >= retention_bytes
            is_last_and_empty = segment is self.segments[-1] and not segment.batches  # Kafka: `deletableSegments`
            if is_last_and_empty or not (is_old or is_surplus):
                break
            size -= segment.size
            upto = end
        self.delete_before(max(upto, self.start))

    def find_time(self, timestamp: int) -> tuple[int, int] | None:
        found = [(r.offset, r.timestamp) for batch in self.batches for r in batch.records if r.offset >= self.start]
        return next((one for one in found if one[1] >= timestamp), None)

    def find_latest(self) -> tuple[int, int] | None:
        """By the headers, as in Kafka: a batch without records may have the greatest time."""
        latest = max((batch.header.max_timestamp for batch in self.batches), default=-1)
        found = [(r.offset, r.timestamp) for batch in self.batches for r in batch.records]
        return None if latest < 0 else next((one for one in found if one[1] >= latest), None)

    def open_transactions(self) -> dict[int, int]:
        """Return the first offset of each, by producer id."""
        return self._transactions()[0]

    def aborted(self) -> list[AbortedTransaction]:
        return self._transactions()[1]

    def _transactions(self) -> tuple[dict[int, int], list[AbortedTransaction]]:
        begun: dict[int, int] = {}
        aborted = []
        for batch in self.learnt:
            header = batch.header
            if header.is_control:
                first = begun.pop(header.producer_id, None) if batch.records else None
                marker = read_end_marker(batch.records[0]) if batch.records else None
                if first is not None and marker is not None and not marker.commits:
                    stable = min(begun.values(), default=batch.end)
                    aborted.append(AbortedTransaction(header.producer_id, first, header.last_offset, stable))
            elif header.is_transactional and batch.records:
                begun.setdefault(header.producer_id, header.base_offset)
        return begun, [one for one in aborted if one.last_offset >= self.start]

    @property
    def stable(self) -> int:
        return max(min(self.open_transactions().values(), default=self.end), self.start)

    def read_committed(self, until: int) -> list[Record]:
        """Return the records of data before an offset, without those of transactions that were aborted."""
        aborted = self.aborted()
        found = []
        for batch in self.batches:
            header = batch.header
            is_out = header.is_transactional and any(
                one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
                for one in aborted
            )
            if not header.is_control and not is_out and batch.end <= until:
                found += batch.records
        return found


def _take(batches: Iterable[KnownBatch], room: int, *, min_one: bool, before: int) -> Iterator[bytes]:
    for number, batch in enumerate(batches):
        room -= len(batch.whole)
        if batch.header.base_offset >= before or (room < 0 and not (min_one and number == 0)):
            return
        yield batch.whole


def read_segments(disk: CrashingDisk) -> list[KnownSegment]:
    """Read the files as they are, by their names and lengths alone."""
    found = []
    for path in sorted(path for path in disk.contents() if path.startswith(DIRECTORY) and path.endswith(".log")):
        content = disk.contents()[path]
        batches = [content[at : at + header.size] for at, header in record_batch.batches(content)]
        base_offset = int(path.rpartition("/")[2].removesuffix(".log"))
        found.append(KnownSegment(base_offset, map(KnownBatch.of, batches)))
    return found


class Writer:
    """Writes batches as a broker has them after a compaction, by chance."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.offset = dice.randrange(4)
        self.epoch = dice.choice((-1, 0, 3))  # Kafka: -1 is of a broker that did not know epochs
        self.rises = dice.random() < 0.5
        self.has_times = dice.random() < 0.8
        self.open: list[int] = []
        self._producers = 0
        self._sequences: dict[int, int] = {}

    def log(self) -> GappedLog:
        segments = []
        for _ in range(self.dice.randint(1, 4)):
            segment = KnownSegment(self.offset, modified_ms=self.dice.choice((-1, 30, 60)))
            for _ in range(self.dice.choice((0, 1, 2, 2, 4))):
                self._skip()
                if self.rises and self.dice.random() < 0.4:
                    self.epoch += self.dice.randint(1, 3)
                segment.batches.append(KnownBatch.of(self.batch()))
                self.offset = segment.end
            segments.append(segment)
            if self.offset == segment.base_offset:
                self.offset += 1
            self._skip()
        return GappedLog(segments, segments[0].base_offset)

    def _skip(self) -> None:
        self.offset += self.dice.choice((0, 0, 0, 1, 5, 40))

    def batch(self) -> bytes:
        kind = self.dice.choice(("plain", "plain", "plain", "idempotent", "begin", "add", "end", "end"))
        if kind == "end" and self.open:
            producer_id = self.open.pop(self.dice.randrange(len(self.open)))
            marker = EndMarker(commits=self.dice.random() < 0.5)
            batch = record_batch.encode_marker(marker, self._time(), producer_id=producer_id, producer_epoch=0)
            return b"".join(place(batch, self.offset, self.epoch))
        span = self.dice.randint(1, 6)
        deltas = sorted(self.dice.sample(range(span), self.dice.randint(0 if self.dice.random() < 0.3 else 1, span)))
        attributes, producer_id, sequence = 0, -1, -1
        if kind == "begin" or (kind == "add" and self.open):
            if kind == "begin":
                self._producers += 1
                self.open.append(self._producers)
            attributes, producer_id = TRANSACTIONAL, self.open[-1]
        elif kind == "idempotent":
            producer_id = 1000 + self.dice.randrange(2)
        if producer_id >= 0:
            sequence = self._sequences.get(producer_id, 0)
            self._sequences[producer_id] = sequence + span
        return self._write(deltas, span, attributes, (producer_id, sequence))

    def _write(self, deltas: list[int], span: int, attributes: int, producer: tuple[int, int]) -> bytes:
        dice = self.dice
        times = {delta: self._time() for delta in deltas}
        latest = max(times.values(), default=self._time())
        if dice.random() < 0.2:
            attributes |= LOG_APPEND_TIME
        elif deltas and dice.random() < 0.1:
            attributes |= DELETE_HORIZON
        codec = dice.choice(list(Compression)) if deltas and dice.random() < 0.4 else Compression.NONE
        records = [
            Record(
                dice.choice(KEYS) if dice.random() < 0.9 else None,
                None if dice.random() < 0.2 else b"%d" % dice.randrange(1000),
                (("h", b"v"),) * dice.randrange(2),
                self.offset + delta,
                times[delta],
            )
            for delta in deltas
        ]
        header = BatchHeader(
            base_offset=self.offset, length=0, leader_epoch=self.epoch, magic=MAGIC, crc=0,
            attributes=attributes | codec, last_offset_delta=span - 1,
            base_timestamp=10**6 if attributes & DELETE_HORIZON else times.get(min(deltas, default=0), -1),
            max_timestamp=latest, producer_id=producer[0], producer_epoch=-1 if producer[0] < 0 else 0,
            base_sequence=producer[1], count=len(records),
        )  # fmt: skip
        return record_batch.seal(header, bytes(COMPRESS[codec](record_batch.write_records(header, records))))

    def _time(self) -> int:
        return self.dice.randrange(100) if self.has_times else -1


def config(dice: random.Random) -> LogConfig:
    """So that a compaction joins some segments and leaves others alone, and few or all batches have index entries."""
    return LogConfig(
        segment_bytes=dice.choice((200, 200, 600, 10**6)),
        index_interval_bytes=dice.choice((1, 150, 400, 4096)),
        delete_retention_ms=10**5,
    )
