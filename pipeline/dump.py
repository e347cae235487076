"""Print segments line by line as `kafka-dump-log.sh` does: batches, and below them their records.

The records are decoded as with `--offsets-decoder`, those of `__share_group_state` as with
`--share-group-state-decoder`. Kafka's tool stops at the first byte that is no batch, and so does this one.
"""

import base64
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from coordinator.core import records as facts
from coordinator.core.catalog.names import SHARE_STATE_TOPIC
from coordinator.core.record_schemas import BY_KEY
from coordinator.core.share_state import records as states
from pipeline.decode import plain
from pipeline.decode.codecs import NAMES, InflateError
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    read_assignment,
    read_subscription,
    version_of,
)
from protocol.schema import Schema
from protocol.wire import UUID

INVALID, UNREAD = "Found ", "Error in the batch "  # how lines about what cannot be read begin, as in Kafka's tool
PAYLOAD, UNDECODED = " payload: ", "<cannot be read: "  # in the line of a record
CONTROL_TYPES = {0: "ABORT", 1: "COMMIT"}
CODECS = {0: "none", **NAMES}
HORIZON_BIT = 64  # of the attributes: the first timestamp is the delete horizon


class RecordFormat(msgspec.Struct, frozen=True):
    """How the records of a topic are read, and by which schemas they are printed: of a key and of its value."""

    decode: Callable[[bytes, bytes | None], Any]
    schemas: Callable[[Any], tuple[Schema, Schema] | None]  # by the key; None for a type that nobody here knows


def _schemas_of_group_record(key: Any) -> tuple[Schema, Schema] | None:
    kind = BY_KEY.get(type(key))
    return None if kind is None else (kind.key, kind.value)


OFFSETS: Final = RecordFormat(facts.decode, _schemas_of_group_record)
SHARE_STATES: Final = RecordFormat(states.decode, states.schemas_of)


def form_of(topic: str) -> RecordFormat:
    """Return the format of a topic's records: that of `__consumer_offsets` for any but `__share_group_state`."""
    return SHARE_STATES if topic == SHARE_STATE_TOPIC else OFFSETS


def dump(name: str, data: bytes, form: RecordFormat = OFFSETS) -> Iterator[str]:
    """Yield the lines for one segment file."""
    yield f"Dumping {name}"
    digits = name.rsplit("/", 1)[-1].removesuffix(".log")
    yield f"Log starting offset: {int(digits) if digits.isdecimal() else 0}"
    end = 0
    for batch in plain.batches(data):
        end = batch.pos + 12 + batch.length
        yield _batch_line(batch)
        if not batch.valid:
            continue
        try:
            for record in plain.records(data, batch):
                yield _record_line(batch, record, form)
        except (InflateError, ValueError, IndexError) as error:
            yield f"{UNREAD}at offset {batch.base_offset}, skipping: {error}"
    if end < len(data):
        yield f"{INVALID}{len(data) - end} invalid bytes at the end of {name}"


def is_problem(line: str) -> bool:
    """Return whether a line tells of bytes that are no batch, of a wrong checksum, or of records that make no sense."""
    if line.startswith("| "):
        return line.rpartition(PAYLOAD)[2].startswith(UNDECODED) and line.endswith(">")
    return line.startswith((INVALID, UNREAD)) or (line.startswith("baseOffset: ") and line.endswith("isvalid: false"))


def _batch_line(batch: plain.PlainBatch) -> str:
    sequence = batch.base_sequence
    last_sequence = _sequence(batch, batch.last_delta)
    horizon = f"OptionalLong[{batch.base_ts}]" if batch.attributes & HORIZON_BIT else "OptionalLong.empty"
    fields = {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.base_offset + batch.last_delta,
        "count": batch.count,
        "baseSequence": sequence,
        "lastSequence": last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.leader_epoch,
        "isTransactional": str(batch.is_txn).lower(),
        "isControl": str(batch.is_control).lower(),
        "deleteHorizonMs": horizon,
        "position": batch.pos,
        _time_name(batch): batch.max_ts,
        "size": batch.length + 12,
        "magic": batch.magic,
        "compresscodec": CODECS.get(batch.attributes & 7, "unknown"),
        "crc": batch.crc,
        "isvalid": str(batch.valid).lower(),
    }
    return " ".join(f"{key}: {value}" for key, value in fields.items())


def _sequence(batch: plain.PlainBatch, delta: int) -> int:
    """Return the sequence number of a record, -1 without one. Behind the highest number comes 0."""
    return (batch.base_sequence + delta) & 0x7FFFFFFF if batch.base_sequence >= 0 else -1


def _time_name(batch: plain.PlainBatch) -> str:
    return "LogAppendTime" if batch.attributes & 8 else "CreateTime"


def _record_line(batch: plain.PlainBatch, record: plain.PlainRecord, form: RecordFormat) -> str:
    sequence = _sequence(batch, record.offset - batch.base_offset)
    sizes = [-1 if part is None else len(part) for part in (record.key, record.value)]
    head = (
        f"| offset: {record.offset} {_time_name(batch)}: {record.ts} keySize: {sizes[0]} valueSize: {sizes[1]}"
        f" sequence: {sequence} headerKeys: []"
    )
    if batch.is_control:
        return f"{head} {_control(record)}"
    return f"{head} {_key_and_payload(record, form)}"


def _control(record: plain.PlainRecord) -> str:
    """Return what a control record says. Raises ValueError for one without a type."""
    kind = plain.control_type(record)
    if kind not in CONTROL_TYPES:
        return f"controlType: UNKNOWN({kind})"
    assert record.value is not None, "checked with its type"
    epoch = int.from_bytes(record.value[2:6], "big", signed=True)
    return f"endTxnMarker: {CONTROL_TYPES[kind]} coordinatorEpoch: {epoch}"


def _key_and_payload(record: plain.PlainRecord, form: RecordFormat) -> str:
    if record.key is None or len(record.key) < 2:
        return "key: <none>"
    number = int.from_bytes(record.key[:2], "big", signed=True)
    try:
        fact = form.decode(record.key, record.value)
    except ProtocolError as error:
        return f"key: {_text({'type': str(number), 'data': record.key[2:].hex()})}{PAYLOAD}{UNDECODED}{error}>"
    schemas = form.schemas(fact.key)
    if schemas is None:
        value = "<DELETE>" if record.value is None else _text(record.value.hex())
        return f"key: {_text({'type': str(number), 'data': record.key[2:].hex()})} payload: {value}"
    of_key, of_value = schemas
    key = _text({"type": str(number), "data": to_json(of_key, fact.key, 0)})
    if record.value is None:
        return f"key: {key} payload: <DELETE>"
    version = int.from_bytes(record.value[:2], "big", signed=True)
    return f"key: {key} payload: {_text({'version': str(version), 'data': to_json(of_value, fact.value, version)})}"


def to_json(schema: Schema, message: Any, version: int) -> dict[str, Any]:
    """Return a message as Kafka's JSON converters write it: names in camel case, and the fields of that version.

    A tagged field is left out at its default, unless it is null.
    """
    fields = {}
    for field in schema.fields:
        value = getattr(message, field.name)
        default = getattr(type(message)(), field.name)
        if field.is_in(version) and (field.tag is None or value is None or value != default):
            head, *rest = field.name.split("_")
            fields[head + "".join(word.capitalize() for word in rest)] = _value(field.type, value, version)
    if isinstance(message, facts.GroupMetadataValueMember):
        fields |= _consumer_protocol(message)
    return fields


def _consumer_protocol(member: facts.GroupMetadataValueMember) -> dict[str, Any]:
    """Return the fields that Kafka's tool prints decoded: subscription and assignment, where a consumer wrote them."""
    parts: dict[str, Any] = {}
    try:
        parts["subscription"] = to_json(
            SUBSCRIPTION, read_subscription(member.subscription), version_of(member.subscription)
        )
        if member.assignment:
            parts["assignment"] = to_json(ASSIGNMENT, read_assignment(member.assignment), version_of(member.assignment))
    except ProtocolError:
        return {}
    return parts


def _value(kind: Any, value: Any, version: int) -> Any:
    if isinstance(value, bytes):
        if kind is UUID:  # Kafka writes ids in base64 for URLs without padding, other bytes in the plain one
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        return base64.b64encode(value).decode()
    if isinstance(value, tuple):
        return [_value(getattr(kind, "of", None), one, version) for one in value]
    inner = kind if isinstance(kind, Schema) else getattr(kind, "of", None)
    if inner is None:
        inner = getattr(kind, "schema", None)
    return to_json(inner, value, version) if isinstance(inner, Schema) and value is not None else value


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
