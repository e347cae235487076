"""What a group's record says, as columns and JSON. No numpy, so that commands can read logs without the pipeline."""

import hashlib
from typing import Any

import msgspec

from coordinator.core import records as facts
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import partitions_by_topic, read_assignment, read_subscription

_EPOCH_FIELDS = ("generation", "epoch", "assignment_epoch", "member_epoch")


def group_of(record: facts.Record) -> str:
    """Return the group's id."""
    group: str = getattr(record.key, "group" if isinstance(record.key, facts.GroupMetadataKey) else "group_id", "")
    return group


def member_of(record: facts.Record) -> str | None:
    """Return the member's id, None for a record of the whole group."""
    return getattr(record.key, "member_id", None)


def epoch_of(record: facts.Record) -> int | None:
    """Return the generation or the epoch that the record states, None if it states none."""
    return next((getattr(record.value, name) for name in _EPOCH_FIELDS if hasattr(record.value, name)), None)


def to_json_value(record: facts.Record) -> Any:
    """Return a record's value as JSON can say it: bytes as hex, what consumers say to each other spelled out."""
    if isinstance(record.value, facts.GroupMetadataValue):
        value = _plain(msgspec.structs.replace(record.value, members=()))
        value["members"] = [_member(member) for member in record.value.members]
        return value
    value = _plain(record.value) if record.value is not None else {}
    if isinstance(record.key, facts.ConsumerGroupRegularExpressionKey):
        value["regular_expression"] = record.key.regular_expression
    return value


def _member(member: facts.GroupMetadataValueMember) -> dict[str, Any]:
    shown: dict[str, Any] = _plain(msgspec.structs.replace(member, subscription=b"", assignment=b""))
    shown["subscription"] = hashlib.sha256(_subscription_of(member.subscription)).hexdigest()[:16]
    shown["topics"], shown["assignment"] = None, {}
    try:
        shown["topics"] = sorted(read_subscription(member.subscription).topics)
        if member.assignment:
            shown["assignment"] = partitions_by_topic(read_assignment(member.assignment))
    except ProtocolError:
        pass  # another protocol than consumers speak (Kafka Connect): its bytes mean nothing here
    return shown


def _subscription_of(subscription: bytes) -> bytes:
    """Read a member's subscription without its owned partitions, which change with every rebalance."""
    try:
        said = read_subscription(subscription)
    except ProtocolError:
        return subscription
    return msgspec.json.encode((sorted(said.topics), said.rack_id))


def _plain(value: Any) -> Any:
    """Return structs as dicts, and bytes as hex."""
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value
