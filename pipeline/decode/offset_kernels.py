"""Loops over offset commits, compiled by numba: keys and values as columns of numbers, texts as places in the data.

The formats are those of `offsets`. As in `kernels`, every read is behind a comparison with the end of what may be read.
"""

from typing import Any, NamedTuple

import numpy as np

from pipeline.decode.bytes import Array
from pipeline.decode.kernels import compile_kernel, uvarint

EXPIRE_VERSION, EPOCH_VERSION, FLEXIBLE_VERSION = 1, 3, 4  # of a value: has an expire time; has an epoch; has tags
KEY, KEY_LENGTH, VALUE, VALUE_LENGTH = 2, 3, 4, 5  # columns of the records that `kernels.boundaries` finds


class Columns(NamedTuple):
    """The columns of a batch's commits. Numbers of a value that is not `readable` mean nothing.

    A text is the position where it begins and its length in bytes, below 0 for null; `topic_id` is the position of its
    16 bytes, or -1.
    """

    group: Array
    group_length: Array
    topic: Array
    topic_length: Array
    partition: Array
    version: Array
    readable: Array
    offset: Array
    leader_epoch: Array
    metadata: Array
    metadata_length: Array
    commit_ts: Array
    expire_ts: Array
    topic_id: Array

    @classmethod
    def of(cls, rows: int) -> "Columns":
        """Return columns of so many rows, to be written by `read_commits`."""
        kinds = {"partition": np.int32, "version": np.int16, "readable": bool, "leader_epoch": np.int32}
        return cls(*(np.empty(rows, kinds.get(name, np.int64)) for name in cls._fields))


@compile_kernel
def number(data: Array, pos: int, size: int) -> Any:
    """Return a signed big-endian number of some bytes."""
    value = np.int64(np.int8(data[pos]))
    for i in range(pos + 1, pos + size):
        value = (value << 8) | np.int64(data[i])
    return value


@compile_kernel
def short_uvarint(data: Array, pos: int, end: int) -> tuple[Any, int]:
    """Read an unsigned varint of at most five bytes; (value, position after it), (-1, `end`) if it is longer."""
    value, after = uvarint(data, pos, end, np.uint64(35))
    if after < 0:
        return np.int64(-1), end
    return np.int64(value), after


@compile_kernel
def find_commits(data: Array, fields: Array, versions: Array, is_commit: Array) -> None:
    """Write the int16 that each key begins with, or -1, and whether it is the whole key of an offset commit."""
    for row in range(fields.shape[0]):
        pos, end = fields[row, KEY], fields[row, KEY] + fields[row, KEY_LENGTH]
        is_commit[row] = False
        versions[row] = number(data, pos, 2) if end - pos >= 2 else -1
        if versions[row] != 0 and versions[row] != 1:
            continue
        pos += 2
        for _ in range(2):  # group and topic
            length = number(data, pos, 2) if pos >= 0 and pos + 2 <= end else -1
            pos = pos + 2 + length if length >= 0 else -1
        is_commit[row] = pos >= 0 and pos + 4 <= end


@compile_kernel
def topic_id(data: Array, pos: int, end: int) -> int:
    """Return where the 16 bytes of tag 0 begin among the tags at `pos`, or -1."""
    tags, pos = short_uvarint(data, pos, end)
    for _ in range(tags):
        tag, pos = short_uvarint(data, pos, end)
        size, pos = short_uvarint(data, pos, end)
        if tag < 0 or size < 0 or size > end - pos:
            return -1
        if tag == 0:
            return pos if size == 16 else -1
        pos += size
    return -1


@compile_kernel
def read_commits(data: Array, fields: Array, index: Array, out: Columns) -> None:
    """Read the keys and values of the records at `index`, all of which have the whole key of an offset commit."""
    for row in range(index.shape[0]):
        pos = fields[index[row], KEY] + 2
        out.group[row], out.group_length[row] = pos + 2, number(data, pos, 2)
        pos = out.group[row] + out.group_length[row]
        out.topic[row], out.topic_length[row] = pos + 2, number(data, pos, 2)
        out.partition[row] = number(data, out.topic[row] + out.topic_length[row], 4)
        pos = fields[index[row], VALUE]
        end = pos + fields[index[row], VALUE_LENGTH]
        out.readable[row], out.topic_id[row] = False, -1
        out.metadata[row], out.metadata_length[row] = pos, -1
        out.offset[row] = out.leader_epoch[row] = out.commit_ts[row] = out.expire_ts[row] = -1
        out.version[row] = version = number(data, pos, 2) if end - pos >= 2 else -1
        fixed = 14 if version >= EPOCH_VERSION else 10  # bytes before the metadata
        if version < 0 or end - pos < fixed + 1:
            continue
        if version >= FLEXIBLE_VERSION:
            length, text = short_uvarint(data, pos + fixed, end)
            length = length - 1 if length >= 0 else -2
        else:
            text = pos + fixed + 2
            length = number(data, pos + fixed, 2) if text <= end else -2
            length = length if length >= 0 else -2  # only the compact form has a null
        after = text + max(length, 0)
        tags = after + (16 if version == EXPIRE_VERSION else 8)
        if length < -1 or tags > end:
            continue
        out.readable[row] = True
        out.offset[row] = number(data, pos + 2, 8)
        out.metadata[row], out.metadata_length[row] = text, length
        out.commit_ts[row] = number(data, after, 8)
        if version >= EPOCH_VERSION:
            out.leader_epoch[row] = number(data, pos + 10, 4)
        if version == EXPIRE_VERSION:
            out.expire_ts[row] = number(data, after + 8, 8)
        if version >= FLEXIBLE_VERSION:
            out.topic_id[row] = topic_id(data, tags, end)
