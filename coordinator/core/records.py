"""Facts as values, facts as bytes: `encode` and `decode` for every record of `__consumer_offsets`.

The schemas in `record_schemas` are the one description of the bytes. Offsets are by far the most records of a log, so
theirs, a million at a start, are read and written here by hand; a test holds that against the schema in each version.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct as Layout
from struct import error as StructError  # noqa: N812 - the module does not say whose it is
from typing import Any, Final

from coordinator.core.record_schemas import BY_KEY, BY_TYPE, Kind
from coordinator.core.record_types import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupCurrentMemberAssignmentValueTopicPartitions,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMemberMetadataValueClassicMemberMetadata,
    ConsumerGroupMemberMetadataValueClassicProtocol,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMemberValueTopicPartition,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    EncodedRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupMetadataValueMember,
    Key,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    UnknownKey,
    Value,
)
from coordinator.core.topics import NO_ID
from protocol import codec
from protocol.errors import ProtocolError

__all__ = [
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupCurrentMemberAssignmentValueTopicPartitions",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMemberMetadataValueClassicMemberMetadata",
    "ConsumerGroupMemberMetadataValueClassicProtocol",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMemberValueTopicPartition",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "EncodedRecord",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "GroupMetadataValueMember",
    "Key",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "Record",
    "UnknownKey",
    "Value",
    "decode",
    "encode",
]

_INT16: Final = Layout(">h")
_INT32: Final = Layout(">i")
_V3_HEAD: Final = Layout(">hqi")
_V4_HEAD: Final = Layout(">hqiB")
_V4_TAIL: Final = Layout(">qB")
_V4_SHORT: Final = Layout(">hqiBqB")  # no metadata, no topic id
_V4_COMMON: Final = Layout(">hqiBq3s16s")  # no metadata, a topic id
_KEY_HEAD: Final = Layout(">hh")
_INT64: Final = Layout(">q")
TOPIC_ID_TAG: Final = b"\x01\x00\x10"  # one tagged field: tag 0, 16 bytes


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Return the key and the value of a record of the log; no value for a tombstone."""
    key, value = record.key, record.value
    if type(key) is OffsetCommitKey:
        if value is None:
            return _offset_key(key), None
        assert type(value) is OffsetCommitValue, f"{key!r} with {value!r}"
        return _offset_key(key), _offset_value(value)
    if type(record) is EncodedRecord:
        return record.written
    if type(key) is UnknownKey:
        assert value is None or type(value) is bytes, f"{key!r} with {value!r}"
        return _INT16.pack(key.type) + key.body, value
    kind = BY_KEY[type(key)]
    head = _INT16.pack(kind.type) + codec.write(kind.key, key, 0)
    return head, None if value is None else encode_value(kind, value, kind.writes)


def encode_value(kind: Kind, value: Any, version: int) -> bytes:
    """Return a value in one of its versions, by the schema."""
    return _INT16.pack(version) + codec.write(kind.value, value, version, flexible=version >= kind.flexible_since)


def decode(key: bytes, value: bytes | None) -> Record:
    """Return the fact that a record of the log states. Raises ProtocolError for bytes that cannot be read.

    A key of an unknown type becomes an `UnknownKey`, to be skipped; an unknown version of a known value is an error.
    """
    try:
        if key[1] <= 1 and not key[0]:
            return Record(_read_offset_key(key), None if value is None else _read_offset_value(value))
        (number,) = _INT16.unpack_from(key)
        kind = BY_TYPE.get(number)
        if kind is None:
            return Record(UnknownKey(number, key[2:]), value)
        read_key = codec.read(kind.key, key[2:], 0)
        return Record(read_key, None if value is None else decode_value(kind, value))
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a record that ends too early or is not text: {error}") from None


def decode_value(kind: Kind, value: bytes) -> Any:
    """Return a value by the schema, in the version that it names."""
    (version,) = _INT16.unpack_from(value)
    if not 0 <= version <= kind.reads:
        raise ProtocolError(f"version {version} of record type {kind.type} is not known")
    return codec.read(kind.value, value[2:], version, flexible=version >= kind.flexible_since)


def _offset_key(key: OffsetCommitKey) -> bytes:
    return offset_key_head(key.group, key.topic) + _INT32.pack(key.partition)


@lru_cache(maxsize=16)
def offset_key_head(group_id: str, topic_name: str) -> bytes:
    """Return all but the partition: one record after the other has the same."""
    group, topic = group_id.encode(), topic_name.encode()
    return b"".join((_KEY_HEAD.pack(1, len(group)), group, _INT16.pack(len(topic)), topic))


def _read_offset_key(key: bytes) -> OffsetCommitKey:
    group, topic = offset_key_names(key[:-4])
    return OffsetCommitKey(group, topic, _INT32.unpack_from(key, len(key) - 4)[0])


@lru_cache(maxsize=1024)
def offset_key_names(head: bytes) -> tuple[str, str]:
    """Read group and topic from all but the partition: one commit after the other has the same."""
    (group_size,) = _INT16.unpack_from(head, 2)
    group_end = 4 + group_size
    (topic_size,) = _INT16.unpack_from(head, group_end)
    if group_size < 0 or topic_size < 0:
        raise ProtocolError("a negative length in the key of an offset")
    if group_end + 2 + topic_size != len(head):
        raise ProtocolError("the key of an offset is not as long as its fields")
    return head[4:group_end].decode(), head[group_end + 2 :].decode()


def _offset_value(value: OffsetCommitValue) -> bytes:
    """Version 4; version 1 where an expiry was asked for, which no later version has (and that one has no epoch)."""
    if not value.metadata and value.expire_timestamp == -1 and value.topic_id != NO_ID:  # nearly all are such
        return _V4_COMMON.pack(
            4, value.offset, value.leader_epoch, 1, value.commit_timestamp, TOPIC_ID_TAG, value.topic_id
        )
    metadata = value.metadata.encode()
    size = len(metadata)
    if value.expire_timestamp != -1 or size > 126:
        version = 4 if value.expire_timestamp == -1 else 1
        return encode_value(BY_TYPE[1], value, version)
    head = _V4_HEAD.pack(4, value.offset, value.leader_epoch, size + 1)
    if value.topic_id == NO_ID:
        return head + metadata + _V4_TAIL.pack(value.commit_timestamp, 0)
    return b"".join((head, metadata, _INT64.pack(value.commit_timestamp), TOPIC_ID_TAG, value.topic_id))


def _read_offset_value(value: bytes) -> OffsetCommitValue:
    read = _OFFSET_READERS.get(value[1]) if value[0] == 0 else None
    return decode_value(BY_TYPE[1], value) if read is None else read(value)


def _read_v3(value: bytes) -> OffsetCommitValue:
    _, offset, leader_epoch = _V3_HEAD.unpack_from(value)
    (size,) = _INT16.unpack_from(value, 14)
    if size < 0:
        raise ProtocolError("a negative length in the value of an offset")
    end = 16 + size
    (commit_timestamp,) = _INT64.unpack_from(value, end)
    return OffsetCommitValue(offset, leader_epoch, value[16:end].decode() if size else "", commit_timestamp)


def _read_v4(value: bytes) -> OffsetCommitValue:
    if len(value) == _V4_SHORT.size:
        _, offset, leader_epoch, count, commit_timestamp, tags = _V4_SHORT.unpack(value)
        if count == 1 and not tags:  # nothing said beside the offset
            return OffsetCommitValue(offset, leader_epoch, "", commit_timestamp)
    _, offset, leader_epoch, count = _V4_HEAD.unpack_from(value)
    if not 1 <= count <= 127:  # a length of two bytes and more, or null
        return _decode_general(value)
    end = 14 + count
    commit_timestamp, tags = _V4_TAIL.unpack_from(value, end)
    metadata = value[15:end].decode() if count > 1 else ""
    if not tags:
        return OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp)
    if value[end + 8 : end + 11] == TOPIC_ID_TAG and len(value) == end + 27:
        return OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp, -1, value[end + 11 :])
    return _decode_general(value)


def _decode_general(value: bytes) -> OffsetCommitValue:
    decoded: OffsetCommitValue = decode_value(BY_TYPE[1], value)
    return decoded


_OFFSET_READERS: Final[dict[int, Callable[[bytes], OffsetCommitValue]]] = {3: _read_v3, 4: _read_v4}
