"""Group commit: what turns decide is gathered, appended once a log, and with --fsync synced beside the turns.

Without --fsync each turn ends with `append`. With --fsync nothing may be told before it is on the disk. There is one
sync at a time, of all logs that were appended to, and turns go on beside it. What they decide is gathered, and is
appended and synced when the disk is free:

    turns       decide 1   | decide 2  decide 3    | decide 4          | ...
    disk                   | append 1, sync 1 ...  | append 2+3, sync 2 ... | append 4, sync 3 ...

So the coordinator's own logs never hold more that is not on the disk than one append, as if every turn had waited; only
records of topics are appended as they are decided. `gathering.py` says when the next sync begins.

Syncs are numbered. A response rests on the sync that covers all that it tells of: on that of its group's latest record
if it tells of a single group, else on that of everything. It may leave once this sync has ended.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from coordinator.control.inputs import Kind
from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.result import Result
from coordinator.metrics import Latency
from coordinator.runtime.partition import Partition
from coordinator.runtime.share_states import ShareStates
from coordinator.runtime.world import World
from storage.files import File, Files, Syncing, Waker
from storage.log import Log
from storage.syncing import NoWaker

GATHERED_RECORDS_MAX: Final = 20_000
"""Of one partition, while it waits for the disk: some two megabytes, which are one batch."""


class Sync(Struct, frozen=True):
    """A sync that is under way, of the coordinator's own logs and of those of topics."""

    under_way: Syncing
    own: Mapping[File, Log]
    topics: Mapping[tuple[str, int], File]
    began_s: float


class GroupCommit:
    """What an engine has decided and not yet appended, and with --fsync the syncs of what is appended.

    The engine notes what it decides without a call of its own: in `dirty` of the world, and with --fsync here in
    `changed` and in the number of changes of `gathering`.
    """

    def __init__(
        self,
        world: World,
        share_states: ShareStates,
        files: Files,
        waker: Waker | None,
        real_s: Callable[[], float],
    ) -> None:
        """`waker` wakes the owner of the engine when a sync has ended, so that a turn sends what rests on it."""
        self._changed: set[str | Partition] = set()  # since the last sync began: groups, and partitions with all theirs
        self._gathering = world.gathering
        self.latency = Latency()  # of the syncs, in real time; decides nothing
        self.last_begun = self.last_ended = 0  # numbers of the last sync that has begun, and of the last that has ended
        self._follows_journal = False
        self._world = world
        self._share_states = share_states
        self._files = files
        self._waker = waker or NoWaker()
        self._real_s = real_s
        self._sync: Sync | None = None  # that is under way
        self._covered: set[str | Partition] = set()  # as `_changed`, of what the sync that is under way covers
        self._lost: frozenset[tuple[str, int]] = frozenset()  # partitions of topics, closed before they were synced

    def follow_journal(self) -> None:
        """Begin and end syncs as a journal says, which calls `begin_sync` and `end_sync`."""
        self._follows_journal = True

    def note_change(self, of: "str | Partition") -> None:
        """Note that a record was decided which waits for the next sync: of a group, or of any group of a partition."""
        self._changed.add(of)
        self._gathering.add(1)

    # -- which sync covers what ----------------------------------------------------------------------------------------

    def find_covering_sync(self) -> int:
        """Return the number of the sync that covers all that was decided so far."""
        return self.last_begun + self.has_gathered

    def find_covering_sync_of(self, group_id: str) -> int:
        """Return the number of the sync that covers all that was decided so far of a group, 0 if that is on the
        disk."""
        partition = self._world.partitions.owner(group_id)
        if group_id in self._changed or partition in self._changed:
            return self.last_begun + 1
        return self.last_begun if group_id in self._covered or partition in self._covered else 0

    @property
    def has_gathered(self) -> bool:
        """Whether something was decided that no sync covers which has begun."""
        return self.has_unwritten or self._world.dataplane.has_written

    @property
    def has_unwritten(self) -> bool:
        """The same, records of topics apart, which are in their logs already."""
        world = self._world
        if world.dirty or world.dataplane.has_begun_logs:
            return True
        return self._share_states.has_gathered or world.ledger.has_gathered

    @property
    def has_gathered_much(self) -> bool:
        """Whether so much waits to be appended that the next turn is to wait for the disk."""
        return any(partition.gathered_records > GATHERED_RECORDS_MAX for partition in self._world.dirty)

    def next_sync_s(self) -> float | None:
        """Return when the next sync begins at the latest, by the real clock; None while there is nothing to begin."""
        return self._gathering.until_s if self._sync is None and self.has_gathered else None

    def take_lost(self) -> frozenset[tuple[str, int]]:
        """Return the partitions of topics that were closed before they were synced, since this was last asked.

        Nobody may be told of what was appended to them and is not on the disk: `DataPlane.withdraw` takes it out of the
        responses.
        """
        lost, self._lost = self._lost, frozenset()
        return lost

    # -- append and sync -----------------------------------------------------------------------------------------------

    def append(self) -> list[Log]:
        """Append what was decided so far, once a log. Returns the coordinator's own logs that are to be synced.

        Raises StorageError.
        """
        ledger, dataplane = self._world.ledger, self._world.dataplane
        ledger.flush()
        self._share_states.flush()
        dirty = self._world.take_dirty()
        has_log, begun = ledger.catalog.has_log, []
        for partition in dirty:
            dataplane.wake_fetches_of_offsets(partition.index, partition.flush())
            if not has_log(OFFSETS_TOPIC, partition.index):
                begun.append((OFFSETS_TOPIC, partition.index, partition.log.segments[-1].max_timestamp))
        for topic, index, timestamp in (*begun, *dataplane.take_begun_logs()):
            # Behind the log itself: the catalog must not say of a log that it is there before its directory is.
            ledger.complete(Result(records=ledger.catalog.logs_of([(topic, index)])), timestamp)
        catalog = ledger.begin_sync()
        return [*([catalog] if catalog else ()), *[partition.log for partition in dirty]]

    def sync_everything(self) -> None:
        """Append what was decided so far, and return when it is on the disk."""
        while self._sync is not None or self.has_gathered:
            if self._sync is None:
                self.begin_sync()
            else:
                self._sync.under_way.wait()
                self.end_sync()

    def continue_syncs(self) -> None:
        """Complete the sync that is under way if the disk has ended it, and begin the next one when it is time."""
        if self._follows_journal:
            return
        self._end_sync_if_over()
        self._gathering.add(self._world.dataplane.take_appends())
        if self._sync is None and self.has_gathered and self._gathering.check_over(self._real_s()):
            self.begin_sync()
            self._end_sync_if_over()

    def _end_sync_if_over(self) -> None:
        if self._sync is not None and self._sync.under_way.is_over:
            self.end_sync()

    def begin_sync(self) -> None:
        """Append what was gathered, and begin to sync it. Does nothing while a sync is under way."""
        if self._sync is not None:
            return
        if self._world.note_input is not None:
            self._world.note_input(Kind.SYNC, None)
        own = {log.file_to_sync(): log for log in self.append()}
        topics = self._world.dataplane.begin_sync()
        self._note_lost()
        self.last_begun += 1
        self._covered, self._changed = self._changed, set()
        began_s = self._real_s()
        self._gathering.end()
        self._sync = Sync(self._files.begin_syncs([*own, *topics.values()], self._waker), own, topics, began_s)

    def end_sync(self) -> None:
        """Complete the sync that was under way: close the logs of topics that it has failed to write, and apply the
        records of the ledger that waited for it.

        Raises StorageError if it has failed to write one of the coordinator's own logs.
        """
        sync, self._sync = self._sync, None
        if sync is None:
            return
        ledger, dataplane, note_input = self._world.ledger, self._world.dataplane, self._world.note_input
        if note_input is not None:
            note_input(Kind.SYNCED, None)
        now_s = self._real_s()
        self.latency.observe(now_s - sync.began_s)
        self._gathering.begin(now_s, now_s - sync.began_s)
        failures = sync.under_way.failures
        for file, log in sync.own.items():
            if (failure := failures.get(file.path)) is not None:
                log.fail(failure)
                raise failure
        dataplane.end_sync(
            {partition: failures[file.path] for partition, file in sync.topics.items() if file.path in failures}
        )
        ledger.end_sync()
        self._note_lost()
        self._covered = set()
        self.last_ended = self.last_begun
        if ledger.settle():
            ledger.sync()  # before the producer begins its next transaction, whose records rest on it

    def _note_lost(self) -> None:
        """Note which partitions of topics were closed before they were synced."""
        if lost := self._world.dataplane.take_lost():
            self._share_states.refuse_losses(lost)
            self._world.ledger.leave_transactions_prepared(lost)
            self._lost |= lost
