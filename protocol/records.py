"""The records inside a RecordBatch v2: varints, keys, values, headers, and the control records of transactions.

```
#   ┌────────┬────────────┬────────────────┬─────────────┬─────┬─────┬───────┬───────┬─────────┬─────────┐
#   │ length │ attributes │ timestampDelta │ offsetDelta │ len │ key │  len  │ value │ headers │ headers │
#   │ varint │    i8 = 0  │    varlong     │   varint    │ var │  …  │  var  │   …   │  count  │    …    │  × count
#   └────────┴────────────┴────────────────┴─────────────┴─────┴─────┴───────┴───────┴─────────┴─────────┘
```
`length` counts what follows it. A length of -1 is null. Deltas are against the batch's base offset and base timestamp.
Varints are zigzag: 0, -1, 1, -2 are 0, 1, 2, 3 in groups of seven bits, the lowest first. This file is on the way
of every commit (write) and of every record at start-up (read): that is why its two loops are written out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from protocol.errors import ProtocolError

Headers = tuple[tuple[str, bytes | None], ...]
RECORD_BYTES_MIN = 7
"""The smallest record: its length, attributes, two deltas, null key, null value and no headers, a byte each."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One fact of a log. `offset` and `timestamp` (ms) are absolute; header names escape what is not UTF-8."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    offset: int = 0
    timestamp: int = 0


def varint(number: int) -> bytes:
    """`number` as a zigzag varint of at most ten bytes; int32 and int64 have the same form."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_SMALL = 1024
VARINTS = tuple(varint(number) for number in range(_SMALL))
"""Those of the smallest numbers, which nearly all are."""


def _write_varint(number: int) -> bytes:
    return VARINTS[number] if 0 <= number < _SMALL else varint(number)


def write(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    """Return the record's bytes, its length before them."""
    key, value, small = record.key, record.value, VARINTS
    key_bytes = -1 if key is None else len(key)
    value_bytes = -1 if value is None else len(value)
    body = b"".join((
        b"\0",
        small[timestamp_delta] if 0 <= timestamp_delta < _SMALL else varint(timestamp_delta),
        small[offset_delta] if offset_delta < _SMALL else varint(offset_delta),
        small[key_bytes] if 0 <= key_bytes < _SMALL else varint(key_bytes),
        key or b"",
        small[value_bytes] if 0 <= value_bytes < _SMALL else varint(value_bytes),
        value or b"",
        _write_headers(record.headers) if record.headers else b"\0",
    ))  # fmt: skip
    size = len(body)
    return (small[size] if size < _SMALL else varint(size)) + body


def _write_headers(headers: Headers) -> bytes:
    parts = [_write_varint(len(headers))]
    for name, value in headers:
        raw = name.encode("utf-8", "surrogateescape")
        parts += (_write_varint(len(raw)), raw)
        parts += (b"\1",) if value is None else (_write_varint(len(value)), value)
    return b"".join(parts)


_FOUR_BYTES = struct.Struct("4B")


def read(data: bytes, position: int, end: int, count: int, base_offset: int, base_timestamp: int) -> list[Record]:
    """Return the `count` records of `data[position:end]`. Raises `ProtocolError` unless they fill it exactly."""
    if not 0 <= count * RECORD_BYTES_MIN <= end - position:
        raise ProtocolError(f"{count} records do not fit in {end - position} bytes", path="records", offset=position)
    records: list[Record] = []
    append = records.append
    four_bytes = _FOUR_BYTES.unpack_from  # attributes, and most often all of both deltas and the length of the key
    try:
        for _ in range(count):
            length = data[position]
            position += 1
            if length & 0x80:  # most records are of 64 to 8191 bytes, which takes two
                length, position = length & 0x7F | data[position] << 7, position + 1
                if length & 0x4000:
                    length, position = finish_varint(data, position - 1, data[position - 2], 5)
            stop = position + (length >> 1)
            if length & 1 or stop > end:
                raise ProtocolError("a record reaches beyond its batch", path="records", offset=position)

            _, timestamp, delta, size = four_bytes(data, position)  # nobody looks at the attributes
            if (timestamp | delta | size) & 0x80:
                timestamp, position = _raw(data, position + 1, 10)
                delta, position = _raw(data, position, 5)
                size, position = _raw(data, position, 5)
            else:
                position += 4
            if size & 1:
                if size != 1:
                    raise _negative(size, position)
                key = None
            else:
                after = position + (size >> 1)
                key = data[position:after]
                position = after

            size = data[position]
            position += 1
            if size & 0x80:
                size, position = finish_varint(data, position, size, 5)
            if size & 1:
                if size != 1:
                    raise _negative(size, position)
                value = None
            else:
                after = position + (size >> 1)
                value = data[position:after]
                position = after

            headers: Headers = ()
            if data[position]:
                headers, position = _headers(data, position, stop)
            else:
                position += 1
            if position != stop:
                raise ProtocolError("a record's length is not that of its fields", path="records", offset=position)
            append(
                Record(
                    key,
                    value,
                    headers,
                    base_offset + ((delta >> 1) ^ -(delta & 1)),
                    base_timestamp + ((timestamp >> 1) ^ -(timestamp & 1)),
                )
            )
    except IndexError:
        raise ProtocolError("a record is cut off", path="records", offset=position) from None
    if position != end:
        raise ProtocolError(f"{end - position} bytes after the last record", path="records", offset=position)
    return records


class Outline(msgspec.Struct, frozen=True, gc=False):
    """What compaction asks of a record, and where the record's bytes are; they are not looked into."""

    key: bytes | None
    offset: int
    timestamp: int
    is_tombstone: bool
    start: int
    end: int


def outlines(data: bytes, position: int, end: int, count: int, base_offset: int, base_timestamp: int) -> list[Outline]:
    """Return the outlines of the `count` records of `data[position:end]`. Raises `ProtocolError` as `read` does."""
    if not 0 <= count * RECORD_BYTES_MIN <= end - position:
        raise ProtocolError(f"{count} records do not fit in {end - position} bytes", path="records", offset=position)
    found: list[Outline] = []
    append = found.append
    try:
        for _ in range(count):
            start = position
            length = data[position]
            position += 1
            if length & 0x80:  # most records are of 64 to 8191 bytes, which takes two
                length, position = length & 0x7F | data[position] << 7, position + 1
                if length & 0x4000:
                    length, position = finish_varint(data, position - 1, data[position - 2], 5)
            stop = position + (length >> 1)
            timestamp = data[position + 1]  # after the attributes, which no reader looks at
            position += 2
            if timestamp & 0x80:
                timestamp, position = finish_varint(data, position, timestamp, 10)
            delta = data[position]
            position += 1
            if delta & 0x80:
                delta, position = finish_varint(data, position, delta, 5)
            size = data[position]
            position += 1
            if size & 0x80:
                size, position = finish_varint(data, position, size, 5)
            key_end = position if size & 1 else position + (size >> 1)
            if length & 1 or not key_end < stop <= end:
                raise ProtocolError("a record reaches beyond its batch", path="records", offset=position)
            append(
                Outline(
                    None if size & 1 else data[position:key_end],
                    base_offset + ((delta >> 1) ^ -(delta & 1)),
                    base_timestamp + ((timestamp >> 1) ^ -(timestamp & 1)),
                    data[key_end] == 1,  # the length of the value: -1
                    start,
                    stop,
                )
            )
            position = stop
    except IndexError:
        raise ProtocolError("a record is cut off", path="records", offset=position) from None
    if position != end:
        raise ProtocolError(f"{end - position} bytes after the last record", path="records", offset=position)
    return found


Portion = tuple[int, int, int]
"""Where some of a batch's records start, where they end, and how many they are."""


def portions(data: bytes, position: int, end: int, count: int, most: int) -> Iterator[Portion]:
    """Divide `count` records into portions of at most `most`, by their lengths alone. The last one reaches to `end`."""
    while count > most:
        start = position
        try:
            for _ in range(most):
                length, position = read_varint(data, position)
                position += length
        except IndexError:
            raise ProtocolError("a record is cut off", path="records", offset=position) from None
        if not start < position <= end:
            raise ProtocolError("a record reaches beyond its batch", path="records", offset=position)
        yield start, position, most
        count -= most
    yield position, end, count


def read_keys(data: bytes, position: int, end: int, count: int) -> tuple[list[bytes], list[int]] | None:
    """Read the keys of the records of `data[position:end]`, and their offsets from the batch's base.

    None where a record has no key or no value, and where something is wrong: then `outlines` says more. It costs twice
    as much, and nearly every record has both.
    """
    keys: list[bytes] = []
    places: list[int] = []
    four_bytes = _FOUR_BYTES.unpack_from  # attributes, and most often all of both deltas and the length of the key
    try:
        for _ in range(count):
            length = data[position]
            position += 1
            if length & 0x80:  # most records are of 64 to 8191 bytes, which takes two
                length, position = length & 0x7F | data[position] << 7, position + 1
                if length & 0x4000:
                    length, position = finish_varint(data, position - 1, data[position - 2], 5)
            stop = position + (length >> 1)
            _, timestamp, place, size = four_bytes(data, position)
            if (timestamp | place | size) & 0x80:
                _, position = _raw(data, position + 1, 10)
                place, position = _raw(data, position, 5)
                size, position = _raw(data, position, 5)
            else:
                position += 4
            key_end = position + (size >> 1)
            if (length | place | size) & 1 or not key_end < stop <= end or data[key_end] == 1:
                return None
            keys.append(data[position:key_end])
            places.append(place >> 1)
            position = stop
    except (IndexError, struct.error, ProtocolError):
        return None
    return (keys, places) if position == end else None


def finish_varint(data: bytes, position: int, first: int, bytes_max: int = 10) -> tuple[int, int]:
    """Return the raw (still zigzag) number whose first byte asked for more, and the position after it. Raises
    `ProtocolError`, and IndexError where the data ends before it.

    Varints are read in five places, each with a reason: here, for `record_walk` as well; `slow_paths`, those of
    messages; `constructs`, the slow truth about them; `pipeline/decode/kernels`, which are compiled; and
    `pipeline/decode/plain`, the slow truth about those.
    """
    number = first & 0x7F
    for shift in range(7, 7 * bytes_max, 7):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80 and number < 1 << 64:  # ten bytes have room for more
            return number, position
    raise ProtocolError(f"a varint of more than {min(7 * bytes_max, 64)} bits", path="records", offset=position)


def _raw(data: bytes, position: int, bytes_max: int) -> tuple[int, int]:
    """Return the zigzag number at `position`, and the position after it."""
    first = data[position]
    return finish_varint(data, position + 1, first, bytes_max) if first & 0x80 else (first, position + 1)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position`, of at most five bytes, and the position after it. Raises `ProtocolError`, and
    IndexError where the data ends before it."""
    raw, position = _raw(data, position, 5)
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position`, of at most ten bytes, and the position after it, as `read_varint` does."""
    raw, position = _raw(data, position, 10)
    return (raw >> 1) ^ -(raw & 1), position


def _negative(size: int, position: int) -> ProtocolError:
    """Return the error for a length below -1, which is null."""
    return ProtocolError(f"a length of {(size >> 1) ^ -1}", path="records", offset=position)


def _headers(data: bytes, position: int, stop: int) -> tuple[Headers, int]:
    """Return names and values up to `stop`: a header takes at least two bytes, which bounds their number."""
    count, position = read_varint(data, position)
    if not 0 <= 2 * count <= stop - position:
        raise ProtocolError(f"{count} headers in {stop - position} bytes", path="records.headers", offset=position)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = read_varint(data, position)
        name_end = position + size
        if size < 0 or name_end > stop:
            raise ProtocolError("a header's name reaches beyond its record", path="records.headers", offset=position)
        size, after = read_varint(data, name_end)
        if size < -1 or after + max(size, 0) > stop:
            raise ProtocolError("a header's value reaches beyond its record", path="records.headers", offset=position)
        name = data[position:name_end].decode("utf-8", "surrogateescape")
        headers.append((name, None if size < 0 else data[after : after + size]))
        position = after + max(size, 0)
    return tuple(headers), position


#   A control record:  key   = version i16 | type i16 (0 abort, 1 commit)
#                      value = version i16 | coordinator epoch i32
_CONTROL_KEY = struct.Struct(">hh")
_CONTROL_VALUE = struct.Struct(">hi")
ABORT, COMMIT = 0, 1


class EndMarker(msgspec.Struct, frozen=True, gc=False):
    """How a transaction ended, as its control record says."""

    commits: bool
    coordinator_epoch: int = 0


def end_marker(marker: EndMarker, timestamp: int) -> Record:
    """Return the record of a control batch that ends a transaction."""
    key = _CONTROL_KEY.pack(0, COMMIT if marker.commits else ABORT)
    return Record(key, _CONTROL_VALUE.pack(0, marker.coordinator_epoch), timestamp=timestamp)


def read_end_marker(record: Record) -> EndMarker | None:
    """Return what a control record says, or None when it ends no transaction (a leader change, say)."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise ProtocolError("a control record without a type", path="records.key")
    _, kind = _CONTROL_KEY.unpack_from(record.key)
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _CONTROL_VALUE.size:
        raise ProtocolError("an end marker without a coordinator epoch", path="records.value")
    _, coordinator_epoch = _CONTROL_VALUE.unpack_from(record.value)
    return EndMarker(kind == COMMIT, coordinator_epoch)
