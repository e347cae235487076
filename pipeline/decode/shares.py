"""Records of `__share_group_state`: what a share coordinator remembers of share partitions (KIP-932).

Each record is decoded by the server's own schemas: a snapshot states the whole of a share partition, an update what has
changed since. What they come to is computed by `pipeline.history.shares`.
"""

from typing import Any

import msgspec

from coordinator.core.share_state import records as states
from pipeline.decode.groups import UndecodedRecord, key_and_value, undecoded_row, value_version
from pipeline.decode.records import Records
from protocol.errors import ProtocolError


class ShareRecord(msgspec.Struct, frozen=True):
    """A record, decoded. `index` is its place in the records. An update has no state epoch and no times."""

    index: int
    key_version: int
    type: str
    group: str
    topic_id: str
    partition: int
    value_version: int | None
    is_tombstone: bool
    snapshot_epoch: int | None = None
    state_epoch: int | None = None
    leader_epoch: int | None = None
    start_offset: int | None = None
    delivery_complete_count: int | None = None
    create_ts: int | None = None
    write_ts: int | None = None
    batches: list[dict[str, Any]] | None = None


def decode(records: Records) -> tuple[list[ShareRecord], list[UndecodedRecord]]:
    """Return the records that could be read, and those that could not."""
    decoded: list[ShareRecord] = []
    unread: list[UndecodedRecord] = []
    for index in range(len(records.offset)):
        row = _one(records, index)
        if isinstance(row, ShareRecord):
            decoded.append(row)
        else:
            unread.append(row)
    return decoded, unread


def _one(records: Records, index: int) -> ShareRecord | UndecodedRecord:
    key, value = key_and_value(records, index)
    if key is None:
        return undecoded_row(records, index, -1, "no key")
    number = int.from_bytes(key[:2], "big", signed=True)
    try:
        record = states.decode(key, value)
    except ProtocolError as error:
        return undecoded_row(records, index, number, f"cannot be read: {error}")
    if isinstance(record.key, states.UnknownStateKey):
        return undecoded_row(records, index, number, "unknown record type")
    return ShareRecord(
        index=index,
        key_version=number,
        type=type(record.key).__name__.removesuffix("Key"),
        group=record.key.group_id,
        topic_id=record.key.topic_id.hex(),
        partition=record.key.partition,
        value_version=value_version(value),
        is_tombstone=value is None,
        **_facts(record.value),
    )


def _facts(value: Any) -> dict[str, Any]:
    """Return the columns of a value; none of a tombstone."""
    if value is None:
        return {}
    facts: dict[str, Any] = msgspec.structs.asdict(value)
    facts["batches"] = [msgspec.structs.asdict(batch) for batch in facts.pop("state_batches")]
    if isinstance(value, states.ShareSnapshotValue):
        facts["create_ts"], facts["write_ts"] = facts.pop("create_timestamp"), facts.pop("write_timestamp")
    return facts
