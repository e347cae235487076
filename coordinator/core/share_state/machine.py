"""The states of one partition of `__share_group_state`: what each request leads to, and what each record says.

    request ──► validate ──► StateDecision(answer, record) ──► encode ──► apply       a failed encoding changes nothing

Kafka: `ShareCoordinatorShard`.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.pace import empty_in_steps
from coordinator.core.refusal import Refusal
from coordinator.core.share_state.combine import combine_batches
from coordinator.core.share_state.entry import Entry
from coordinator.core.share_state.records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateRecord,
)
from coordinator.core.share_state.values import (
    NO_OFFSET,
    UNCHECKED_EPOCH,
    UNKNOWN_COUNT,
    ShareState,
    StateBatch,
    StateKey,
    StateSummary,
    StateUpdate,
)
from coordinator.core.topics import Topics
from coordinator.core.weights import weigh_text
from protocol.errors import ErrorCode
from protocol.steps import Steps

NEGATIVE_PARTITION: Final = "The partition id cannot be a negative number."
NOT_INITIALIZED: Final = "{} operation on uninitialized share partition not allowed."
_FENCED_LEADER: Final = Refusal(
    ErrorCode.FENCED_LEADER_EPOCH, "The leader epoch in the request is older than the epoch on the broker."
)
_FENCED_STATE: Final = Refusal(
    ErrorCode.FENCED_STATE_EPOCH,
    "The share coordinator rejected the request because the share-group state epoch did not match.",
)
_UNKNOWN_PARTITION: Final = Refusal(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)


NO_ROOM: Final = Refusal(ErrorCode.POLICY_VIOLATION, "There is no room for more states of share partitions.")


def _hold_nothing(more_bytes: int) -> None:
    """Count nothing, for a machine by itself."""


class StateDecision(Struct, frozen=True):
    """The answer to a request, and the record that it leads to, if any."""

    answer: Any
    record: StateRecord | None = None


class StateMachine:
    """The states of share partitions that one partition of `__share_group_state` remembers."""

    def __init__(
        self,
        updates_per_snapshot: int,
        hold: Callable[[int], None] = _hold_nothing,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """`hold` is told how many bytes more the states take, `has_room` says whether there is room for another one."""
        self.entries: dict[StateKey, Entry] = {}
        self.bytes = 0  # of memory that the states take
        self.tombstone_offset = 0  # of the latest one
        self._updates_per_snapshot = updates_per_snapshot
        self._hold_bytes = hold
        self._has_room = has_room

    # -- requests ------------------------------------------------------------------------------------------------------

    def initialize(
        self, key: StateKey, state_epoch: int, start_offset: int, topics: Topics, now_ms: int
    ) -> StateDecision:
        """Begin the state anew. Kafka: `initializeState`."""
        entry = self.entries.get(key)
        if key.partition < 0:
            return StateDecision(Refusal(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION))
        if entry is not None and _is_older(state_epoch, entry.state_epoch):
            return StateDecision(_FENCED_STATE)
        if not _exists(key, topics):
            return StateDecision(_UNKNOWN_PARTITION)
        if entry is None and not self._has_room():
            return StateDecision(NO_ROOM)
        state = ShareState(
            state_epoch=state_epoch,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN_COUNT if start_offset == NO_OFFSET else 0,
            snapshot_epoch=0 if entry is None else entry.head.snapshot_epoch + 1,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
        )
        return StateDecision(None, snapshot_record(key, state))

    def read(self, key: StateKey, leader_epoch: int, topics: Topics, now_ms: int) -> StateDecision:
        """Answer with the state. Kafka: `readStateAndMaybeUpdateLeaderEpoch`."""
        entry = self.entries.get(key)
        if refused := _refuse(key, entry, "Read", leader_epoch, UNCHECKED_EPOCH, topics):
            return StateDecision(refused)
        assert entry is not None, "a state that is not there is refused"
        state = entry.state
        if leader_epoch in (UNCHECKED_EPOCH, entry.leader_epoch):
            return StateDecision(state)
        update = StateUpdate(state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count)
        return StateDecision(state, self._record(key, entry, update, leader_epoch, now_ms))

    def summarize(self, key: StateKey, topics: Topics) -> StateDecision:
        """Answer with offsets and epochs. Kafka: `readStateSummary`."""
        if key.partition < 0:
            return StateDecision(Refusal(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION))
        if not _exists(key, topics):
            return StateDecision(_UNKNOWN_PARTITION)
        entry = self.entries.get(key)
        if entry is None:
            return StateDecision(StateSummary())
        head = entry.head
        return StateDecision(
            StateSummary(head.state_epoch, head.leader_epoch, head.start_offset, head.delivery_complete_count)
        )

    def write(self, key: StateKey, update: StateUpdate, topics: Topics, now_ms: int) -> StateDecision:
        """Change the state. Kafka: `writeState`."""
        entry = self.entries.get(key)
        if refused := _refuse(key, entry, "Write", update.leader_epoch, update.state_epoch, topics):
            return StateDecision(refused)
        assert entry is not None, "a state that is not there is refused"
        return StateDecision(None, self._record(key, entry, update, entry.head.leader_epoch, now_ms))

    def delete(self, key: StateKey, topics: Topics) -> StateDecision:
        """Forget the state; without an error if there is none. Kafka: `deleteState`."""
        if key.partition < 0:
            return StateDecision(Refusal(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION))
        if not _exists(key, topics):
            return StateDecision(_UNKNOWN_PARTITION)
        return StateDecision(None, tombstone(key) if key in self.entries else None)

    def remove_topics(self, topic_ids: Collection[bytes]) -> list[StateRecord]:
        """Return the records that end the states of topics that are no more. Kafka: `maybeCleanupShareState`."""
        return [tombstone(key) for key in self.entries if key.topic_id in topic_ids]

    def snapshot_cold(self, now_ms: int, interval_ms: int) -> Iterator[StateRecord]:
        """Return a snapshot of each state that has had none for long, so that the log's beginning can be deleted.

        States may change and go meanwhile.
        Kafka: `snapshotColdPartitions`.
        """
        if all(entry.head.create_timestamp != entry.head.write_timestamp for entry in self.entries.values()):
            return
        for key in tuple(self.entries):
            entry = self.entries.get(key)  # None: it was deleted between two steps
            if entry is not None and now_ms - entry.head.write_timestamp >= interval_ms:
                state = entry.state
                yield snapshot_record(
                    key, replace(state, snapshot_epoch=state.snapshot_epoch + 1, write_timestamp=now_ms)
                )

    def _record(self, key: StateKey, entry: Entry, update: StateUpdate, leader_epoch: int, now_ms: int) -> StateRecord:
        """Return the record of a change: a snapshot after so many updates. Kafka: `generateShareStateRecord`."""
        if entry.updates < self._updates_per_snapshot:
            value = ShareUpdateValue(
                snapshot_epoch=entry.head.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=update.start_offset,
                delivery_complete_count=update.delivery_complete_count,
                state_batches=_combine_few(update.batches, update.start_offset),
            )
            return StateRecord(ShareUpdateKey(key.group_id, key.topic_id, key.partition), value)
        state = entry.state
        start_offset = state.start_offset if update.start_offset == NO_OFFSET else update.start_offset
        return snapshot_record(key, ShareState(
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=update.delivery_complete_count,
            batches=combine_batches((*state.batches, *update.batches), start_offset),
            snapshot_epoch=state.snapshot_epoch + 1,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
        ))  # fmt: skip

    # -- records -------------------------------------------------------------------------------------------------------

    def apply(self, record: StateRecord) -> None:
        """Apply a record, new or from the log. One of an unknown type says nothing."""
        key, value = record.key, record.value
        if isinstance(key, ShareSnapshotKey):
            name = StateKey(key.group_id, key.topic_id, key.partition)
            if value is None:
                if (entry := self.entries.pop(name, None)) is not None:
                    self._hold(-entry.counted_bytes)
            elif isinstance(value, ShareSnapshotValue):
                self._apply_snapshot(name, value)
        elif isinstance(key, ShareUpdateKey) and isinstance(value, ShareUpdateValue):
            self._apply_update(StateKey(key.group_id, key.topic_id, key.partition), value)

    def note_offset(self, record: StateRecord, offset: int) -> None:
        """Note where in the log a record is: what is before the oldest of the latest snapshots is not needed."""
        key = record.key
        if not isinstance(key, ShareSnapshotKey):
            return
        if record.value is None:
            self.tombstone_offset = max(self.tombstone_offset, offset)
        elif (entry := self.entries.get(StateKey(key.group_id, key.topic_id, key.partition))) is not None:
            entry.snapshot_offset = max(entry.snapshot_offset, offset)

    def forget(self) -> Steps[None]:
        """Forget everything in steps: what the states take is long to free. The machine is of no use then."""
        return empty_in_steps(self.entries)

    @property
    def needed_offset(self) -> int:
        """The offset below which no record of the log is needed. Kafka: `ShareCoordinatorOffsetsManager`."""
        return min([entry.snapshot_offset for entry in self.entries.values()], default=self.tombstone_offset)

    def _apply_snapshot(self, key: StateKey, value: ShareSnapshotValue) -> None:
        state = ShareState(
            state_epoch=value.state_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=value.state_batches,
            snapshot_epoch=value.snapshot_epoch,
            create_timestamp=value.create_timestamp,
            write_timestamp=value.write_timestamp,
        )
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(state)
        else:
            entry.restart(state)
            entry.leader_epoch = max(entry.leader_epoch, value.leader_epoch)
            entry.state_epoch = max(entry.state_epoch, value.state_epoch)
            if entry.updates >= self._updates_per_snapshot:
                entry.updates = 0
        self._weigh(key, entry)

    def _apply_update(self, key: StateKey, value: ShareUpdateValue) -> None:
        entry = self.entries.get(key)
        if entry is None:  # the log lacks its snapshot
            entry = self.entries[key] = Entry(ShareState(start_offset=value.start_offset))
        head = entry.head
        start_offset = head.start_offset if value.start_offset == NO_OFFSET else value.start_offset
        leader_epoch = head.leader_epoch if value.leader_epoch == UNCHECKED_EPOCH else value.leader_epoch
        entry.leader_epoch = max(entry.leader_epoch, value.leader_epoch)
        entry.updates += 1
        entry.note(
            replace(
                head,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=value.delivery_complete_count,
            ),
            value.state_batches,
        )
        self._weigh(key, entry)

    def _weigh(self, key: StateKey, entry: Entry) -> None:
        """Count what a state takes now."""
        taken_bytes = entry.bytes + weigh_text(key.group_id)
        more_bytes, entry.counted_bytes = taken_bytes - entry.counted_bytes, taken_bytes
        if more_bytes:
            self._hold(more_bytes)

    def _hold(self, more_bytes: int) -> None:
        self.bytes += more_bytes
        self._hold_bytes(more_bytes)


def snapshot_record(key: StateKey, state: ShareState) -> StateRecord:
    """Return the record of a whole state."""
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_timestamp,
        write_timestamp=state.write_timestamp,
        state_batches=state.batches,
    )
    return StateRecord(ShareSnapshotKey(key.group_id, key.topic_id, key.partition), value)


def tombstone(key: StateKey) -> StateRecord:
    """Return the record that ends a state."""
    return StateRecord(ShareSnapshotKey(key.group_id, key.topic_id, key.partition), None)


def _refuse(
    key: StateKey, entry: Entry | None, operation: str, leader_epoch: int, state_epoch: int, topics: Topics
) -> Refusal | None:
    """Return why a state is neither read nor written."""
    if key.partition < 0:
        return Refusal(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
    if entry is None:
        return Refusal(ErrorCode.INVALID_REQUEST, NOT_INITIALIZED.format(operation))
    if _is_older(leader_epoch, entry.leader_epoch):
        return _FENCED_LEADER
    if _is_older(state_epoch, entry.state_epoch):
        return _FENCED_STATE
    return None if _exists(key, topics) else _UNKNOWN_PARTITION


def _is_older(epoch: int, latest: int) -> bool:
    return epoch != UNCHECKED_EPOCH and epoch < latest


def _exists(key: StateKey, topics: Topics) -> bool:
    topic = topics.by_id(key.topic_id)
    return topic is not None and key.partition < topic.partitions


def _combine_few(batches: tuple[StateBatch, ...], start_offset: int) -> tuple[StateBatch, ...]:
    """Combine the batches of one update; nearly all have a single one."""
    if len(batches) == 1 and (start_offset == NO_OFFSET or batches[0].first_offset >= start_offset):
        return batches
    return combine_batches(batches, start_offset) if batches else ()
