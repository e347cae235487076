"""The history of a group with epochs: the records since the epoch before say why there is a new one.

    the group's tombstone                               deleted, or a part of `migrated`
    members are gone                                    leave_or_timeout: how, the log does not tell
    members are there that were not                     join
    an instance id under a new member id                static_rejoin, also without a new epoch
    a member wants something else, or its pattern does  subscription_change
    none of these, and the topics' hash is another      partition_count_change
    none of these, and a share group may assign others  partitions_initialized
    the group was a classic group until now             migrated
    none of these                                       unknown

A share group assigns no partition of which the share coordinator has no state yet. So new partitions raise its epoch
twice: by the topics' hash, and when a record says that their states are there.

`epoch_settle_ms` is from the target assignment of an epoch to the last member that reached it.

The active tasks of a streams group have moves: a task that comes to a member has moved from the member that had it
last, which may be gone, or nobody had it before. Its topic is `task` with the subtopology, which no topic is called.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from pipeline.history.records import OF_EPOCHS, TASK, Move, Rebalance, Record, Role, Row, Session

WANTS = ("subscribed_topic_names", "subscribed_topic_regex", "rack_id", "server_assignor", "topology_epoch")
FIRST_EPOCH = 2  # of a new group, at most
STREAMS = "streams"

Task = tuple[str, int]
"""Subtopology and partition."""
Partition = tuple[str, int]
"""The id of a topic, and the number of its partition."""


class EpochHistory:
    """One group, of which each record is applied in order."""

    def __init__(self, group: str) -> None:
        self.group, self.kind = group, ""
        self.members: dict[str, dict[str, Any]] = {}  # member id -> value of its metadata
        self.lost: dict[str, dict[str, Any]] = {}  # the same of those that are gone since the last epoch
        self._came: set[str] = set()
        self._returned: Rebalance | None = None  # the row of a static member that is back, until the epoch is known
        self._is_changed = self._are_topics_changed = self._is_migrated = self._are_more_initialized = False
        self._initialized: frozenset[Partition] | None = frozenset()  # what a share group may assign, if it is known
        self._epoch: int | None = None
        self._hash: Any = None
        self._has_topic_records = False  # of a broker that writes no hash of the topics
        self._targets: dict[int, tuple[int, Rebalance | None]] = {}  # epoch -> since when, its row
        self._rows: dict[int, Rebalance] = {}  # the rows of the latest epochs
        self._before: int = 0
        self._sessions: dict[str, Session] = {}
        self._tasks: dict[str, frozenset[Task]] = {}  # of a streams group: the active tasks of each member
        self._owners: dict[Task, str] = {}  # and who had each of them last

    def adopt(self, members: Iterable[str]) -> None:
        """Begin with the members of the classic group that this group was until now."""
        self._is_migrated = True
        self.members = {member_id: {} for member_id in members}
        self._before = len(self.members)

    def apply(self, record: Record) -> Iterator[Row]:
        """Apply a record and yield the rows that it leads to."""
        if self._returned is not None and record.record_ts != self._returned.at_ms:
            yield from self.settle()
        if record.key_version not in OF_EPOCHS:
            return
        self.kind, role = OF_EPOCHS[record.key_version]
        match role:
            case Role.MEMBER if record.is_tombstone:
                self._remove(record)
            case Role.MEMBER:
                yield from self._write_member(record)
            case Role.EPOCH if record.is_tombstone:
                yield from self._delete(record)
            case Role.EPOCH:
                yield from self._begin_epoch(record)
            case Role.PATTERN | Role.TOPOLOGY if not record.is_tombstone:
                self._is_changed = True
            case Role.STATES:
                self._note_initialized(record)
            case Role.TOPICS if not record.is_tombstone:
                self._are_topics_changed = self._has_topic_records = True
            case Role.TARGET if not record.is_tombstone and record.epoch is not None:
                self._targets = {epoch: at for epoch, at in self._targets.items() if epoch >= record.epoch - 1}
                self._targets[record.epoch] = (record.record_ts, self._rows.get(record.epoch))
            case Role.CURRENT if not record.is_tombstone and record.epoch is not None:
                self._settle(record, record.epoch)
                yield from self._move_tasks(record, record.epoch)

    def settle(self) -> Iterator[Row]:
        """Yield the row of a static member that is back, of which no more is to come."""
        if self._returned is not None:
            yield self._returned
        self._returned = None

    def end(self) -> Iterator[Row]:
        """Yield the sessions that last."""
        yield from self.settle()
        yield from self._end_of_lost("leave_or_timeout")
        yield from self._sessions.values()

    def migrate(self, record: Record, staying: Iterable[str]) -> Iterator[Row]:
        """End all sessions: the group goes on as a classic group of the members `staying`. This history is over."""
        for member_id in list(self._sessions):
            reason = "migrated" if member_id in staying else "leave_or_timeout"
            yield from self._close(member_id, record.record_ts, reason)

    def _remove(self, record: Record) -> None:
        value = self.members.pop(record.member_id or "", None)
        if value is not None:
            self.lost[record.member_id or ""] = value
            self._tasks.pop(record.member_id or "", None)
            self._came.discard(record.member_id or "")
            if session := self._sessions.get(record.member_id or ""):
                session.to_ts = record.record_ts

    def _write_member(self, record: Record) -> Iterator[Row]:
        member_id, value = record.member_id or "", record.value()
        before = self.members.get(member_id)
        old_id = self._predecessor(value) if before is None else None
        self.members[member_id] = value
        if old_id is not None:
            before = self.lost.pop(old_id)
            yield from self._close(old_id, record.record_ts, "static_rejoin")
            size = len(self.members)
            detail = f"{self._returned.cause_detail}, {member_id}" if self._returned else f"returned: {member_id}"
            self._returned = self._row(record, self._epoch, ["static_rejoin"], detail, [], [], size, size)
        elif before is None:
            self._came.add(member_id)
        elif before:
            self._is_changed |= any(before.get(name) != value.get(name) for name in WANTS)
        if member_id in self.lost:  # it is back before there is an epoch without it
            yield from self._close(member_id, record.record_ts, "leave_or_timeout")
        self._continue_session(record, member_id, value)

    def _predecessor(self, value: dict[str, Any]) -> str | None:
        """Return the id of a member that is gone since the last epoch and had the same instance id."""
        instance = value.get("instance_id")
        if instance is None:
            return None
        return next((id_ for id_, lost in self.lost.items() if lost.get("instance_id") == instance), None)

    def _begin_epoch(self, record: Record) -> Iterator[Row]:
        digest = record.value().get("metadata_hash")
        joined, left = sorted(self._came), sorted(self.lost)
        size = len(self.members)
        before = size + len(left) - len(joined)  # with those that have come and gone since the epoch before
        # The first hash behind records of topics says that the broker is a newer one, not that topics have changed.
        is_upgrade = self._has_topic_records and not self._hash
        has_other_hash = self._hash is not None and digest != self._hash and not is_upgrade
        other_topics = self._are_topics_changed or has_other_hash
        is_same = not joined and not left and not self._is_migrated and self._returned is None
        causes = (
            ["migrated"] * self._is_migrated
            + ["static_rejoin"] * (self._returned is not None)  # it came back with other topics
            + ["leave_or_timeout"] * bool(left)
            + ["join"] * bool(joined)
            + ["subscription_change"] * (is_same and self._is_changed)
            + ["partition_count_change"] * (is_same and not self._is_changed and other_topics)
            + ["partitions_initialized"]
            * (is_same and not self._is_changed and not other_topics and self._are_more_initialized)
        )
        if self._epoch is None and not self._is_migrated and (record.epoch or 0) > FIRST_EPOCH:
            causes, joined, left = ["unknown"], [], []  # what came before has been compacted away
            self._initialized = self._initialized or None
        parts = {"joined": joined, "gone": left}
        returned = [self._returned.cause_detail] if self._returned else []
        detail = "; ".join([f"{name}: {', '.join(ids)}" for name, ids in parts.items() if ids] + returned)
        row = self._row(record, record.epoch, causes or ["unknown"], detail, joined, left, before, size)
        yield row
        yield from self._end_of_lost("leave_or_timeout")
        if record.epoch is not None:
            self._rows = {epoch: one for epoch, one in self._rows.items() if epoch >= record.epoch - 1}
            self._rows[record.epoch] = row
        self._forget_changes()
        self._epoch, self._hash = record.epoch, digest

    def _forget_changes(self) -> None:
        self._came, self.lost, self._returned = set(), {}, None
        self._is_changed = self._are_topics_changed = self._is_migrated = self._are_more_initialized = False
        self._before = len(self.members)

    def _note_initialized(self, record: Record) -> None:
        topics = () if record.is_tombstone else record.value().get("initialized_topics", ())
        now = frozenset((one["topic_id"], number) for one in topics for number in one["partitions"])
        self._are_more_initialized |= self._initialized is not None and not now <= self._initialized
        self._initialized = now

    def _settle(self, record: Record, epoch: int) -> None:
        since, row = self._targets.get(epoch, (0, None))
        if row is not None:
            row.epoch_settle_ms = max(0, record.record_ts - since)

    def _move_tasks(self, record: Record, epoch: int) -> Iterator[Row]:
        if self.kind != STREAMS:
            return
        member_id = record.member_id or ""
        tasks = frozenset(
            (entry["subtopology_id"], partition)
            for entry in record.value().get("active_tasks", ())
            for partition in entry["partitions"]
        )
        _, row = self._targets.get(epoch, (0, None))
        for task in sorted(tasks - self._tasks.get(member_id, frozenset())):
            before, self._owners[task] = self._owners.get(task), member_id
            kind = "gained" if before is None else "kept" if before == member_id else "moved"
            if row is not None and kind != "kept":
                row.partitions_moved = (row.partitions_moved or 0) + 1
            number, partition = task
            yield Move(
                self.group, epoch, f"{TASK}{number}", partition, before, member_id, kind,
                record.log_offset, record.record_ts,
            )  # fmt: skip
        self._tasks[member_id] = tasks

    def _delete(self, record: Record) -> Iterator[Row]:
        """End all sessions. This history is over: a group of that name is another one."""
        yield self._row(record, None, ["deleted"], "", [], [], self._before, 0)
        yield from self._end_of_lost("deleted")
        for member_id in list(self._sessions):
            yield from self._close(member_id, record.record_ts, "deleted")

    def _continue_session(self, record: Record, member_id: str, value: dict[str, Any]) -> None:
        session = self._sessions.get(member_id)
        if session is None:
            session = Session(self.group, self.kind, member_id, None, "", "", record.record_ts)
            self._sessions[member_id] = session
        session.instance_id = value.get("instance_id")
        session.client_id, session.host = value.get("client_id", ""), value.get("client_host", "")

    def _end_of_lost(self, reason: str) -> Iterator[Row]:
        for member_id in self.lost:
            session = self._sessions.get(member_id)
            if session is not None and session.to_ts is not None:
                yield from self._close(member_id, session.to_ts, reason)

    def _close(self, member_id: str, at_ms: int, reason: str) -> Iterator[Row]:
        if session := self._sessions.pop(member_id, None):
            session.to_ts, session.end_reason = session.to_ts or at_ms, reason
            yield session

    def _row(
        self,
        record: Record,
        epoch: int | None,
        causes: list[str],
        detail: str,
        joined: list[str],
        left: list[str],
        before: int,
        after: int,
    ) -> Rebalance:
        return Rebalance(
            self.group,
            self.kind,
            epoch,
            record.record_ts,
            record.log_offset,
            causes,
            detail,
            before,
            after,
            joined,
            left,
        )
