"""What became of the records of a share partition, by what the share coordinator has written of it. Plain Python.

    records, in order ──► the server's own state machine ──► the state at the end, in batches
                     └──► ranges that were archived, each when a record first says so

An archived range leaves the state when the start offset has passed it. So what was given up is known by the records
alone, for as long as the log has them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from coordinator.core.share_state.machine import StateMachine
from coordinator.core.share_state.records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateRecord,
)
from coordinator.core.share_state.values import NO_OFFSET, DeliveryState, StateBatch, StateKey

SNAPSHOT = 0  # the version of the key
STATES = {
    DeliveryState.AVAILABLE: "available",
    DeliveryState.ACKNOWLEDGED: "acknowledged",
    DeliveryState.ARCHIVED: "archived",
}


class ArchivedRange(msgspec.Struct, frozen=True):
    """Records that are delivered no more without having been accepted, since the record at `log_offset`."""

    first_offset: int
    last_offset: int
    records: int
    delivery_count: int
    at_ms: int
    log_offset: int


class Delivery(msgspec.Struct, frozen=True):
    """Records from the start offset on that follow each other and share one fate."""

    first_offset: int
    last_offset: int
    records: int
    state: str  # available: given back, for the next delivery; acknowledged; archived
    delivery_count: int


class ShareState(msgspec.Struct, frozen=True):
    """Where a share partition stands. The counts are of records in its batches."""

    state_epoch: int
    leader_epoch: int
    snapshot_epoch: int
    start_offset: int
    delivery_complete_count: int
    available: int
    acknowledged: int
    archived: int
    max_delivery_count: int
    record_ts: int
    log_offset: int


Row = ArchivedRange | Delivery | ShareState


class ShareHistory:
    """A share partition, record by record. `apply` yields what it archives, `end` returns what there is."""

    def __init__(self, group: str, topic_id: str, partition: int) -> None:
        self._key = StateKey(group, bytes.fromhex(topic_id), partition)
        self._machine = StateMachine(updates_per_snapshot=1)
        self._archived: list[tuple[int, int]] = []  # ranges of this state that are known, from its start offset on
        self._at = (0, 0)  # the time and the offset of the last record

    def apply(self, row: Mapping[str, Any]) -> Iterator[ArchivedRange]:
        """Take the next row of `share_records`."""
        epoch = self._state_epoch()
        record = _record(self._key, row)
        self._machine.apply(record)
        self._at = row["record_ts"], row["log_offset"]
        if record.value is None or self._state_epoch() != epoch:  # the state is gone, or begins anew
            self._archived = []
        entry = self._machine.entries.get(self._key)
        if entry is None:
            return
        start = entry.head.start_offset
        self._archived = [one for one in self._archived if one[1] >= start]
        for batch in _batches(row):
            if batch.delivery_state == DeliveryState.ARCHIVED:
                yield from self._note_archived(batch)

    def end(self) -> tuple[ShareState | None, list[Delivery]]:
        """Return the state and its batches; none of a state that was deleted."""
        entry = self._machine.entries.get(self._key)
        if entry is None:
            return None, []
        state, counts, deliveries = entry.state, dict.fromkeys(STATES.values(), 0), list[Delivery]()
        for batch in state.batches:
            name = _name(batch.delivery_state)
            counts[name] = counts.get(name, 0) + _size(batch)
            deliveries.append(Delivery(batch.first_offset, batch.last_offset, _size(batch), name, batch.delivery_count))
        found = ShareState(
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            snapshot_epoch=state.snapshot_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            available=counts["available"],
            acknowledged=counts["acknowledged"],
            archived=counts["archived"],
            max_delivery_count=max([batch.delivery_count for batch in state.batches], default=0),
            record_ts=self._at[0],
            log_offset=self._at[1],
        )
        return found, deliveries

    def _state_epoch(self) -> int:
        entry = self._machine.entries.get(self._key)
        return NO_OFFSET if entry is None else entry.head.state_epoch

    def _note_archived(self, batch: StateBatch) -> Iterator[ArchivedRange]:
        """Yield the parts of a batch that were not known to be archived."""
        first, known = batch.first_offset, sorted(self._archived)
        parts = list[tuple[int, int]]()
        for start, end in known:
            if end < first or start > batch.last_offset:
                continue
            if start > first:
                parts.append((first, start - 1))
            first = end + 1
        if first <= batch.last_offset:
            parts.append((first, batch.last_offset))
        self._archived += parts
        for start, end in parts:
            yield ArchivedRange(start, end, end - start + 1, batch.delivery_count, *self._at)


def _record(key: StateKey, row: Mapping[str, Any]) -> StateRecord:
    """Return the record that a row was decoded from."""
    if row["key_version"] == SNAPSHOT:
        name = ShareSnapshotKey(key.group_id, key.topic_id, key.partition)
        return StateRecord(name, None if row["is_tombstone"] else ShareSnapshotValue(
            row["snapshot_epoch"], row["state_epoch"], row["leader_epoch"], row["start_offset"],
            row["delivery_complete_count"], row["create_ts"], row["write_ts"], tuple(_batches(row)),
        ))  # fmt: skip
    value = None if row["is_tombstone"] else ShareUpdateValue(
        row["snapshot_epoch"], row["leader_epoch"], row["start_offset"], row["delivery_complete_count"],
        tuple(_batches(row)),
    )  # fmt: skip
    return StateRecord(ShareUpdateKey(key.group_id, key.topic_id, key.partition), value)


def _batches(row: Mapping[str, Any]) -> Iterable[StateBatch]:
    return [StateBatch(**batch) for batch in row["batches"] or ()]


def _size(batch: StateBatch) -> int:
    return batch.last_offset - batch.first_offset + 1


def _name(state: int) -> str:
    return STATES.get(DeliveryState(state), str(state)) if state in set(DeliveryState) else str(state)
