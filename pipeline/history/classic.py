"""The history of a classic group: why each generation came to be, who owned what, how members came and went.

tombstone                                            deleted, or a part of `migrated`
nobody is left                                       emptied
a member is gone                                     leave or leave_or_timeout (`departures`)
a member is there that was not                       join
an instance id under a new member id                 static_rejoin, or static_rejoin_or_join (`departures`)
another protocol is chosen                           assignor_change
same members, other subscriptions                    subscription_change
same members and subscriptions, partitions are
  assigned again that their owners had given up      cooperative_handover
  assigned of a topic of which nobody had any        topic_found
  assigned beyond those that the topic had           partition_count_change
the group was a consumer group until now             migrated
none of these, or nothing before it is in the log    unknown
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pipeline.history.departures import (
    SLEW_MS,
    UNKNOWN,
    classify_departure,
    has_clock_gone_back,
    may_have_expired,
    may_have_missed_rebalance,
    together,
)
from pipeline.history.ownership import Change, Ownership, Partition, partitions_of
from pipeline.history.records import (
    Activity,
    ClassicMember,
    Generation,
    Move,
    Rebalance,
    Record,
    Row,
    Session,
    read_generation,
)

Members = dict[str, ClassicMember]
CHANGES_OF_TOPICS: Final[Mapping[str, Callable[[Change], bool]]] = {
    "topic_found": lambda change: change.is_of_new_topic,
    "partition_count_change": lambda change: change.is_new and not change.is_of_new_topic,
}
"""What the leader has found when it joined again, by what became of a partition."""


class ClassicHistory:
    """One group. Each record is compared with the one before it."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.members: Members = {}
        self._value: Generation | None = None  # the one before; None for a group that is new or was deleted
        self._is_seen = False  # whether anything about the group came before
        self._formed_ts = 0
        self._record_ts = 0  # of the record before
        self._has_clock_gone_back = False  # since all members have joined
        self._alive: dict[str, int] = {}  # member id -> when it last joined
        self._ownership = Ownership()
        self._sessions: dict[str, Session] = {}
        self.changed_hands: set[Partition] = set()  # in the latest rebalance: moved, or of a process that was replaced

    def adopt(self, members: Members) -> None:
        """Begin with the members of the consumer group that this group was until now."""
        self.members, self._value, self._is_seen = members, Generation(), True

    def apply(self, record: Record, step: Mapping[Partition, Activity], *, is_migrated: bool = False) -> Iterator[Row]:
        """Apply a record and yield the rows that it leads to; `step` has the commits since the record before."""
        value = read_generation(record)
        if record.is_tombstone:
            yield from self._delete(record)
            return
        now = {member.member_id: member for member in value.members}
        self._has_clock_gone_back |= has_clock_gone_back(self._record_ts, record.record_ts, step.values())
        before, known = self._value, self._is_seen or value.generation <= 1
        came = now.keys() - self.members.keys()
        is_new_generation = before is None or value.generation != before.generation
        if is_migrated or is_new_generation or came:  # nobody is gone within a generation without a successor
            if before is not None or now:
                yield from self._rebalance(record, value, now, step, known, is_migrated)
            else:
                self._ownership.advance(value.members, _at(record, value))
        yield from self._continue_sessions(record, now)
        self._note_alive(record, value, now, is_new_generation)
        self.members, self._value, self._is_seen, self._record_ts = now, value, True, record.record_ts

    def end(self) -> Iterator[Row]:
        """Yield the sessions that last."""
        yield from self._sessions.values()

    def migrate(self, record: Record) -> Iterator[Row]:
        """End all sessions: the group goes on as a consumer group."""
        yield from self._close_all(record, "migrated")
        self._forget()

    def _delete(self, record: Record) -> Iterator[Row]:
        yield self._row(record, None, ["deleted"], "", [], sorted(self.members))
        yield from self._moves(record, None, self._ownership.advance((), record.record_ts))
        yield from self._close_all(record, "deleted")
        self._forget()

    def _forget(self) -> None:
        self.members, self._value, self._is_seen = {}, None, True
        self._alive, self._ownership = {}, Ownership()

    def _rebalance(
        self,
        record: Record,
        value: Generation,
        now: Members,
        step: Mapping[Partition, Activity],
        is_known: bool,
        is_migrated: bool,
    ) -> Iterator[Row]:
        replaced = _find_replaced_members(self.members, now)
        changes = self._ownership.advance(value.members, _at(record, value))
        self.changed_hands = {one.partition for one in changes if one.kind == "moved"}
        self.changed_hands.update(*(partitions_of(self.members[member_id]) for member_id in replaced))
        if not is_known:
            yield self._row(record, value, ["unknown"], "nothing before it is in the log", [], [])
            return
        joined = sorted(now.keys() - self.members.keys() - set(replaced.values()))
        left = sorted(self.members.keys() - now.keys() - replaced.keys())
        is_same = not joined and not left and not replaced
        changed = self._changes_of_the_same_members(now, changes) if is_same else []
        departures = {} if is_migrated else self._departures(record, value, left, step)
        returns = self._returns(record, value, replaced, step)
        causes = (
            ["migrated"] * is_migrated
            + ["emptied"] * (not now)
            + sorted(set(departures.values()) if departures else {"leave_or_timeout"} if left else set())
            + ["join"] * bool(joined)
            + sorted(set(returns.values()))
            + ["assignor_change"] * self._has_other_protocol(value, now)
            + changed
        )
        detail = _detail(joined, left, sorted(replaced.values()), _topics_of(changed, changes))
        row = self._row(record, value, causes or ["unknown"], detail, joined, left)
        if self._value is not None:
            row.partitions_moved = sum(change.kind != "kept" for change in changes)
            yield from self._moves(record, value.generation, changes)
        yield row
        for member_id in left:
            yield from self._close(record, member_id, departures.get(member_id, "leave_or_timeout"))
        for member_id, cause in returns.items():
            yield from self._close(record, member_id, cause)

    def _changes_of_the_same_members(self, now: Members, changes: list[Change]) -> list[str]:
        """Name the change that moved a group whose members stayed the same."""
        if self._wants_other(now):
            return ["subscription_change"]
        if any(change.is_handed_over for change in changes):
            return ["cooperative_handover"]
        return [cause for cause, is_seen in CHANGES_OF_TOPICS.items() if any(is_seen(change) for change in changes)]

    def _wants_other(self, now: Members) -> bool:
        """Return whether a member that stayed has another subscription."""
        return any(
            member_id in now and now[member_id].subscription != member.subscription
            for member_id, member in self.members.items()
        )

    def _has_other_protocol(self, value: Generation, now: Members) -> bool:
        before = self._value
        return (
            before is not None
            and bool(self.members)
            and bool(now)
            and before.protocol is not None
            and (before.protocol or "") != (value.protocol or "")
        )

    def _departures(
        self, record: Record, value: Generation, left: list[str], step: Mapping[Partition, Activity]
    ) -> dict[str, str]:
        """Say of each member that is gone how it left."""
        at_ts = _at(record, value)
        if self._has_clock_gone_back:
            return dict.fromkeys(left, UNKNOWN)
        stayed = [
            _activity(member, step)
            for member_id, member in self.members.items()
            if member_id not in left and any(member.assignment.values())
        ]
        before = self._value.protocol if self._value is not None else None
        has_missed = may_have_missed_rebalance(
            self._formed_ts,
            at_ts,
            max((member.rebalance_timeout for member in self.members.values()), default=0),
            stayed,
            is_alone=len(self.members) == 1 and not value.members,
            is_eager="cooperative" not in (before or ""),
        )
        return {
            member_id: classify_departure(
                self.members[member_id],
                self._alive.get(member_id, 0),
                at_ts,
                _activity(self.members[member_id], step),
                may_have_missed_rebalance=has_missed,
            )
            for member_id in left
        }

    def _returns(
        self, record: Record, value: Generation, replaced: Mapping[str, str], step: Mapping[Partition, Activity]
    ) -> dict[str, str]:
        """Say of each static member that is back whether it took its place, or may have been removed before."""
        is_same_generation = self._value is not None and value.generation == self._value.generation

        def may_have_gone(member_id: str) -> bool:
            member = self.members[member_id]
            alive_ts, committed = self._alive.get(member_id, 0), _activity(member, step)
            return self._has_clock_gone_back or may_have_expired(member, alive_ts, _at(record, value), committed)

        return {
            member_id: "static_rejoin_or_join"
            if not is_same_generation and may_have_gone(member_id)
            else "static_rejoin"
            for member_id in replaced
        }

    def _note_alive(self, record: Record, value: Generation, now: Members, is_new_generation: bool) -> None:
        """Remember when each member was there for certain: at the end of the join phase, or when it took over."""
        joined_ts = value.current_state_timestamp if value.current_state_timestamp > 0 else 0
        if is_new_generation:
            self._formed_ts, self._has_clock_gone_back = joined_ts, joined_ts > record.record_ts + SLEW_MS
            self._alive = dict.fromkeys(now, joined_ts)
        else:
            self._alive = {member_id: self._alive.get(member_id, record.record_ts) for member_id in now}

    def _continue_sessions(self, record: Record, now: Members) -> Iterator[Row]:
        for member_id, member in now.items():
            session = self._sessions.get(member_id)
            if session is None:
                session = self._sessions[member_id] = Session(
                    self.group, "classic", member_id, None, "", "", record.record_ts, generations=0
                )
            if self._value is None or record.epoch != self._value.generation or not session.generations:
                session.generations = (session.generations or 0) + 1
            session.instance_id, session.client_id = member.group_instance_id, member.client_id
            session.host = member.client_host
            session.partitions_owned = sum(map(len, member.assignment.values()))
        yield from ()

    def _close(self, record: Record, member_id: str, reason: str) -> Iterator[Row]:
        if session := self._sessions.pop(member_id, None):
            session.to_ts, session.end_reason = record.record_ts, reason
            yield session

    def _close_all(self, record: Record, reason: str) -> Iterator[Row]:
        for member_id in list(self._sessions):
            yield from self._close(record, member_id, reason)

    def _row(
        self,
        record: Record,
        value: Generation | None,
        causes: list[str],
        detail: str,
        joined: list[str],
        left: list[str],
    ) -> Rebalance:
        return Rebalance(
            group=self.group,
            type="classic",
            generation=None if value is None else value.generation,
            at_ms=record.record_ts,
            log_offset=record.log_offset,
            causes=causes,
            cause_detail=detail,
            members_before=len(self.members),
            members_after=0 if value is None else len(value.members),
            joined=joined,
            left=left,
            sync_ms=self._find_sync_ms(record, value),
        )

    def _find_sync_ms(self, record: Record, value: Generation | None) -> int | None:
        """Return how long the members waited for their assignment; None if nobody did, or if that is not known, as by a
        clock that has gone back.

        A static member that is back takes over its assignment: its record is as late as the generation is old.
        """
        if value is None or not value.members or value.current_state_timestamp <= 0:
            return None
        before = self._value.generation if self._value is not None else 0
        is_sync = value.generation != before and (before > 0 or value.generation <= 1)
        waited_ms = record.record_ts - value.current_state_timestamp
        return waited_ms if is_sync and waited_ms >= 0 else None

    def _moves(self, record: Record, generation: int | None, changes: list[Change]) -> Iterator[Move]:
        for one in changes:
            yield Move(
                self.group, generation, *one.partition, one.from_owner, one.to_owner, one.kind,
                record.log_offset, record.record_ts,
            )  # fmt: skip


def _at(record: Record, value: Generation) -> int:
    """Return when the join phase was over."""
    return value.current_state_timestamp if value.current_state_timestamp > 0 else record.record_ts


def _activity(member: ClassicMember, step: Mapping[Partition, Activity]) -> Activity | None:
    return together(step[one] for one in partitions_of(member) if one in step)


def _topics_of(causes: list[str], changes: list[Change]) -> list[str]:
    """Return the topics that the leader has found, or found to be larger."""
    seen = [CHANGES_OF_TOPICS[cause] for cause in causes if cause in CHANGES_OF_TOPICS]
    return sorted({change.partition[0] for change in changes if any(is_seen(change) for is_seen in seen)})


def _find_replaced_members(before: Members, now: Members) -> dict[str, str]:
    """Return the member ids, before and after, of static members that came back under another one."""
    by_instance = {
        member.group_instance_id: member_id
        for member_id, member in before.items()
        if member.group_instance_id is not None and member_id not in now
    }
    return {
        by_instance[member.group_instance_id]: member_id
        for member_id, member in now.items()
        if member_id not in before and member.group_instance_id in by_instance
    }


def _detail(joined: list[str], left: list[str], returned: list[str], topics: list[str]) -> str:
    parts = {"joined": joined, "gone": left, "returned": returned, "topics": topics}
    return "; ".join(f"{name}: {', '.join(ids)}" for name, ids in parts.items() if ids)
