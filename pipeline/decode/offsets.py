"""Offset commits: all keys and values of a chunk at once, as columns.

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

from pipeline.decode.bytes import Array
from pipeline.decode.offset_kernels import FLEXIBLE_VERSION, VALUE_LENGTH, Columns, find_commits, read_commits
from pipeline.decode.records import Records
from pipeline.decode.strings import byte_strings, text

NEWEST_VALUE = FLEXIBLE_VERSION


class Commits:
    """Columns of the offset commits among some records. `index` are their places in the records.

    `key_versions` are those of all records, -1 where there is no key or it is too short. `undecodable` marks commits
    whose value could not be read; their numbers are null. `newer` marks values of a version that is not known yet.
    """

    def __init__(self, records: Records) -> None:
        data, fields = np.frombuffer(records.data, np.uint8), records.fields
        self.key_versions, is_commit = np.empty(len(records), np.int16), np.empty(len(records), bool)
        find_commits(data, fields, self.key_versions, is_commit)
        self.index, self.others = np.flatnonzero(is_commit), np.flatnonzero(~is_commit)
        found = Columns.of(len(self.index))
        read_commits(data, fields, self.index, found)
        self.key_version, self.partition = self.key_versions[self.index], found.partition
        self.group, bad_group = text(records.data, found.group, found.group_length)
        self.topic, bad_topic = text(records.data, found.topic, found.topic_length)
        self.metadata, bad_metadata = text(records.data, found.metadata, found.metadata_length)
        self.bad_utf8 = bad_group | bad_topic | bad_metadata
        self.is_tombstone = fields[self.index, VALUE_LENGTH] < 0
        self.undecodable = ~found.readable & ~self.is_tombstone
        self.newer = found.version > NEWEST_VALUE
        self.value_version = mask(found.version, found.version >= 0)
        self.offset, self.commit_ts = mask(found.offset, found.readable), mask(found.commit_ts, found.readable)
        self.leader_epoch = mask(found.leader_epoch, found.leader_epoch >= 0)
        self.expire_ts = mask(found.expire_ts, found.expire_ts >= 0)
        self.topic_id = _topic_ids(records.data, found.topic_id)


def mask(values: Array, valid: Array) -> pa.Array:
    """Return the values as a column in which those that are not valid are null."""
    return pa.array(values, mask=None if valid.all() else ~valid)


def _topic_ids(data: bytes, starts: Array) -> pa.Array:
    """Return the 16 bytes at each place as hex; null where the place is -1."""
    if (starts < 0).all():
        return pa.nulls(len(starts), pa.string())
    codes = byte_strings(data, starts, np.where(starts < 0, -1, 16)).dictionary_encode()  # few ids, many rows
    return pa.array([one.hex() for one in codes.dictionary.to_pylist()], pa.string()).take(codes.indices)
