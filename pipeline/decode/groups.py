"""Every record that is no offset commit, through the server's own schemas: one truth for what the bytes say.

These are far less than one in a hundred records of a log, so each may cost a few Python calls. Record types that the
server has no schema for (share and streams groups) become rows of `unknown_records`, with their bytes.
"""

import hashlib
from typing import Any

import msgspec

from coordinator.core import records as facts
from pipeline.decode.headers import Array
from pipeline.decode.records import Records
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import read_assignment, read_subscription

TYPE_NAMES = {
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    16: "ConsumerGroupRegularExpression",
}
_EPOCH_FIELDS = ("generation", "epoch", "assignment_epoch", "member_epoch")


class GroupRecord(msgspec.Struct, frozen=True):
    """A group's record, decoded. `index` is its place in the records, `payload` JSON of its value."""

    index: int
    key_version: int
    type: str
    group: str
    member_id: str | None
    epoch: int | None
    value_version: int | None
    is_tombstone: bool
    payload: str


class UndecodedRecord(msgspec.Struct, frozen=True):
    """A record that could not be decoded, and why."""

    index: int
    key_version: int
    value_version: int | None
    key: bytes | None
    value: bytes | None
    reason: str


def decode(records: Records, others: Array, versions: Array) -> tuple[list[GroupRecord], list[UndecodedRecord]]:
    """Return the records at the indexes `others`: those that could be read, and those that could not."""
    decoded: list[GroupRecord] = []
    unread: list[UndecodedRecord] = []
    for index in others.tolist():
        row = _one(records, index, int(versions[index]))
        if isinstance(row, GroupRecord):
            decoded.append(row)
        else:
            unread.append(row)
    return decoded, unread


def undecoded_row(records: Records, index: int, key_version: int, reason: str) -> UndecodedRecord:
    """Return the row that keeps a record's bytes."""
    key, value = _bytes(records.data, records.key[index], records.key_length[index]), _value(records, index)
    return UndecodedRecord(index, key_version, _version(value), key, value, reason)


def _one(records: Records, index: int, key_version: int) -> GroupRecord | UndecodedRecord:
    key, value = _bytes(records.data, records.key[index], records.key_length[index]), _value(records, index)
    if key is None:
        return undecoded_row(records, index, key_version, "no key")
    try:
        record = facts.decode(key, value)
    except ProtocolError as error:
        return undecoded_row(records, index, key_version, f"cannot be read: {error}")
    if isinstance(record.key, facts.UnknownKey | facts.OffsetCommitKey):
        return undecoded_row(records, index, key_version, "unknown record type")
    group: str = getattr(record.key, "group" if key_version == 2 else "group_id", "")
    epochs = [getattr(record.value, name) for name in _EPOCH_FIELDS if hasattr(record.value, name)]
    return GroupRecord(
        index=index,
        key_version=key_version,
        type=TYPE_NAMES.get(key_version, f"type {key_version}"),
        group=group,
        member_id=getattr(record.key, "member_id", None),
        epoch=epochs[0] if epochs else None,
        value_version=_version(value),
        is_tombstone=value is None,
        payload=msgspec.json.encode(_readable(record)).decode(),
    )


def _readable(record: facts.Record) -> Any:
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
        assigned = read_assignment(member.assignment).assigned_partitions if member.assignment else ()
        shown["assignment"] = {one.topic: sorted(one.partitions) for one in assigned}
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


def _value(records: Records, index: int) -> bytes | None:
    return _bytes(records.data, records.value[index], records.value_length[index])


def _bytes(data: bytes, start: int, length: int) -> bytes | None:
    return None if length < 0 else data[start : start + length]


def _version(value: bytes | None) -> int | None:
    return int.from_bytes(value[:2], "big", signed=True) if value is not None and len(value) >= 2 else None
