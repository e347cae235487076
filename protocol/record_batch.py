"""RecordBatch v2, the unit of Kafka's logs, of Produce and of Fetch.

```
#   0            8        12      16      17       21           23                27          35         43
#   ┌────────────┬────────┬───────┬───────┬────────┬────────────┬─────────────────┬───────────┬──────────┐
#   │ baseOffset │ length │ epoch │ magic │ crc32c │ attributes │ lastOffsetDelta │ base time │ max time │ …
#   └────────────┴────────┴───────┴───────┴────────┴────────────┴─────────────────┴───────────┴──────────┘
#   43           51              53             57      61
#   ┌────────────┬───────────────┬──────────────┬───────┬─────────┐   length counts from byte 12 on.
#   │ producerId │ producerEpoch │ baseSequence │ count │ records │  crc32c covers byte 21 on: base offset, leader epoch
#   └────────────┴───────────────┴──────────────┴───────┴─────────┘  are the log's to write, and do not touch it.
#
#   attributes:  0-2 compression · 3 times are the log's · 4 transactional · 5 control · 6 base time is a delete horizon
```
The records themselves are in `protocol/records.py`. The header is a construct; its fast twin is derived from it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Protocol, TypeVar

import construct
import msgspec

from protocol import compression, records
from protocol.checksum import crc32c
from protocol.compression import Meter
from protocol.errors import BatchTooLarge, ProtocolError
from protocol.records import EndMarker, Record
from protocol.steps import finish_steps

Buffer = bytes | bytearray | memoryview
F = TypeVar("F", contravariant=True)

HEADER = construct.Struct(
    "base_offset" / construct.Int64sb,
    "length" / construct.Int32sb,
    "leader_epoch" / construct.Int32sb,
    "magic" / construct.Int8sb,
    "crc" / construct.Int32ub,
    "attributes" / construct.Int16sb,
    "last_offset_delta" / construct.Int32sb,
    "base_timestamp" / construct.Int64sb,
    "max_timestamp" / construct.Int64sb,
    "producer_id" / construct.Int64sb,
    "producer_epoch" / construct.Int16sb,
    "base_sequence" / construct.Int32sb,
    "count" / construct.Int32sb,
)
HEADER_FAST = struct.Struct(">" + "".join(field.subcon.fmtstr[-1] for field in HEADER.subcons))
"""The same thirteen numbers for the loops that read a batch in a microsecond; derived, so that it cannot differ."""

_ATTRIBUTES, _CRC, _OFFSET = struct.Struct(">h"), struct.Struct(">I"), struct.Struct(">q")
_NOT_CHECKED, _CHECKED = (struct.Struct(">" + part) for part in (HEADER_FAST.format[1:6], HEADER_FAST.format[6:]))
"""The header up to the crc, and what the crc covers of it."""
HEADER_BYTES: int = HEADER.sizeof()
PREFIX_BYTES = 12
"""Base offset and length: what must be there to know how long a batch is."""
CRC_FROM = 21
MAGIC = 2
NO_PRODUCER = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The 61 bytes before the records. Field order is the wire's."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where the batch after this one begins."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def append_time_ms(self) -> int | None:
        """The time of all its records, if the broker has set it (LogAppendTime), else None: they have their own."""
        return self.max_timestamp if self.attributes & LOG_APPEND_TIME else None

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on the tombstones of this batch may go; None while no compaction has seen them."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def header_at(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at `position`, its length and magic checked but not its crc. Raises `ProtocolError`."""
    if position + HEADER_BYTES > len(buffer):
        raise ProtocolError("a record batch is cut off in its header", offset=position)
    header = BatchHeader(*HEADER_FAST.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise ProtocolError(f"a record batch of magic {header.magic} instead of {MAGIC}", offset=position)
    if header.size < HEADER_BYTES:
        raise ProtocolError(f"a record batch of {header.size} bytes", offset=position)
    return header


def batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield each batch's position and header, to the end of the buffer. A batch that is not whole raises
    `ProtocolError`."""
    while position < len(buffer):
        header = header_at(buffer, position)
        if position + header.size > len(buffer):
            raise ProtocolError(f"a record batch of {header.size} bytes is cut off", offset=position)
        yield position, header
        position += header.size


def crc_of(buffer: Buffer, position: int, size: int) -> int:
    """Return the checksum that the batch at `position` ought to have."""
    return crc32c(memoryview(buffer)[position + CRC_FROM : position + size])


def is_intact(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    return crc_of(buffer, position, header.size) == header.crc


def read(buffer: bytes, position: int, header: BatchHeader, meter: Meter) -> list[Record]:
    """Return the records of the batch at `position`, unpacked at the cost of `meter`. Raises `ProtocolError`."""
    buffer, start, end = plain(buffer, position, header, meter)
    found = records.read(buffer, start, end, header.count, header.base_offset, header.base_timestamp)
    return found if header.append_time_ms is None else with_time(found, header.append_time_ms)


T = TypeVar("T", Record, records.Outline)


def with_time(found: list[T], time_ms: int) -> list[T]:
    """Return the records with the time that the broker has given to their batch."""
    return [msgspec.structs.replace(one, timestamp=time_ms) for one in found]


PlainRecords = tuple[bytes, int, int]
"""A buffer, where the records of a batch start in it, and where they end."""


def plain(buffer: bytes, position: int, header: BatchHeader, meter: Meter) -> PlainRecords:
    """Return the records of the batch at `position` in one step, for callers that may block. Raises `ProtocolError`."""
    return finish_steps(plain_in_steps(buffer, position, header, meter))


def plain_in_steps(
    buffer: bytes, position: int, header: BatchHeader, meter: Meter, limit: int = compression.DECOMPRESSED_BYTES_MAX
) -> Generator[None, None, PlainRecords]:
    """Return the records of the batch at `position`, unpacked to at most `limit` bytes. Raises `ProtocolError`."""
    start, end = position + HEADER_BYTES, position + header.size
    if not header.attributes & COMPRESSION_MASK or not header.count:
        return buffer, start, end
    unpacked = yield from compression.unpack_in_steps(header.compression, buffer[start:end], limit, meter)
    return unpacked, 0, len(unpacked)


def encode(
    facts: Sequence[Record],
    *,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Return a batch of these records one offset after the other from `base_offset`, whatever their own `offset`
    says."""
    if not facts:
        raise ProtocolError("a record batch without records")
    base = facts[0].timestamp
    written = [records.write(fact, delta, fact.timestamp - base) for delta, fact in enumerate(facts)]
    attributes = (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    return seal(
        BatchHeader(
            base_offset, 0, 0, MAGIC, 0, attributes, len(facts) - 1, base, max([fact.timestamp for fact in facts]),
            producer_id, producer_epoch, base_sequence, len(facts),
        ),
        b"".join(written),
    )  # fmt: skip


class Writer(Protocol[F]):
    """Writes facts as records of a batch, of which the first one has these deltas of offset and timestamp."""

    def __call__(self, facts: F, offset_delta: int, timestamp_delta: int, /) -> tuple[bytes, int]:
        """Return the records, and how many they are."""


_ALWAYS_TAKEN_BYTES = 1024


class PlainBatch:
    """A batch without a producer that grows by records in their written form."""

    __slots__ = ("_base_ms", "_max_ms", "_written", "count")

    def __init__(self, base_ms: int) -> None:
        self._base_ms = self._max_ms = base_ms
        self.count = 0
        self._written: list[bytes] = []

    def extend(
        self, write: Writer[F], facts: F, timestamp: int, may_take: Callable[[F, int], bool] | None = None
    ) -> None:
        """Add facts as records. If `write` raises, nothing is added.

        Raises BatchTooLarge, and adds nothing, where `may_take` says no to facts of so many bytes. It is not asked
        about few bytes.
        """
        written, count = write(facts, self.count, timestamp - self._base_ms)
        if len(written) > _ALWAYS_TAKEN_BYTES and may_take is not None and not may_take(facts, len(written)):
            raise BatchTooLarge(f"records of {len(written)} bytes")
        self._written.append(written)
        self.count += count
        if timestamp > self._max_ms:
            self._max_ms = timestamp

    def seal(self) -> bytes:
        """Return the batch."""
        count = self.count
        numbers = 0, count - 1, self._base_ms, self._max_ms, NO_PRODUCER, -1, NO_SEQUENCE, count
        return _join(0, 0, MAGIC, _CHECKED.pack(*numbers), b"".join(self._written))


def encode_marker(
    marker: EndMarker, timestamp: int, *, producer_id: int, producer_epoch: int, base_offset: int = 0
) -> bytes:
    """Return the control batch that ends a producer's transaction."""
    return encode(
        [records.end_marker(marker, timestamp)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def stamp(batch: bytes, attributes: int, max_timestamp: int) -> bytes:
    """Return the batch with these attributes and this greatest time, and the checksum over them; the records stay."""
    raw = bytearray(batch)
    _ATTRIBUTES.pack_into(raw, 21, attributes)
    _OFFSET.pack_into(raw, 35, max_timestamp)
    _CRC.pack_into(raw, 17, crc_of(raw, 0, len(raw)))
    return bytes(raw)


def rewrite(header: BatchHeader, survivors: Sequence[Record]) -> bytes:
    """Write the batch of `header` with only these of its records, at their own offsets; it spans what the header spans.

    The caller sets `base_timestamp` and the delete horizon in the header; compression is dropped, the rest is kept.
    With no survivors the batch is empty: compaction leaves those where only offsets or a producer's sequence matter.
    """
    attributes = header.attributes & ~COMPRESSION_MASK
    changed = msgspec.structs.replace(header, attributes=attributes, count=len(survivors))
    return seal(changed, write_records(header, survivors))


def write_records(header: BatchHeader, survivors: Sequence[Record]) -> bytes:
    """Write records below a header, at their own offsets and times."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    return b"".join([records.write(r, r.offset - base_offset, r.timestamp - base_timestamp) for r in survivors])


def seal(header: BatchHeader, body: bytes) -> bytes:
    """Write header and records, with their length and crc."""
    checked = _CHECKED.pack(*msgspec.structs.astuple(header)[5:])
    return _join(header.base_offset, header.leader_epoch, header.magic, checked, body)


def _join(base_offset: int, leader_epoch: int, magic: int, checked: bytes, body: bytes) -> bytes:
    """Join the parts of a batch: `checked` is what the crc covers of the header."""
    crc = crc32c(body, crc32c(checked))
    length = HEADER_BYTES - PREFIX_BYTES + len(body)
    return b"".join((_NOT_CHECKED.pack(base_offset, length, leader_epoch, magic, crc), checked, body))


_EPOCH = struct.Struct(">i")


def place(batch: Buffer, base_offset: int, leader_epoch: int) -> tuple[bytes, Buffer, bytes, Buffer]:
    """Move a batch to another offset. Returns parts to be joined: records and crc are unchanged."""
    view = memoryview(batch)
    return _OFFSET.pack(base_offset), view[8:12], _EPOCH.pack(leader_epoch), view[16:]
