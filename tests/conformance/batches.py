"""Record batches (v2) made and read by hand, so that a story can send broken ones and see what is kept.

0            8        12      16      17       21
┌────────────┬────────┬───────┬───────┬────────┬─────────────────────────────────────────────────────────────────┐
│ baseOffset │ length │ epoch │ magic │ crc32c │ attributes i16, lastOffsetDelta i32, baseTimestamp i64,         │
└────────────┴────────┴───────┴───────┴────────┤ maxTimestamp i64, producerId i64, producerEpoch i16,            │
                                               │ baseSequence i32, count i32, records                            │
                                               └─────────────────────────────────────────────────────────────────┘
"""

import contextlib
import gzip
import struct
from collections.abc import Sequence
from typing import Any

from crc32c import crc32c
from kafka.codec import lz4_decode, lz4_encode, snappy_decode, snappy_encode, zstd_decode, zstd_encode
from kafka.record.util import decode_varint, encode_varint

HEAD = struct.Struct(">qiibI")
BODY = struct.Struct(">hiqqqhii")
CODECS = {1: gzip.compress, 2: snappy_encode, 3: lz4_encode, 4: zstd_encode}
DECODERS = {0: bytes, 1: gzip.decompress, 2: snappy_decode, 3: lz4_decode, 4: zstd_decode}
GZIP, BY_BROKER, TRANSACTIONAL, CONTROL = 1, 1 << 3, 1 << 4, 1 << 5
T0 = 1_700_000_000_000  # the time of the first record, unless told


def batch(
    *values: bytes | None,
    timestamps: Sequence[int] = (),
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
    magic: int = 2,
    count: int | None = None,
    last_delta: int | None = None,
    base_offset: int = 0,
    crc: int | None = None,
    key: bytes | None = None,
    codec: int = 0,
    written: bytes | None = None,
) -> bytes:
    """One batch with these record values; whatever is given is taken as it is, however wrong.

    `written` stands for all records, in the form in which they are sent.
    """
    times = list(timestamps) or [T0 + n for n in range(len(values))]
    records = b"".join(record(n, times[n] - times[0], key, value) for n, value in enumerate(values))
    if attributes & 7 == GZIP:
        codec = GZIP
    packed = (CODECS[codec](records) if codec else records) if written is None else written
    attributes |= codec
    delta = len(values) - 1 if last_delta is None else last_delta
    numbers = (times[0] if times else T0, max(times, default=T0), producer_id, epoch, sequence)
    body = BODY.pack(attributes, delta, *numbers, len(values) if count is None else count) + packed
    checksum = crc32c(body) if crc is None else crc
    return HEAD.pack(base_offset, len(body) + HEAD.size - 12, 0, magic, checksum) + body


def record(delta: int, after_ms: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\x00" + varint(after_ms) + varint(delta) + field(key) + field(value) + varint(0)
    return varint(len(body)) + body


PARTS = "size", "time", "offset", "key", "value", "headers"


def wide(part: str, size: int) -> bytes:
    """The first record of a batch, of which one number is written in so many bytes."""
    widths = {one: size if one == part else 1 for one in PARTS}
    body = b"\x00" + pad(0, widths["time"]) + pad(0, widths["offset"])
    body += pad(1, widths["key"]) + b"k" + pad(1, widths["value"]) + b"v" + pad(0, widths["headers"])
    return pad(len(body), widths["size"]) + body


def pad(number: int, size: int) -> bytes:
    """A number that is not negative in so many bytes, most of which say no more than that another one follows."""
    raw = number << 1
    return bytes([raw >> 7 * at & 0x7F | 0x80 for at in range(size - 1)] + [raw >> 7 * (size - 1)])


def field(data: bytes | None) -> bytes:
    """A key or a value, behind its length."""
    return varint(-1) if data is None else varint(len(data)) + data


def varint(number: int) -> bytes:
    out = bytearray()
    encode_varint(number, out.append)
    return bytes(out)


def read(data: bytes) -> list[dict[str, Any]]:
    """What is in the bytes of a fetch: a dict a batch, with the values of its records. A last batch may be cut."""
    found, at = [], 0
    while at + HEAD.size + BODY.size <= len(data):
        base, length, _, magic, checksum = HEAD.unpack_from(data, at)
        end = at + 12 + length
        if magic != 2 or not at + HEAD.size + BODY.size <= end <= len(data):
            break
        attributes, delta, first, last, producer_id, epoch, sequence, count = BODY.unpack_from(data, at + HEAD.size)
        records = data[at + HEAD.size + BODY.size : end]
        found.append(
            {
                "offset": base,
                "last": base + delta,
                "magic": magic,
                "attributes": attributes,
                "time": first,
                "max_time": last,
                "producer_id": producer_id,
                "epoch": epoch,
                "sequence": sequence,
                "crc": "right" if crc32c(data[at + HEAD.size : end]) == checksum else "wrong",
                "values": contents(records, attributes, count),
            }
        )
        at = end
    return found


def contents(packed: bytes, attributes: int, count: int) -> list[str]:
    """The values of the records, as far as there are any; a control record shows its type.

    Of records that cannot be read the size is shown, and never of others: it depends on the library, and on the times in them.
    """
    with contextlib.suppress(Exception):  # each codec has errors of its own
        return contents_of(DECODERS[attributes & 7](packed), count)
    return [f"{len(packed)} bytes"]


def contents_of(records: bytes, count: int) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(records) and len(found) < count:
        length, at = decode_varint(records, at)
        end = at + length
        _, at = decode_varint(records, at + 1)
        _, at = decode_varint(records, at)
        size, at = decode_varint(records, at)
        key, at = records[at : at + max(size, 0)], at + max(size, 0)
        size, at = decode_varint(records, at)
        value = records[at : at + max(size, 0)]
        is_control = len(key) == 4 and key[:2] == b"\x00\x00" and len(value) == 6
        found.append(("abort", "commit")[key[3]] if is_control else value.decode("latin-1"))
        at = end
    return found
