"""The same log, read one record after the other with nothing but `struct`: for `dump`, and to check the rest against.

Of the columns' code it shares only `inflate`, and its callers `layout.segments`: two readers that agree on random logs
are worth more than one.
"""

import struct
from collections.abc import Iterator

import crc32c
import msgspec

from pipeline.decode.codecs import inflate

_HEADER = struct.Struct(">qiibIhiqqqhii")


class PlainBatch(msgspec.Struct, frozen=True):
    """A batch's header and where it stands."""

    pos: int
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_delta: int
    base_ts: int
    max_ts: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    valid: bool

    @property
    def is_control(self) -> bool:
        """Whether it is a transaction's marker."""
        return bool(self.attributes & 32)

    @property
    def is_txn(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & 16)


class PlainRecord(msgspec.Struct, frozen=True):
    """A record as bytes."""

    offset: int
    ts: int
    key: bytes | None
    value: bytes | None


class PlainCommit(msgspec.Struct, frozen=True):
    """An offset commit. `offset` is None for a tombstone, and for a value that cannot be read (`undecodable`)."""

    group: str
    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None = None
    metadata: str | None = None
    commit_ts: int | None = None
    expire_ts: int | None = None
    topic_id: str | None = None  # hex
    undecodable: bool = False

    @property
    def is_tombstone(self) -> bool:
        """Whether it deletes the offset."""
        return self.offset is None and not self.undecodable


def batches(data: bytes) -> Iterator[PlainBatch]:
    """Yield the whole batches from the beginning on; ends where none begins."""
    pos = 0
    while pos + 61 <= len(data):
        fields = _HEADER.unpack_from(data, pos)
        length, magic, crc = fields[1], fields[3], fields[4]
        if length < 49 or pos + 12 + length > len(data):
            return
        valid = magic == 2 and crc32c.crc32c(data[pos + 21 : pos + 12 + length]) == crc
        yield PlainBatch(*(pos, *fields, valid))
        pos += 12 + length


def records(data: bytes, batch: PlainBatch) -> Iterator[PlainRecord]:
    """Yield a valid batch's records. Raises IndexError or ValueError for records that make no sense."""
    body = data[batch.pos + 61 : batch.pos + 12 + batch.length]
    if batch.attributes & 7:
        body = inflate(batch.attributes & 7, body)
    pos = 0
    for _ in range(batch.count):
        length, pos = _varint(body, pos)
        end = pos + length
        ts_delta, pos = _varint(body, pos + 1)
        offset_delta, pos = _varint(body, pos)
        key, pos = _bytes(body, pos)
        value, pos = _bytes(body, pos)
        if length < 1 or pos > end or end > len(body):
            raise ValueError("a record reaches past its end")
        ts = batch.max_ts if batch.attributes & 8 else batch.base_ts + ts_delta
        yield PlainRecord(batch.base_offset + offset_delta, ts, key, value)
        pos = end


def commit(record: PlainRecord) -> PlainCommit | None:
    """Read a record as an offset commit; None for a record of another type. Raises for a key that cannot be read."""
    if record.key is None or record.key[:2] not in (b"\0\0", b"\0\1"):
        return None
    group, pos = _string(record.key, 2)
    topic, pos = _string(record.key, pos)
    (partition,) = struct.unpack_from(">i", record.key, pos)
    if record.value is None:
        return PlainCommit(group, topic, partition, None)
    try:
        return _value(group, topic, partition, record.value)
    except (ValueError, IndexError, struct.error):
        return PlainCommit(group, topic, partition, None, undecodable=True)


def group_of(key: bytes) -> str:
    """Return the group of a record's key: each type has it first. Raises for a key that cannot be read."""
    return _string(key, 2)[0]


def _value(group: str, topic: str, partition: int, value: bytes) -> PlainCommit:
    version, offset = struct.unpack_from(">hq", value)
    if version < 0:
        raise ValueError("a value of a negative version")
    pos, epoch, expire, topic_id = 10, None, None, None
    if version >= 3:
        (epoch,) = struct.unpack_from(">i", value, pos)
        pos += 4
    metadata: str | None
    if version >= 4:
        size, pos = _uvarint(value, pos)
        metadata = value[pos : pos + size - 1].decode("utf-8", "replace") if size else None
        pos += max(size - 1, 0)
    else:
        metadata, pos = _string(value, pos)
    (commit_ts,) = struct.unpack_from(">q", value, pos)
    if version == 1:
        (expire,) = struct.unpack_from(">q", value, pos + 8)
    if version >= 4:
        topic_id = _topic_id(value, pos + 8)
    return PlainCommit(
        group, topic, partition, offset, _drop_negative(epoch), metadata, commit_ts, _drop_negative(expire), topic_id
    )


def _topic_id(value: bytes, pos: int) -> str | None:
    """Return the 16 bytes of tag 0 in hex; None without that tag, and for tags that make no sense."""
    try:
        tags, pos = _uvarint(value, pos)
        for _ in range(tags):
            tag, pos = _uvarint(value, pos)
            size, pos = _uvarint(value, pos)
            if size > len(value) - pos:
                return None
            if tag == 0:
                return value[pos : pos + size].hex() if size == 16 else None
            pos += size
    except IndexError:
        pass
    return None


def control_type(record: PlainRecord) -> int:
    """Return the type of a control record: 0 aborts its transaction, 1 commits it. Raises ValueError without one."""
    if record.key is None or len(record.key) < 4 or record.value is None or len(record.value) < 6:
        raise ValueError("a control record without a type")
    kind: int = struct.unpack_from(">h", record.key, 2)[0]
    return kind


def _drop_negative(number: int | None) -> int | None:
    return None if number is None or number < 0 else number


def _string(data: bytes, pos: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, pos)
    if length < 0 or pos + 2 + length > len(data):
        raise ValueError("a string reaches past its end")
    return data[pos + 2 : pos + 2 + length].decode("utf-8", "replace"), pos + 2 + length


def _bytes(data: bytes, pos: int) -> tuple[bytes | None, int]:
    length, pos = _varint(data, pos)
    if length < -1 or pos + length > len(data):
        raise ValueError("bytes reach past their end")
    return (None, pos) if length < 0 else (data[pos : pos + length], pos + length)


def _uvarint(data: bytes, pos: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    value, pos = _uvarint(data, pos)
    return (value >> 1) ^ -(value & 1), pos
