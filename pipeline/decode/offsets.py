"""Offset commits, vectorised: all keys and values of a chunk at once, strings copied by Arrow alone.

Keys 0 and 1 are (version int16, group string, topic string, partition int32). Values:

    version  offset  leader epoch  metadata        commit time  expire time  tags
    0, 2     int64                 string          int64
    1        int64                 string          int64        int64
    3        int64   int32         string          int64
    4        int64   int32         compact string  int64                     0: topic id (16 bytes)

A version above 4 is read as version 4, whose fields come first as long as Kafka only adds tags; it is reported.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.decode.headers import Array, gather
from pipeline.decode.records import Records

NEWEST_VALUE = 4


def byte_strings(data: bytes, starts: Array, lengths: Array, null: Array) -> pa.Array:
    """Byte strings of the data as an Arrow binary array, without a Python object each.

    Offsets (0, start, end, start, end, ...) laid over the data make an array whose odd entries are the wanted ones;
    `take` copies those in C++. Starts must ascend.
    """
    ends = starts + lengths
    offsets = np.zeros(2 * len(starts) + 1, np.int32)
    offsets[1::2] = starts
    offsets[2::2] = ends
    whole = pa.Array.from_buffers(pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    odd = pa.array(np.arange(1, 2 * len(starts), 2, dtype=np.int64), mask=null if null.any() else None)
    return whole.take(odd)


def text(column: pa.Array) -> tuple[pa.Array, Array]:
    """(the column as UTF-8, which entries were no UTF-8 and have replacement characters now)."""
    try:
        return column.cast(pa.string()), np.zeros(len(column), bool)
    except pa.ArrowInvalid:
        values = column.to_pylist()
        fixed = [None if value is None else value.decode("utf-8", "replace") for value in values]
        bad = [f is not None and f.encode() != v for f, v in zip(fixed, values, strict=True)]
        return pa.array(fixed, pa.string()), np.array(bad, bool)


class Commits:
    """Columns of the offset commits among some records. `index` are their places in the records.

    `undecodable` marks those whose value could not be read; their numbers are null. `newer` marks values of a version
    that is not known yet.
    """

    def __init__(self, records: Records, index: Array) -> None:
        data, key = records.data, records.key[index]
        self.index = index
        self.key_version = gather(data, key, ">i2")
        group_length = gather(data, key + 2, ">i2").astype(np.int64)
        topic_at = key + 4 + group_length
        topic_length = gather(data, topic_at, ">i2").astype(np.int64)
        self.group, bad_group = text(byte_strings(data, key + 4, group_length, np.zeros(len(index), bool)))
        self.topic, bad_topic = text(byte_strings(data, topic_at + 2, topic_length, np.zeros(len(index), bool)))
        self.bad_utf8 = bad_group | bad_topic
        self.partition = gather(data, topic_at + 2 + topic_length, ">i4")
        self._value(records, index)

    def _value(self, records: Records, index: Array) -> None:
        data = records.data
        limit = len(data) - 16
        at, length = records.value[index], records.value_length[index]
        end = at + np.maximum(length, 0)
        self.is_tombstone = length < 0
        readable = length >= 2
        version = np.where(readable, gather(data, np.minimum(at, limit), ">i2"), -1)
        readable &= version >= 0
        self.newer = version > NEWEST_VALUE
        flexible = version >= 4
        metadata_at = at + 10 + np.where(version >= 3, 4, 0)  # the length of the metadata stands here
        metadata_length, text_at = self._length(data, np.minimum(metadata_at, limit), flexible)
        null = metadata_length < 0
        after = text_at + np.maximum(metadata_length, 0)
        tail = after + 8 + np.where(version == 1, 8, 0)
        readable &= (metadata_at < end) & (text_at <= end) & (metadata_length >= -1) & (after <= end) & (tail <= end)
        readable &= ~null | flexible  # only the compact form has a null
        safe = np.where(readable, at, 0)
        self.offset = gather(data, safe + 2, ">i8")
        self.leader_epoch = gather(data, safe + 10, ">i4")
        self.has_epoch = readable & (version >= 3)
        self.commit_ts = gather(data, np.where(readable, after, 0), ">i8")
        self.expire_ts = gather(data, np.where(readable & (version == 1), after + 8, 0), ">i8")
        self.has_expiry = readable & (version == 1)
        self.topic_id = self._topic_ids(data, np.flatnonzero(readable & flexible), tail, end)
        shown = readable & ~null
        starts = np.where(shown, text_at, at)
        raw = byte_strings(data, starts, np.where(shown, metadata_length, 0), ~shown)
        self.metadata, bad = text(raw)
        self.bad_utf8 |= bad
        self.readable = readable
        self.undecodable = ~readable & ~self.is_tombstone
        self.version = version

    @staticmethod
    def _length(data: bytes, at: Array, flexible: Array) -> tuple[Array, Array]:
        """(length of the metadata, where it begins): an int16, or a varint that counts one more."""
        fixed = gather(data, at, ">i2").astype(np.int64)
        length, begins = fixed, at + 2
        which = np.flatnonzero(flexible)
        if not len(which):
            return length, begins
        limit = len(data) - 1
        value, shift, pos, more = np.zeros(len(which), np.int64), 0, at[which].copy(), np.arange(len(which))
        while len(more) and shift < 35:
            byte = gather(data, np.minimum(pos[more], limit), "u1").astype(np.int64)
            value[more] |= (byte & 0x7F) << shift
            pos[more] += 1
            more, shift = more[byte >= 0x80], shift + 7
        value[more] = 1 << 40  # never ended
        length[which], begins[which] = value - 1, pos
        return length, begins

    @staticmethod
    def _topic_ids(data: bytes, which: Array, tail: Array, end: Array) -> pa.Array:
        """Tag 0 of version 4 as hex. Nearly always it is the only tag: (1, 0, 16, sixteen bytes)."""
        ids: list[bytes | None] = [None] * len(tail)
        alone = which[tail[which] + 19 == end[which]]
        alone = alone[gather(data, tail[alone], ">u4") >> 8 == 0x010010]
        plain = byte_strings(data, tail[alone] + 3, np.full(len(alone), 16), np.zeros(len(alone), bool))
        for i in np.setdiff1d(which[end[which] - tail[which] > 1], alone).tolist():
            ids[i] = _tag_zero(data, int(tail[i]), int(end[i]))
        result = pa.array(ids, pa.binary())
        if len(alone):
            mask = np.zeros(len(tail), bool)
            mask[alone] = True
            result = pc.replace_with_mask(result, mask, plain)
        codes = result.dictionary_encode()  # few ids, many rows
        names = pa.array([one.hex() for one in codes.dictionary.to_pylist()], pa.string())
        return names.take(codes.indices)


def _tag_zero(data: bytes, pos: int, end: int) -> bytes | None:
    """Return the 16 bytes of tag 0 among several tags, or None."""

    def number() -> int:
        nonlocal pos
        value = shift = 0
        while pos < end and shift < 35:
            byte = data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        return -1

    for _ in range(max(0, number())):
        tag, size = number(), number()
        if tag < 0 or size < 0 or size > end - pos:
            return None
        if tag == 0:
            return data[pos : pos + 16] if size == 16 else None
        pos += size
    return None


def key_versions(records: Records) -> Array:
    """Return the int16 that every key begins with; -1 where there is no key or it is too short."""
    long_enough = records.key_length >= 2
    versions = gather(records.data, np.where(long_enough, records.key, 0), ">i2")
    result: Array = np.where(long_enough, versions, -1)
    return result


def is_commit(records: Records, versions: Array) -> Array:
    """Find the records that have the whole key of an offset commit."""
    candidate = (versions == 0) | (versions == 1)
    limit = len(records.data) - 16
    end = records.key + records.key_length
    group = gather(records.data, np.minimum(records.key + 2, limit), ">i2").astype(np.int64)
    topic_at = records.key + 4 + np.maximum(group, 0)
    topic = gather(records.data, np.minimum(topic_at, limit), ">i2").astype(np.int64)
    whole: Array = candidate & (group >= 0) & (topic_at + 2 <= end) & (topic >= 0)
    return whole & (topic_at + 2 + np.maximum(topic, 0) + 4 <= end)
