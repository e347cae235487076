"""Every record that is no offset commit, through the server's own schemas: one truth for what the bytes say.

These are far less than one in a hundred records of a log, so each may cost a few Python calls. Record types that the
server has no schema for become rows of `unknown_records`, with their bytes.
"""

import msgspec

from coordinator.core import records as facts
from pipeline.decode.headers import Array
from pipeline.decode.records import Records
from pipeline.history.values import epoch_of, group_of, member_of, to_json_value
from protocol.errors import ProtocolError


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
    key, value = key_and_value(records, index)
    return UndecodedRecord(index, key_version, value_version(value), key, value, reason)


def key_and_value(records: Records, index: int) -> tuple[bytes | None, bytes | None]:
    """Return the bytes of a record."""
    key = _bytes(records.data, records.key[index], records.key_length[index])
    return key, _bytes(records.data, records.value[index], records.value_length[index])


def value_version(value: bytes | None) -> int | None:
    """Return the version with which a value begins; None without one."""
    return int.from_bytes(value[:2], "big", signed=True) if value is not None and len(value) >= 2 else None


def _one(records: Records, index: int, key_version: int) -> GroupRecord | UndecodedRecord:
    key, value = key_and_value(records, index)
    if key is None:
        return undecoded_row(records, index, key_version, "no key")
    try:
        record = facts.decode(key, value)
    except ProtocolError as error:
        return undecoded_row(records, index, key_version, f"cannot be read: {error}")
    if isinstance(record.key, facts.UnknownKey | facts.OffsetCommitKey):
        return undecoded_row(records, index, key_version, "unknown record type")
    return GroupRecord(
        index=index,
        key_version=key_version,
        type=type(record.key).__name__.removesuffix("Key"),
        group=group_of(record),
        member_id=member_of(record),
        epoch=epoch_of(record),
        value_version=value_version(value),
        is_tombstone=value is None,
        payload=msgspec.json.encode(to_json_value(record)).decode(),
    )


def _bytes(data: bytes, start: int, length: int) -> bytes | None:
    return None if length < 0 else data[start : start + length]
