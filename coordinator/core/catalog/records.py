"""The records of the log `__muster_catalog-0`: topics, settings, producer ids, transactions, credentials, ACLs, quotas,
and which partitions have a log.

A key is an INT16 for its type, then its fields. A value is an INT16 for the version of its layout, then its fields. A
record without a value is a tombstone. The log may be compacted: only the latest value of each key counts.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from construct import ConstructError
from msgspec import Struct

from protocol.constructs import Reader
from protocol.decoder import UNREADABLE, decoder
from protocol.encoder import encoder
from protocol.errors import ProtocolError
from protocol.schema import Field, Message, Schema
from protocol.wire import BYTES, FLOAT64, INT8, INT16, INT32, INT64, NULLABLE_STRING, STRING, UUID, Array

NO_ID: Final = bytes(16)


class TopicKey(Message):
    """A topic, by its name."""

    name: str = ""


class TopicValue(Message):
    """The topic exists: with this id, so many partitions, and so many copies of each as its creator asked for."""

    id: bytes = NO_ID
    partitions: int = 0
    replication_factor: int = 1
    created_ms: int = -1


class ConfigKey(Message):
    """One setting of one resource, by Kafka's types: topic 2, broker 4 (with the name "" for all), group 32."""

    resource_type: int = 0
    resource_name: str = ""
    name: str = ""


class ConfigValue(Message):
    """The value of the setting, as it was written."""

    value: str = ""


class ProducerIdKey(Message):
    """The key of the one record about producer ids."""


class ProducerIdValue(Message):
    """Ids below this one may have been given out, and are not given out again."""

    next_id: int = 0


class TransactionKey(Message):
    """A transactional producer, by the id it gave itself."""

    transactional_id: str = ""


class TransactionTopic(Message):
    """Partitions of one topic that a transaction has written to."""

    topic: str = ""
    partitions: tuple[int, ...] = ()


class TransactionValue(Message):
    """A transactional producer and its latest transaction. `Transaction` explains the fields."""

    producer_id: int = -1
    producer_epoch: int = -1
    last_producer_epoch: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    timeout_ms: int = 0
    state: int = 0
    protocol: int = 0
    started_ms: int = -1
    updated_ms: int = -1
    topics: tuple[TransactionTopic, ...] = ()


class ScramKey(Message):
    """A user's SCRAM credential, by Kafka's number of the mechanism: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    user: str = ""
    mechanism: int = 0


class ScramValue(Message):
    """The server's part of a credential, from which neither the password nor the salted password can be derived."""

    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int = 0


class AclKey(Message):
    """An access rule, in Kafka's numbers. All of its fields are in the key."""

    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 0
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class AclValue(Message):
    """The rule exists."""

    created_ms: int = -1


class QuotaPart(Message):
    """A type of entity and a name; null is the default of the type."""

    entity_type: str = ""
    entity_name: str | None = None


class QuotaKey(Message):
    """One quota of a user, a client id, both of them, or an address."""

    entity: tuple[QuotaPart, ...] = ()
    key: str = ""


class QuotaValue(Message):
    """The value of the quota."""

    value: float = 0.0


class LogKey(Message):
    """The log of a partition."""

    topic: str = ""
    partition: int = 0


class LogValue(Message):
    """The log was written to, when the topic had this id. If its directory is missing, records are lost."""

    topic_id: bytes = NO_ID


Key = TopicKey | ConfigKey | ProducerIdKey | TransactionKey | ScramKey | AclKey | QuotaKey | LogKey
Value = TopicValue | ConfigValue | ProducerIdValue | TransactionValue | ScramValue | AclValue | QuotaValue | LogValue


class CatalogRecord(Struct, frozen=True, gc=False):
    """One record of the catalog's log. Without a value it is a tombstone."""

    key: Key
    value: Value | None


_TOPIC = Schema(TransactionTopic, (
    Field("topic", STRING),
    Field("partitions", Array(INT32)),
))  # fmt: skip

_PART = Schema(QuotaPart, (
    Field("entity_type", STRING),
    Field("entity_name", NULLABLE_STRING),
))  # fmt: skip

_KEYS: Final[tuple[Schema, ...]] = (
    Schema(TopicKey, (Field("name", STRING),)),
    Schema(ConfigKey, (
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("name", STRING),
    )),
    Schema(ProducerIdKey, ()),
    Schema(TransactionKey, (Field("transactional_id", STRING),)),
    Schema(ScramKey, (
        Field("user", STRING),
        Field("mechanism", INT8),
    )),
    Schema(AclKey, (
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("pattern_type", INT8),
        Field("principal", STRING),
        Field("host", STRING),
        Field("operation", INT8),
        Field("permission_type", INT8),
    )),
    Schema(QuotaKey, (
        Field("entity", Array(_PART)),
        Field("key", STRING),
    )),
    Schema(LogKey, (
        Field("topic", STRING),
        Field("partition", INT32),
    )),
)  # fmt: skip

_VALUES: Final[tuple[Schema, ...]] = (
    Schema(TopicValue, (
        Field("id", UUID),
        Field("partitions", INT32),
        Field("replication_factor", INT16),
        Field("created_ms", INT64),
    )),
    Schema(ConfigValue, (Field("value", STRING),)),
    Schema(ProducerIdValue, (Field("next_id", INT64),)),
    Schema(TransactionValue, (
        Field("producer_id", INT64),
        Field("producer_epoch", INT16),
        Field("last_producer_epoch", INT16),
        Field("previous_producer_id", INT64),
        Field("next_producer_id", INT64),
        Field("timeout_ms", INT32),
        Field("state", INT8),
        Field("protocol", INT8),
        Field("started_ms", INT64),
        Field("updated_ms", INT64),
        Field("topics", Array(_TOPIC)),
    )),
    Schema(ScramValue, (
        Field("salt", BYTES),
        Field("stored_key", BYTES),
        Field("server_key", BYTES),
        Field("iterations", INT32),
    )),
    Schema(AclValue, (Field("created_ms", INT64),)),
    Schema(QuotaValue, (Field("value", FLOAT64),)),
    Schema(LogValue, (Field("topic_id", UUID),)),
)  # fmt: skip

KEY_TYPES: Final = tuple([schema.cls for schema in _KEYS])
"""The types of keys, of which each has a price in `core/prices.py`."""

_TYPE_OF: Final[dict[type, int]] = {schema.cls: number for number, schema in enumerate(_KEYS)}
_SCHEMA_OF: Final[dict[type, Schema]] = {schema.cls: schema for schema in (*_KEYS, *_VALUES)}
_VERSION: Final = b"\0\0"


def encode(record: CatalogRecord) -> tuple[bytes, bytes | None]:
    """Encode the record as key and value of a record in the log. The value of a tombstone is None."""
    number = _TYPE_OF[type(record.key)]
    key = number.to_bytes(2, "big") + _writer(type(record.key))(record.key)
    if record.value is None:
        return key, None
    assert _VALUES[number].cls is type(record.value), f"{type(record.key).__name__} with {type(record.value).__name__}"
    return key, _VERSION + _writer(type(record.value))(record.value)


def decode(key: bytes | None, value: bytes | None) -> CatalogRecord:
    """Decode key and value of a record in the log. Raises ProtocolError."""
    if key is None or len(key) < 2:
        raise ProtocolError("a catalog record without a key")
    number = int.from_bytes(key[:2], "big")
    if number >= len(_KEYS):
        raise ProtocolError(f"a catalog record of the unknown kind {number}")
    if value is not None and value[:2] != _VERSION:
        raise ProtocolError(f"a catalog value in a layout of another version: {value[:2].hex()}")
    return CatalogRecord(_parse(_KEYS[number], key), None if value is None else _parse(_VALUES[number], value))


@cache
def _writer(cls: type) -> Callable[[Any], bytes]:
    return encoder(_SCHEMA_OF[cls].at(0, False))


@cache
def _reader(cls: type) -> Callable[[bytes], Any]:
    return decoder(_SCHEMA_OF[cls].at(0, False))


def _parse(schema: Schema, data: bytes) -> Any:
    try:
        return _reader(schema.cls)(data[2:])
    except UNREADABLE:
        pass  # what follows says why
    try:
        return schema.at(0, False).parse_stream(Reader(data[2:]))
    except ConstructError as error:
        raise ProtocolError(f"{schema.cls.__name__} cannot be read from {data[:64].hex()}: {error}") from error
