"""All offsets of a shard. Only applied records change them, so start-up and normal work share one code path.

Offsets are many, so they are not frozen values but nested dicts: group -> topic -> partition -> value, the last of them
as columns while it can be (`topic_offsets`).

A transactional offset is pending under its producer until that producer's marker. A commit marker makes it the
committed one unless something later in the log was committed to the same partition meanwhile; so what becomes
committed overtakes all that is pending from before it, and the committed values need to remember no log position.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct

from coordinator.core.decision import Steps
from coordinator.core.offsets.topic_offsets import TopicOffsets
from coordinator.core.pace import Pace
from coordinator.core.record_types import OffsetCommitKey, OffsetCommits, OffsetCommitValue, Record, single_records

NOT_TRANSACTIONAL: Final = -1

_NOTHING: Final[dict[str, TopicOffsets]] = {}
_NO_OFFSETS: Final[dict[int, OffsetCommitValue]] = {}
_NOBODY: Final[dict[tuple[str, int], set[int]]] = {}
_NOT_PENDING: Final[dict[OffsetCommitKey, "Pending"]] = {}


OFFSET_BYTES: Final = 256
"""What a committed offset takes in memory with its place in the tables, beside its metadata; in columns it is less."""


FREED_AT_ONCE: Final = 1_000  # pending offsets


def _hold_nothing(more_bytes: int) -> None:
    """Count nothing, for a store by itself."""


Note = Callable[[OffsetCommitKey, OffsetCommitValue | None, OffsetCommitValue], None]
"""Is told of an offset that becomes committed, with the value before."""


def note_nothing(key: OffsetCommitKey, before: OffsetCommitValue | None, after: OffsetCommitValue) -> None:
    """Note nothing, where commits cannot be lost."""


def _pending_bytes(value: OffsetCommitValue) -> int:
    return 2 * OFFSET_BYTES + len(value.metadata)


class Pending(Struct, gc=False):
    """A transactional offset whose transaction is open."""

    order: int  # its place among the changes of this store; a batch of commits may share one
    value: OffsetCommitValue
    overtaken: bool = False  # something later has been committed: its marker will change nothing


class Remains(Struct, gc=False):
    """The offsets of a group that has ended, until their tombstones are written."""

    committed: dict[str, TopicOffsets]
    pending: dict[tuple[str, int], set[int]]  # producers by partition


class OffsetStore:
    """Committed and pending offsets of all groups of a shard."""

    __slots__ = (
        "_committed",
        "_ending",
        "_hold_bytes",
        "_open",
        "_order",
        "_pending",
        "_remains",
        "bytes",
        "count",
        "metadata_bytes",
    )  # fmt: skip

    def __init__(self, hold: Callable[[int], None] = _hold_nothing) -> None:
        """`hold` is told how many bytes more the offsets take."""
        self.count = 0  # committed offsets
        self.bytes = 0  # of memory that all offsets take, committed and pending
        self.metadata_bytes = 0  # of it, the metadata of committed offsets
        self._hold_bytes = hold
        self._committed: dict[str, dict[str, TopicOffsets]] = {}
        self._pending: dict[int, dict[OffsetCommitKey, Pending]] = {}  # by producer id
        self._ending: dict[int, tuple[frozenset[str], Steps[None]]] = {}  # by producer: groups, and what is left
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}  # group -> partition -> producers
        self._remains: dict[str, Remains] = {}  # by group
        self._order = 0

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, OffsetCommitValue]]:
        """Return the committed offsets of a group, by topic and partition. To be read at once, not kept."""
        return self._committed.get(group_id, _NOTHING)

    def of_topic(self, group_id: str, topic: str) -> Mapping[int, OffsetCommitValue]:
        """Return the committed offsets of a group in a topic, by partition. To be read at once, not kept."""
        offsets = self._committed.get(group_id, _NOTHING).get(topic)
        return _NO_OFFSETS if offsets is None else offsets.by_partition()

    def find_joint_commits(self, group_id: str, topic: str, partitions: tuple[int, ...]) -> OffsetCommits | None:
        """Return the commit that has a group's offsets of just these partitions, None if there is none such."""
        offsets = self._committed.get(group_id, _NOTHING).get(topic)
        return None if offsets is None else offsets.together(partitions)

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """Return the committed offset, None without one."""
        return self.of_topic(group_id, topic).get(partition)

    def count_up_to(self, most: int, group_id: str) -> int:
        """Return the number of committed offsets of a group, or of its topics if they are more than `most`."""
        topics = self.of_group(group_id)
        return len(topics) if len(topics) > most else sum(map(len, topics.values()))

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether any open transaction has an offset of that partition."""
        return (topic, partition) in self._open.get(group_id, _NOBODY)

    def has_any_pending(self, group_id: str) -> bool:
        """Return whether any open transaction has an offset of the group."""
        return group_id in self._open

    def pending_offsets_of(self, group_id: str) -> Mapping[tuple[str, int], set[int]]:
        """Return the partitions with pending offsets of a group, with their producers. To be read at once, not kept."""
        return self._open.get(group_id, _NOBODY)

    def keys(self, group_id: str) -> Iterator[OffsetCommitKey]:
        """Yield each partition of the group with a committed or a pending offset, once."""
        committed = self.of_group(group_id)
        for topic, partitions in committed.items():
            for partition in partitions:
                yield OffsetCommitKey(group_id, topic, partition)
        for topic, partition in self.pending_offsets_of(group_id):
            if partition not in committed.get(topic, {}):
                yield OffsetCommitKey(group_id, topic, partition)

    def values_at(self, key: OffsetCommitKey) -> list[OffsetCommitValue]:
        """Return all offsets of a partition, committed and pending."""
        committed = self.get(key.group, key.topic, key.partition)
        producers = self.pending_offsets_of(key.group).get((key.topic, key.partition), ())
        pending = [self._pending[producer_id][key].value for producer_id in producers]
        return pending if committed is None else [committed, *pending]

    def entries(self, group_id: str) -> Iterator[tuple[OffsetCommitKey, OffsetCommitValue]]:
        """Yield all offsets of the group, committed and pending."""
        for topic, partitions in self.of_group(group_id).items():
            for partition, value in partitions.items():
                yield OffsetCommitKey(group_id, topic, partition), value
        for (topic, partition), producers in self.pending_offsets_of(group_id).items():
            key = OffsetCommitKey(group_id, topic, partition)
            for producer_id in producers:
                yield key, self._pending[producer_id][key].value

    def groups(self) -> Iterator[str]:
        """Yield each group with an offset, committed or pending, once."""
        yield from self._committed
        yield from (group_id for group_id in self._open if group_id not in self._committed)

    def groups_of(self, topics: AbstractSet[str]) -> list[str]:
        """Return the groups with an offset, committed or pending, of one of these topics."""
        found = [group_id for group_id, by_topic in self._committed.items() if not topics.isdisjoint(by_topic)]
        known = set(found)
        for group_id, partitions in self._open.items():
            if group_id not in known and any(topic in topics for topic, _ in partitions):
                found.append(group_id)
        return found

    def apply_all(self, records: Iterable[Record | OffsetCommits], producer_id: int = NOT_TRANSACTIONAL) -> None:
        """Apply the offset records, and skip the others. Consecutive records are mostly of one topic."""
        group = topic = None
        partitions: dict[int, OffsetCommitValue] = {}
        for record in records:
            if type(record) is OffsetCommits:
                assert producer_id == NOT_TRANSACTIONAL, "transactions write single records"
                self.commit_together(record)
                topic = None
                continue
            key, value = record.key, record.value
            if type(key) is not OffsetCommitKey:
                continue
            if type(value) is not OffsetCommitValue or producer_id != NOT_TRANSACTIONAL or self._open:
                self.apply(record, producer_id)
                topic = None  # its partitions may be gone
                continue
            if key.topic is not topic or key.group is not group:
                group, topic = key.group, key.topic
                partitions = self._topic(group, topic).by_partition()
            self._order += 1
            before = partitions.get(key.partition)
            if before is None:
                self._grow(1)
            if value.metadata or (before is not None and before.metadata):
                self._note_metadata(before, value)
            partitions[key.partition] = value

    def commit_together(self, commits: OffsetCommits) -> None:
        """Take offsets that were committed together, outside of transactions."""
        if commits.group in self._open:
            for record in single_records((commits,)):
                self.apply(record)
            return
        offsets = self._topic(commits.group, commits.topic)
        if self.metadata_bytes:
            self._forget_metadata(offsets, commits.partitions)
        if more := offsets.take(commits):
            self._grow(more)
        self._order += 1

    def commit(self, group: str, topic: str, offsets: Mapping[int, OffsetCommitValue]) -> None:
        """Take offsets by partition, without metadata, that were committed outside of transactions."""
        if group in self._open:
            for partition, value in offsets.items():
                self.apply(Record(OffsetCommitKey(group, topic, partition), value))
            return
        partitions = self._topic(group, topic).by_partition()
        known = len(partitions)
        if self.metadata_bytes:  # of the values that these replace
            for partition, value in offsets.items():
                self._note_metadata(partitions.get(partition), value)
        partitions.update(offsets)
        self._grow(len(partitions) - known)
        self._order += 1

    def apply(self, record: Record, producer_id: int = NOT_TRANSACTIONAL) -> None:
        """Take an offset's record: a value commits it (or makes it pending), a tombstone removes all of it."""
        key, value = record.key, record.value
        assert type(key) is OffsetCommitKey, f"{key!r} is not an offset"
        self._order += 1
        if value is None:
            self._remove(key)
            return
        assert type(value) is OffsetCommitValue, f"{value!r} is not an offset"
        if producer_id == NOT_TRANSACTIONAL:
            self._commit(key, value, self._order)
        else:
            assert producer_id not in self._ending, f"the transaction of producer {producer_id} has not ended"
            pending = self._pending.setdefault(producer_id, {})
            self._hold(_pending_bytes(value) - (_pending_bytes(pending[key].value) if key in pending else 0))
            pending[key] = Pending(self._order, value)
            partitions = self._open.setdefault(key.group, {})
            partitions.setdefault((key.topic, key.partition), set()).add(producer_id)

    def end_transaction(self, producer_id: int, committed: bool, note: Note = note_nothing) -> Steps[None]:
        """Take a marker, and return the steps that commit the producer's pending offsets, or drop them.

        Each offset stays pending until its step, so what is committed after the marker overtakes it as ever. While the
        producer `is_ending`, it can have no offset of a further transaction. `note` is told what becomes committed.
        """
        keys = () if producer_id in self._ending else tuple(self._pending.get(producer_id, ()))
        steps = self._end_in_steps(producer_id, keys, committed, note)
        if keys:
            self._ending[producer_id] = frozenset([key.group for key in keys]), steps
        return steps

    def is_ending(self, producer_id: int) -> bool:
        """Return whether a producer's transaction has its marker, and still pending offsets."""
        return producer_id in self._ending

    def is_group_ending(self, group_id: str) -> bool:
        """Return whether the end of a transaction is being applied to offsets of the group: some are new, some old."""
        return any(group_id in groups for groups, _ in self._ending.values())

    def finish_ends(self) -> Steps[None]:
        """Apply all ends of transactions that are being applied, in steps.

        A caller that leaves meanwhile cuts none of them off: others do the rest.
        """
        for _, steps in tuple(self._ending.values()):
            for _ in steps:
                yield

    def _end_in_steps(
        self, producer_id: int, keys: tuple[OffsetCommitKey, ...], committed: bool, note: Note
    ) -> Steps[None]:
        pace = Pace()
        for key in keys:
            if pace.is_due():
                yield
            entry = self._pending.get(producer_id, _NOT_PENDING).get(key)
            if entry is None:  # a tombstone has removed it meanwhile, or the end of its group
                continue
            self._drop_pending(key, producer_id)
            if key.group in self._remains:
                continue
            self._close(key, producer_id)
            if committed and not entry.overtaken:
                note(key, self.get(key.group, key.topic, key.partition), entry.value)
                self._commit(key, entry.value, entry.order)
        if keys:
            del self._ending[producer_id]

    # -- groups that have ended ----------------------------------------------------------------------------------------

    def hide_group(self, group_id: str) -> None:
        """Hide all offsets of a group at once. `pop_remains` removes them, so many at a time."""
        committed, pending = self._committed.pop(group_id, {}), self._open.pop(group_id, {})
        self._remains[group_id] = Remains(committed, pending)

    def has_remains(self, group_id: str) -> bool:
        """Return whether offsets of a group that has ended are still being removed."""
        return group_id in self._remains

    def pop_remains(self, group_id: str, most: int) -> list[OffsetCommitKey]:
        """Remove so many of the offsets that were hidden, and return their keys: none, once all are removed."""
        remains, keys = self._remains[group_id], list[OffsetCommitKey]()
        while remains.pending and len(keys) < most:
            (topic, partition), producers = remains.pending.popitem()
            keys.append(key := OffsetCommitKey(group_id, topic, partition))
            for producer_id in producers:
                self._drop_pending(key, producer_id)
            if partition in remains.committed.get(topic, ()):
                self._drop_offset(remains.committed[topic].by_partition().pop(partition))
        while remains.committed and len(keys) < most:
            topic = next(iter(remains.committed))
            partitions = remains.committed[topic].by_partition()
            while partitions and len(keys) < most:
                partition, value = partitions.popitem()
                self._drop_offset(value)
                keys.append(OffsetCommitKey(group_id, topic, partition))
            if not partitions:
                del remains.committed[topic]
        if not keys:
            del self._remains[group_id]
        return keys

    def forget(self) -> Steps[None]:
        """Forget everything in steps: what a store takes is long to free. It is of no use then."""
        pending: list[dict[Any, Any]] = [*self._pending.values(), *self._open.values()]
        self._pending, self._open, self._ending = {}, {}, {}
        for entries in pending:
            while entries:
                for _ in range(min(len(entries), FREED_AT_ONCE)):
                    entries.popitem()
                yield
        while self._committed:
            _, topics = self._committed.popitem()
            while topics:
                topics.popitem()  # of at most 10,000 partitions
                yield

    def _drop_offset(self, value: OffsetCommitValue) -> None:
        self._grow(-1)
        self._note_metadata(value, None)

    def _drop_pending(self, key: OffsetCommitKey, producer_id: int) -> None:
        pending = self._pending.get(producer_id, {})  # none of it, if the transaction has ended meanwhile
        if key in pending:
            self._hold(-_pending_bytes(pending.pop(key).value))
            if not pending:
                del self._pending[producer_id]

    # -- within --------------------------------------------------------------------------------------------------------

    def _commit(self, key: OffsetCommitKey, value: OffsetCommitValue, order: int) -> None:
        partitions = self._topic(key.group, key.topic).by_partition()
        before = partitions.get(key.partition)
        if before is None:
            self._grow(1)
        self._note_metadata(before, value)
        partitions[key.partition] = value
        if key.group in self._open:
            self._overtake(key, order)

    def _grow(self, count: int) -> None:
        self.count += count
        self._hold(count * OFFSET_BYTES)

    def _hold(self, more_bytes: int) -> None:
        self.bytes += more_bytes
        self._hold_bytes(more_bytes)

    def _note_metadata(self, before: OffsetCommitValue | None, after: OffsetCommitValue | None) -> None:
        change = len(after.metadata) if after is not None else 0
        change -= len(before.metadata) if before is not None else 0
        if change:
            self.metadata_bytes += change
            self._hold(change)

    def _forget_metadata(self, offsets: TopicOffsets, partitions: Iterable[int]) -> None:
        """Note that values without metadata take the place of those of some partitions."""
        if offsets.is_plain:
            return
        known = offsets.by_partition()
        for partition in dict.fromkeys(partitions):
            self._note_metadata(known.get(partition), None)

    def _topic(self, group_id: str, topic: str) -> TopicOffsets:
        """Return the committed offsets of a topic, to be added to."""
        topics = self._committed.get(group_id)
        if topics is None:
            topics = self._committed[group_id] = {}
        offsets = topics.get(topic)
        if offsets is None:
            offsets = topics[topic] = TopicOffsets()
        return offsets

    def _overtake(self, key: OffsetCommitKey, order: int) -> None:
        """Void the pending commits from before `order`; they stay pending until their marker."""
        for producer_id in self._open[key.group].get((key.topic, key.partition), ()):
            entry = self._pending[producer_id][key]
            entry.overtaken = entry.overtaken or entry.order < order

    def _remove(self, key: OffsetCommitKey) -> None:
        offsets = self._committed.get(key.group, _NOTHING).get(key.topic)
        partitions = {} if offsets is None else offsets.by_partition()
        gone = partitions.pop(key.partition, None)
        if gone is not None:
            self._grow(-1)
            self._note_metadata(gone, None)
            if not partitions:
                del self._committed[key.group][key.topic]
            if not self._committed[key.group]:
                del self._committed[key.group]
        for producer_id in tuple(self._open.get(key.group, _NOBODY).get((key.topic, key.partition), ())):
            self._hold(-_pending_bytes(self._pending[producer_id].pop(key).value))
            self._close(key, producer_id)

    def _close(self, key: OffsetCommitKey, producer_id: int) -> None:
        """Drop what the producer has pending for that partition."""
        partitions = self._open[key.group]
        producers = partitions[key.topic, key.partition]
        producers.discard(producer_id)
        if not producers:
            del partitions[key.topic, key.partition]
        if not partitions:
            del self._open[key.group]
        if producer_id in self._pending and not self._pending[producer_id]:
            del self._pending[producer_id]
