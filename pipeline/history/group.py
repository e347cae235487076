"""The history of one group from its first record to its last, of whichever kind, and across migrations."""

from collections.abc import Iterable, Iterator

from pipeline.history.classic import ClassicHistory
from pipeline.history.epochs import EpochHistory
from pipeline.history.gaps import CommitGaps
from pipeline.history.ownership import Partition
from pipeline.history.records import (
    GROUP_METADATA,
    OF_EPOCHS,
    STEPS,
    Activity,
    ClassicMember,
    Rebalance,
    Record,
    Row,
    read_generation,
)

HELD = 2  # the latest rebalances, whose rows may still change: members reach an epoch after it began
HELD_MAX = 16  # while partitions that changed hands have no commit


class GroupHistory:
    """Takes the records and commits of a group in log order, and yields each row once it is complete."""

    def __init__(self, group: str, *, is_live: bool = False) -> None:
        """`is_live`: somebody takes rebalances as soon as they are known (`take_rebalances`)."""
        self.group = group
        self._is_live = is_live
        self._classic, self._epochs = ClassicHistory(group), EpochHistory(group)
        self._gaps = CommitGaps()
        self._step: dict[Partition, Activity] = {}
        self._tombstone: Record | None = None  # of the group; the next record shows whether it was deleted or migrated
        self._rebalances: list[Rebalance] = []
        self._unseen: list[Rebalance] = []

    def observe(self, topic: str, partition: int, activity: Activity) -> None:
        """Note the commits to a partition since the last record that began a step."""
        self._step[topic, partition] = activity

    def apply(self, record: Record) -> Iterator[Row]:
        """Apply a record and yield the rows that are complete now."""
        is_migrated = False
        if self._tombstone is not None:
            is_migrated = _is_migration(self._tombstone, record)
            yield from self._keep(self._end_life(self._tombstone, record if is_migrated else None))
            self._tombstone = None
        is_group = record.key_version in STEPS
        if is_group:
            yield from self._close_step()
        if is_group and record.is_tombstone:
            self._tombstone = record
        elif record.key_version == GROUP_METADATA:
            yield from self._keep(self._classic.apply(record, self._step, is_migrated=is_migrated))
        else:
            yield from self._keep(self._epochs.apply(record))
        if is_group:
            self._step = {}

    def take_rebalances(self) -> list[Rebalance]:
        """Return the rebalances since the last time, as soon as they are known; gaps may be filled in later."""
        unseen, self._unseen = self._unseen, []
        return unseen

    def settle(self) -> Iterator[Row]:
        """Decide what waits for the next record, though none has come: the group was deleted, not migrated."""
        if self._tombstone is not None:
            yield from self._keep(self._end_life(self._tombstone, None))
            self._tombstone = None
        yield from self._keep(self._epochs.settle())

    def end(self) -> Iterator[Row]:
        """Yield the remaining rows, after the last record."""
        if self._tombstone is not None:
            yield from self._keep(self._end_life(self._tombstone, None))
        yield from self._close_step()
        yield from self._rebalances
        yield from self._classic.end()
        yield from self._epochs.end()

    def _keep(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield all rows but rebalances, which are held until their commit gap is known."""
        for row in rows:
            if isinstance(row, Rebalance):
                self._rebalances.append(row)
                if self._is_live:
                    self._unseen.append(row)
                self._gaps.wait(row, self._classic.changed_hands if row.type == "classic" else ())
            else:
                yield row

    def _close_step(self) -> Iterator[Row]:
        self._gaps.close(self._step)
        held = self._rebalances
        while len(held) > HELD and (len(held) > HELD_MAX or not self._gaps.is_waiting(held[0])):
            row = held.pop(0)
            self._gaps.give_up(row)
            yield row

    def _end_life(self, tombstone: Record, successor: Record | None) -> Iterator[Row]:
        """End the group, or migrate it if a record of another kind follows."""
        if tombstone.key_version == GROUP_METADATA:
            if successor is None:
                yield from self._classic.apply(tombstone, {})
                return
            members = list(self._classic.members)
            yield from self._classic.migrate(tombstone)
            self._epochs.adopt(members)
            return
        if successor is None:
            yield from self._epochs.apply(tombstone)
            self._epochs = EpochHistory(self.group)  # a group of that name is another one from now on
            return
        before = {**self._epochs.members, **self._epochs.lost}
        staying = {member.member_id for member in read_generation(successor).members}
        yield from self._epochs.migrate(tombstone, staying)
        self._epochs = EpochHistory(self.group)
        self._classic.adopt({id_: ClassicMember(id_, value.get("instance_id")) for id_, value in before.items()})


def _is_migration(tombstone: Record, following: Record) -> bool:
    """Return whether a record of another kind follows the tombstone at once. If not, the group was deleted."""
    is_next = following.log_offset == tombstone.log_offset + 1 or following.record_ts == tombstone.record_ts
    was_classic = tombstone.key_version == GROUP_METADATA
    is_other = following.key_version in OF_EPOCHS if was_classic else following.key_version == GROUP_METADATA
    return is_next and not following.is_tombstone and is_other
