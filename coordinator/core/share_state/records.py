"""The records of `__share_group_state`, as Kafka writes them: `encode` and `decode` for each.

snapshot   key type 0: group, topic id, partition     the whole state; without a value, that it is no more
update     key type 1: the same                        what has changed since the snapshot
"""

from struct import Struct as Layout
from struct import error as StructError  # noqa: N812 - the module does not say whose it is
from typing import Any, Final

from msgspec import Struct

from coordinator.core.share_state.values import StateBatch
from coordinator.core.topics import NO_ID
from protocol import codec
from protocol.errors import ProtocolError
from protocol.schema import Field, Message, Schema
from protocol.wire import INT8, INT16, INT32, INT64, STRING, UUID, Array

_INT16: Final = Layout(">h")
VERSION: Final = 0  # of each value; there is no other yet


class ShareSnapshotKey(Message, frozen=True, gc=False):
    """Type 0."""

    group_id: str = ""
    topic_id: bytes = NO_ID
    partition: int = 0


class ShareUpdateKey(Message, frozen=True, gc=False):
    """Type 1."""

    group_id: str = ""
    topic_id: bytes = NO_ID
    partition: int = 0


class ShareSnapshotValue(Message, frozen=True, gc=False):
    """The whole state of a share partition."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    create_timestamp: int = 0
    write_timestamp: int = 0
    state_batches: tuple[StateBatch, ...] = ()


class ShareUpdateValue(Message, frozen=True, gc=False):
    """What has changed; a start offset of -1 has not."""

    snapshot_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    state_batches: tuple[StateBatch, ...] = ()


class UnknownStateKey(Message, frozen=True, gc=False):
    """A key of a type that nobody here knows. Kept as bytes, and skipped."""

    type: int = -1
    body: bytes = b""


StateRecordKey = ShareSnapshotKey | ShareUpdateKey | UnknownStateKey


class StateRecord(Struct, frozen=True, gc=False):
    """One record; a tombstone when it has no value."""

    key: StateRecordKey
    value: ShareSnapshotValue | ShareUpdateValue | bytes | None


_KEY: Final = (Field("group_id", STRING), Field("topic_id", UUID), Field("partition", INT32))
_BATCHES: Final = Array(Schema(StateBatch, (
    Field("first_offset", INT64),
    Field("last_offset", INT64),
    Field("delivery_state", INT8),
    Field("delivery_count", INT16),
)))  # fmt: skip

SNAPSHOT_KEY: Final = Schema(ShareSnapshotKey, _KEY)
UPDATE_KEY: Final = Schema(ShareUpdateKey, _KEY)
SNAPSHOT_VALUE: Final = Schema(ShareSnapshotValue, (
    Field("snapshot_epoch", INT32),
    Field("state_epoch", INT32),
    Field("leader_epoch", INT32),
    Field("start_offset", INT64),
    Field("delivery_complete_count", INT32, tag=0),  # KIP-1226
    Field("create_timestamp", INT64),
    Field("write_timestamp", INT64),
    Field("state_batches", _BATCHES),
))  # fmt: skip
UPDATE_VALUE: Final = Schema(ShareUpdateValue, (
    Field("snapshot_epoch", INT32),
    Field("leader_epoch", INT32),
    Field("start_offset", INT64),
    Field("delivery_complete_count", INT32, tag=0),  # KIP-1226
    Field("state_batches", _BATCHES),
))  # fmt: skip

_SCHEMAS: Final[dict[int, tuple[Schema, Schema]]] = {0: (SNAPSHOT_KEY, SNAPSHOT_VALUE), 1: (UPDATE_KEY, UPDATE_VALUE)}
_TYPES: Final[dict[type, int]] = {ShareSnapshotKey: 0, ShareUpdateKey: 1}


def schemas_of(key: StateRecordKey) -> tuple[Schema, Schema] | None:
    """Return the schemas of a key and of its value; None for a key of an unknown type."""
    return None if isinstance(key, UnknownStateKey) else _SCHEMAS[_TYPES[type(key)]]


def encode(record: StateRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value of a record of the log; no value for a tombstone."""
    key, value = record.key, record.value
    if type(key) is UnknownStateKey:
        assert value is None or type(value) is bytes, f"{key!r} with {value!r}"
        return _INT16.pack(key.type) + key.body, value
    number = _TYPES[type(key)]
    key_schema, value_schema = _SCHEMAS[number]
    head = _INT16.pack(number) + codec.write(key_schema, key, 0)
    if value is None:
        return head, None
    assert isinstance(value, Message), f"{key!r} with {value!r}"
    return head, _INT16.pack(VERSION) + codec.write(value_schema, value, VERSION, flexible=True)


def decode(key: bytes, value: bytes | None) -> StateRecord:
    """Return the fact that a record of the log states. Raises ProtocolError for bytes that cannot be read.

    A key of an unknown type becomes an `UnknownStateKey`, to be skipped.
    """
    try:
        (number,) = _INT16.unpack_from(key)
        schemas = _SCHEMAS.get(number)
        if schemas is None:
            return StateRecord(UnknownStateKey(number, key[2:]), value)
        read_key = codec.read(schemas[0], key[2:], 0)
        return StateRecord(read_key, None if value is None else _decode_value(schemas[1], number, value))
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a record that ends too early or is not text: {error}") from None


def _decode_value(schema: Schema, number: int, value: bytes) -> Any:
    (version,) = _INT16.unpack_from(value)
    if version != VERSION:
        raise ProtocolError(f"version {version} of record type {number} is not known")
    return codec.read(schema, value[2:], version, flexible=True)
