"""One partition's state machine: groups, offsets and timers, and the step by which every input changes them.

    decide ──► write ──► apply          a handler only returns a Result; what cannot be encoded is not applied

The runtime hands in requests, the time, changes of topics, ends of transactions and, at start, the records of the log.
The shard is made with the functions of the runtime that it calls: `write`, which encodes the records of a result and
keeps them for the log, and those of its `Surroundings`. If a request raises, the shard is unchanged.

`handle` takes a request about one group. The runtime splits a request about many groups into calls of `describe`,
`delete` and `fetch_offsets`, each about one group. Before it calls the shard, the runtime checks which partition owns
the group, which broker coordinates that partition (error 16), whether the partition is loaded (error 14), and, for an
offset in a transaction, whether the producer has that transaction open.
The shard does not authorize: every caller sees every group and topic.

A consumer group detects a change of topics by itself, at its next heartbeat.

The groups, the offsets and their records are durable. These are lost when the server stops: parked requests and pending
members (in the classic groups), the timers, the renewals, and the tally of offsets.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core import cleanup
from coordinator.core.assignors import BUILT_IN
from coordinator.core.assignors.spec import Assignor
from coordinator.core.decision import Steps
from coordinator.core.dispatch import HANDLERS, TIMERS, VERBS
from coordinator.core.env import Env
from coordinator.core.growth import COMMITS, names_new_offsets
from coordinator.core.kinds.kind import Group, Inconsistent, Kind
from coordinator.core.kinds.registry import BY_KEY, GROWING, LONG_TIMERS, kind_of, new_group
from coordinator.core.limits import Limits
from coordinator.core.list_groups import list_group
from coordinator.core.offset_records import Commits
from coordinator.core.offsets.expiry import Part, cut_forgotten_offsets, cut_offsets
from coordinator.core.offsets.offset_fetch import fetch_offsets
from coordinator.core.offsets.store import NOT_TRANSACTIONAL, Note, OffsetStore, note_nothing
from coordinator.core.offsets.tally import Tally, offsets_in
from coordinator.core.pace import Pace, empty_in_steps
from coordinator.core.record_types import OffsetCommitKey, OffsetCommits, Record, UnknownKey
from coordinator.core.renewal import Renewal, Renewals
from coordinator.core.result import (
    BeginShareStates,
    Call,
    CancelTimer,
    ComputeTarget,
    CreateTopics,
    EndShareStates,
    RemoveGroup,
    RemoveOffsets,
    Reply,
    Result,
    SetTimer,
)
from coordinator.core.surroundings import BY_ITSELF, Step, Surroundings, Write
from coordinator.core.timers import (
    EXPIRY,
    IMMEDIATELY,
    RETRY_MS,
    SESSION,
    AdvanceLike,
    Due,
    MayGoOn,
    MayWork,
    TimerKey,
    Timers,
    always,
    member_of,
)
from coordinator.core.topics import Topics
from coordinator.core.weights import weigh_text
from protocol.errors import BatchTooLarge, ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListGroupsResponseListedGroup
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup

_OF_THE_RUNTIME: Final = frozenset(
    {Reply, CreateTopics, ComputeTarget, BeginShareStates, EndShareStates, RemoveOffsets}
)
CLEANED_AT_ONCE: Final = 10_000  # units of a pass before the next turn, offsets that are looked at: some milliseconds
_GROUP_UNITS: Final = 30  # of a group that is looked at
MEMBERS_A_TIMER: Final = 50  # of a group, which make a timer of it take twice as long
_UNLOAD_UNITS: Final = 5  # of a group whose coordinator has moved
_RECORD_UNITS: Final = 20  # of one that is written

_Uncleaned = tuple[str, Part, bool]  # a group with a part of its offsets, and whether it is the last one
GROUP_BYTES: Final = 512  # of memory that a group without members takes beside its id, in the tables around it too


def _bytes_of(group_id: str) -> int:
    return weigh_text(group_id) + GROUP_BYTES


def _timer_units(group: Group | None) -> int:
    """Return how many timers of a small group take as long as one of this group, beside that one."""
    return 0 if group is None else len(group.members) // MEMBERS_A_TIMER


def _no_write(result: Result[Any], now_ms: int) -> None:
    """Write nothing, for a shard without a log."""


def _no_id() -> str:
    raise AssertionError("no timer makes an id")


class Shard:
    """The groups and offsets of one partition of `__consumer_offsets`."""

    def __init__(
        self,
        partition: int,
        limits: Limits,
        topics: Topics,
        assignors: Mapping[str, Assignor] = BUILT_IN,
        *,
        write: Write = _no_write,
        surroundings: Surroundings = BY_ITSELF,
    ) -> None:
        self.partition = partition
        self.limits = limits
        self.own_limits: dict[str, Limits] = {}  # of groups with settings of their own
        self.assignors = assignors
        self.topics = topics
        self.offsets = OffsetStore(surroundings.hold_offsets)
        self.tally = Tally()
        self.timers = Timers(surroundings.wake)
        self.groups: dict[str, Group] = {}  # by id; to be read by others, and changed here only
        self.members_bytes = 0
        self._members_bytes_of: dict[str, int] = {}  # by group: to weigh one that goes would take long
        self.groups_bytes = 0  # of memory that the groups take at least: their ids, and what each has beside members
        self.renewals = Renewals()
        self._write = write
        self._surroundings = surroundings
        self._attempt = surroundings.attempt
        self._shortage = surroundings.shortage
        self._uncleaned: Iterator[_Uncleaned] | None = None  # what the pass over all offsets has yet to see

    # -- inputs --------------------------------------------------------------------------------------------------------

    def handle(self, request: Any, call: Call) -> Result[Any]:
        """Decide one request for one group, and make it so. What raises has changed nothing."""
        group_id = request.group_id
        group = self.groups.get(group_id)
        limits = self.limits_of(group_id) if self.own_limits else self.limits
        env = Env(call, limits, self.topics, self.assignors, self.offsets)
        result = HANDLERS[type(request), type(group)](group, request, env)
        if result.group is None and not result.records:  # nothing grows, as nearly always
            return self._finish(result, call.now_ms)
        if group is None or self._shortage.is_any:
            refused = self._refuse_growth(group, request, call.version)
            if refused is not None:
                return Result(response=refused)
        try:
            self._finish(result, call.now_ms)
        except BatchTooLarge:  # before any of it was applied
            return self._give_up(group, request, result, env)
        if result.records:
            self.tally.count(result.records)
        return result

    def _refuse_growth(self, group: Group | None, request: Any, version: int) -> Any:
        """Return the response if there is no room for what a request brings, before any of it is applied; else None."""
        is_growing = GROWING.get(type(request))
        shortage, surroundings = self._shortage, self._surroundings
        if self.offsets.has_remains(request.group_id):  # the next group of this id can come soon
            return surroundings.refuse_ending(request, version)
        if shortage.of_members and is_growing is not None and is_growing(request, group):
            return surroundings.refuse_members(request, version)
        if shortage.of_offsets and type(request) in COMMITS and names_new_offsets(request, version, self):
            return surroundings.refuse_offsets(request, version)
        return None if group is not None else surroundings.refuse_group(_bytes_of(request.group_id), request, version)

    def _give_up(self, group: Group | None, request: Any, result: Result[Any], env: Env) -> Result[Any]:
        """Handle a request whose records exceed the batch size limit: refuse it, or fall back as Kafka does.

        An operator is not refused: the limit is one for clients.
        """
        if type(request) in VERBS:
            return self._finish(replace(result, is_forced=True), env.call.now_ms)
        give_up = None if group is None else kind_of(group).too_large.get(type(request))
        if give_up is None:
            return Result(response=self._surroundings.refuse_records(request, env.call.version))
        return self._finish(give_up(group, request, env), env.call.now_ms)

    def find_renewal(self, heartbeat: HeartbeatRequest) -> Renewal | None:
        """Return the renewal for a heartbeat that repeats a recent successful one; None if it must be decided again."""
        group_id = heartbeat.group_id
        return self.renewals.find(self.groups.get(group_id), self.timers, heartbeat, self.limits_of(group_id))

    def delete(self, group_id: str, call: Call) -> Result[Any]:
        """DeleteGroups: one group, with all of its offsets. The response is the entry about it."""
        result = cleanup.delete_group(self.groups.get(group_id), group_id, self._env(group_id, call))
        self._finish(result, call.now_ms)
        self.tally.deletions += offsets_in(result.records)
        return result

    def fire(
        self, now_ms: int, may_work: MayWork = always, may_go_on: MayGoOn = always, advance: AdvanceLike | None = None
    ) -> list[Result[Any]]:
        """Do what is due, in the order of the deadlines, each timer a step of its own.

        `may_work` is called before each step of long work: patterns, and the pass over all offsets. If it says no, that
        work continues in the next turn. `may_go_on` is called after each timer. If it says no, the timers that are
        left fire in the next turn. `advance` is the move of the clock that is under way, if there is one.
        """
        results: list[Result[Any]] = []
        timers = self.timers
        for due in timers.fire(now_ms, may_work, may_go_on):
            if due.key == EXPIRY and due.deadline_ms != IMMEDIATELY:
                self._uncleaned = None  # of a pass that a move of the clock has overtaken
            if due.deadline_ms != IMMEDIATELY and due.key[0] in LONG_TIMERS and not may_work():
                timers.set(due.key, IMMEDIATELY)
                continue
            if advance is not None:
                if due.key[0] == SESSION and advance.keeps_alive(due.key):
                    if self.renew_session(due.key, advance.target_ms):  # once: a week has thousands of sessions
                        continue
                advance.note_timer(due)
            if due.key == EXPIRY:
                results += self._clean(now_ms)
                continue
            result = self._attempt(f"timer {due.key[0]}", partial(self._fire, due, now_ms))
            if result is not None:
                results.append(result)
            for _ in range(_timer_units(self.groups.get(due.key[1]))):
                may_go_on()  # it has taken as long as several of a small group
        return results

    def forget_topics(self, gone: Mapping[str, Collection[bytes]], now_ms: int) -> Iterator[list[Result[Any]]]:
        """Remove what was committed to topics that are `gone`, by name and with their ids, in steps.

        They may be there again meanwhile, by other ids: what is committed to those stays. A server that stops before it
        is done does the rest at its next start (`finish_loading`).
        """
        # Select these groups first: they are few among tens of thousands, and a step costs a hundred times a look-up.
        for group_id in self.offsets.groups_of(gone.keys()):
            cut = cut_forgotten_offsets(group_id, self.offsets, lambda: self.topics, gone, cleanup.TOMBSTONES_A_STEP)
            for keys in cut:
                yield self._for_groups("topics", (group_id,), partial(cleanup.remove_offsets, keys), now_ms)
        ids, pace = frozenset[bytes]().union(*gone.values()), Pace()
        for group_id in tuple(self.groups):
            if pace.is_due():
                yield []
            if group_id in self.groups and kind_of(self.groups[group_id]).without_topics is not None:
                yield self._forget_topics("topics", (group_id,), ids, now_ms)

    def _forget_topics(
        self, kind: str, groups: Iterable[str], gone: frozenset[bytes], now_ms: int
    ) -> list[Result[Any]]:
        """Let those of the groups that remember topics by their ids forget those that are no more."""
        forget = {group_id: one for group_id in groups if (one := kind_of(self.groups[group_id]).without_topics)}
        return self._for_groups(
            kind,
            forget,
            lambda group_id: forget[group_id](self.groups[group_id], gone, self._env_at(group_id, now_ms)),
            now_ms,
        )

    def remove_offsets(self, group_id: str, now_ms: int) -> Iterator[list[Result[Any]]]:
        """Remove what was left of the offsets of a group when it ended, in steps."""
        while keys := self.offsets.pop_remains(group_id, cleanup.TOMBSTONES_A_STEP):
            self.tally.deletions += len(keys)
            yield self._for_groups("offsets", (group_id,), partial(cleanup.remove_offsets, keys), now_ms)

    def end_transaction(self, producer_id: int, committed: bool, note: Note = note_nothing) -> Steps[None]:
        """Take the end of a producer's transaction, and return the steps that commit its pending offsets, or drop
        them. `note` is told what becomes committed."""
        return self.offsets.end_transaction(producer_id, committed, note)

    # -- time ----------------------------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """Return when `fire` has something to do, None for never."""
        return self.timers.next_deadline_ms()

    def renew_session(self, key: TimerKey, now_ms: int) -> bool:
        """Let a member's session run from now, as if it had just sent a heartbeat.

        Return False, and do nothing, for an id that was given out and has not joined: nobody sends heartbeats for it.
        """
        group_id, member_id = key[1], member_of(key)
        group = self.groups[group_id]
        if member_id not in group.members:
            return False
        timeout_ms = kind_of(group).session_timeout_ms(group, member_id, self.limits_of(group_id))
        # A member that is new has longer until its first heartbeat.
        self.timers.set(key, max(now_ms + timeout_ms, self.timers.deadline(key) or 0))
        return True

    def limits_of(self, group_id: str) -> Limits:
        """Return the limits of a group: the server's, unless it has settings of its own."""
        return self.own_limits.get(group_id, self.limits)

    # -- what the catalog says -----------------------------------------------------------------------------------------

    def set_limits(self, group_id: str, own: Limits | None) -> None:
        """Give a group limits of its own, or the server's; they count from its next request on."""
        if own is None:
            self.own_limits.pop(group_id, None)
        else:
            self.own_limits[group_id] = own

    def set_topics(self, topics: Topics) -> None:
        """Know these topics from now on, and no others."""
        self.topics = topics

    def adopt(self, old: "Shard") -> None:
        """Take over what does not go with a coordinator: settings, and counters of the process."""
        self.own_limits, self.tally = old.own_limits, old.tally

    # -- start-up ------------------------------------------------------------------------------------------------------

    def replay(self, record: Record, producer_id: int = NOT_TRANSACTIONAL) -> None:
        """Apply a record of the log: the next one, of a transactional batch of `producer_id` or of a plain one."""
        key = record.key
        if type(key) is OffsetCommitKey:
            self._apply_offsets((record,), producer_id)
        elif (kind := BY_KEY.get(type(key))) is not None:
            self._replay_group(kind, record)
        else:
            assert type(key) is UnknownKey, f"unexpected key {key!r}: no kind of group replays it"

    def replay_batch(self, records: Sequence[Record], producer_id: int = NOT_TRANSACTIONAL) -> None:
        """Apply the records of a batch in their order. Nearly every batch is a commit, which is offsets and no more."""
        if {type(record.key) for record in records} == {OffsetCommitKey}:
            self._apply_offsets(records, producer_id)
        else:
            for record in records:
                self.replay(record, producer_id)

    def replay_commits(self, commits: Iterable[Commits]) -> None:
        """Apply the commits of a plain batch. An offset makes its group exist."""
        for group, topic, offsets in commits:
            self.offsets.commit(group, topic, offsets)
            if group not in self.groups:
                self._put(new_group(group))

    def finish_loading(self, now_ms: int) -> list[Result[Any]]:
        """Finish loading, after all records were applied: sessions run from now on, though members may have been gone
        for long.

        Topics that were deleted before their tombstones were written, or meanwhile, are forgotten in steps afterwards
        (`forget_topics`).
        """
        self.timers.set(EXPIRY, now_ms + self.limits.offsets_retention_check_interval_ms)
        results = self._attempt_all("load", [
            partial(self._restart, group, now_ms) for group in self.groups.values() if group.members
        ])  # fmt: skip
        return results + [  # of groups whose removal the server has not lived to see
            Result(effects=(RemoveOffsets(group_id, now_ms),))
            for group_id in self.offsets.groups()
            if group_id not in self.groups
        ]

    def unload(self, now_ms: int, reason: str) -> Iterator[list[Result[Any]]]:
        """Answer the parked requests of all groups, because another broker takes the groups over, and forget them, in
        steps. Another shard is in the place of this one already."""
        pace = Pace()
        for group_id in tuple(self.groups):
            group = self.groups.pop(group_id)
            if pace.is_due(_UNLOAD_UNITS + len(group.members)):
                yield []
            yield self._attempt_all("unload", [partial(self._unload, group, now_ms, reason)])
        for _ in self.forget():
            yield []

    def forget(self) -> Steps[None]:
        """Forget everything in steps: it is long to free. The shard is of no use then."""
        yield from empty_in_steps(self.groups)
        yield from self.offsets.forget()
        yield from self.timers.forget()

    def end_renewals(self) -> None:
        """End all renewals, because another shard takes the place of this one."""
        self.renewals.end_all()

    # -- what operators ask, group by group ----------------------------------------------------------------------------

    def describe(self, kind: Kind, group_id: str, call: Call) -> Any:
        """Describe one group, which is to be of that kind: an entry of the response of the kind's own API."""
        return kind.description.describe(self.groups.get(group_id), group_id, self._env(group_id, call))

    def list_groups(self) -> Iterator[ListGroupsResponseListedGroup]:
        """ListGroups: all groups; `list_groups.Filters` is the request's. Groups may change meanwhile."""
        for group in tuple(self.groups.values()):
            yield list_group(group)

    def fetch_offsets(
        self, wanted: OffsetFetchRequestGroup, version: int, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """OffsetFetch: one group. `offsets.offset_fetch` has the forms before there were several in a request."""
        if not require_stable and self.offsets.is_group_ending(wanted.group_id):
            return OffsetFetchResponseGroup(wanted.group_id, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        group = self.groups.get(wanted.group_id)
        if group is not None:
            if error := kind_of(group).validate_fetch(group, wanted.member_id, wanted.member_epoch):
                return OffsetFetchResponseGroup(wanted.group_id, error_code=error)
        return fetch_offsets(wanted, version, self.offsets, self.topics, require_stable=require_stable)

    # -- decide --------------------------------------------------------------------------------------------------------

    def _env(self, group_id: str, call: Call) -> Env:
        return Env(call, self.limits_of(group_id), self.topics, self.assignors, self.offsets)

    def _env_at(self, group_id: str, now_ms: int) -> Env:
        """Return the environment of what no client has asked for."""
        return self._env(group_id, Call(0, now_ms, 0, None, "", _no_id))

    def _fire(self, due: Due, now_ms: int) -> Result[Any]:
        name, group_id, _ = due.key
        group, env = self.groups[group_id], self._env_at(group_id, now_ms)
        try:
            return self._finish(TIMERS[name, type(group)](group, due, env), now_ms)
        except BatchTooLarge:  # before any of it was applied
            give_up = kind_of(group).too_large.get(name)
            if give_up is not None:
                return self._finish(give_up(group, due, env), now_ms)
            self.timers.set(due.key, now_ms + RETRY_MS)
            return Result()

    def _restart(self, group: Group, now_ms: int) -> Result[Any]:
        return self._finish(kind_of(group).restart(group, self._env_at(group.group_id, now_ms)), now_ms)

    def _unload(self, group: Group, now_ms: int, reason: str) -> Result[Any]:
        return kind_of(group).unload(group, self._env_at(group.group_id, now_ms), reason)

    def _attempt_all(self, kind: str, steps: Iterable[Step]) -> list[Result[Any]]:
        results = (self._attempt(kind, step) for step in steps)
        return [result for result in results if result is not None]

    def _for_groups(
        self, kind: str, groups: Iterable[str], decide: Callable[[str], Result[Any]], now_ms: int
    ) -> list[Result[Any]]:
        """Run a step for each of these groups; return what the groups for which there is something to write lead
        to."""

        def step(group_id: str) -> Result[Any]:
            return self._finish(decide(group_id), now_ms)

        steps = [partial(step, group_id) for group_id in groups]
        return [result for result in self._attempt_all(kind, steps) if result.records]

    def _clean(self, now_ms: int) -> list[Result[Any]]:
        """Do a part of the pass that expires offsets, and set the timer for the rest or for the next pass."""
        if self._uncleaned is None:
            self._uncleaned = self._cut_groups()
        results: list[Result[Any]] = []
        units = 0
        for group_id, part, is_last in self._uncleaned:
            units += _GROUP_UNITS + sum([len(partitions) for _, partitions in part])
            if group_id in self.groups:
                step = partial(self._expire, group_id, part, is_last, now_ms)
                result = self._attempt("timer expiry", step)
                if result is not None and result.records:
                    results.append(result)
                    units += _RECORD_UNITS * len(result.records)
            if units >= CLEANED_AT_ONCE:
                self.timers.set(EXPIRY, IMMEDIATELY)
                return results
        self._uncleaned = None
        self.timers.set(EXPIRY, now_ms + self.limits.offsets_retention_check_interval_ms)
        return results

    def _cut_groups(self) -> Iterator[_Uncleaned]:
        for group_id in tuple(self.groups):
            for part, is_last in cut_offsets(group_id, self.offsets, cleanup.TOMBSTONES_A_STEP):
                yield group_id, part, is_last

    def _expire(self, group_id: str, part: Part, is_last: bool, now_ms: int) -> Result[Any]:
        result = cleanup.expire_offsets(self.groups[group_id], part, is_last, self._env_at(group_id, now_ms))
        self._finish(result, now_ms)
        self.tally.expirations += offsets_in(result.records)
        return result

    # -- apply ---------------------------------------------------------------------------------------------------------

    def _finish(self, result: Result[Any], now_ms: int) -> Result[Any]:
        """Encode what was decided, and make it so."""
        records, group = result.records, result.group
        if records:
            self._write(result, now_ms)
        if group is not None:
            self._put(group)
        for effect in result.effects:
            if type(effect) is SetTimer:
                if not effect.only_if_absent or effect.key not in self.timers:
                    self.timers.set(effect.key, effect.at_ms)
            elif type(effect) is CancelTimer:
                self.timers.cancel(effect.key)
            elif type(effect) is RemoveGroup:
                self._remove(effect.group_id)
            else:
                assert type(effect) in _OF_THE_RUNTIME, f"{effect!r} is no effect of a group"
        if group is not None and group.departed:
            self._cancel_stray_timers(group)
        if records:
            self._apply_offsets(records, NOT_TRANSACTIONAL if result.producer is None else result.producer.id)
        return result

    def _put(self, group: Group) -> None:
        """Store the group, and cancel the timers of members and states that it no longer has."""
        group_id = group.group_id
        old = self.groups.get(group_id)
        if old is group:
            return
        if group.departed:
            self._cancel_stray_timers(group)
            group = replace(group, departed=())  # type: ignore[type-var]  # all groups are Structs
        kind, before = kind_of(group), old
        if old is not None:
            if type(old) is not type(group):
                self.timers.cancel_group(group_id)
                self._release(group_id)
                before = None
            else:
                for key in kind.ended_timers(old, group):
                    self.timers.cancel(key)
        if more_bytes := kind.weigh_change(before, group):
            self._hold(group_id, more_bytes)
        self.groups[group_id] = group
        self.renewals.end(group_id)
        if old is None:
            self.groups_bytes += _bytes_of(group_id)

    def _hold(self, group_id: str, more_bytes: int) -> None:
        """Note that the members of a group take so many bytes more."""
        self._members_bytes_of[group_id] = self._members_bytes_of.get(group_id, 0) + more_bytes
        self.members_bytes += more_bytes
        self._surroundings.hold_members(more_bytes)

    def _release(self, group_id: str) -> None:
        """Note that the group has no members any more."""
        held_bytes = self._members_bytes_of.pop(group_id, 0)
        self.members_bytes -= held_bytes
        self._surroundings.hold_members(-held_bytes)

    def _cancel_stray_timers(self, group: Group) -> None:
        """Cancel the timers of members that the result has removed or replaced, even those that it has just set."""
        for member_id in group.departed:
            if not group.has_member(member_id):
                self.timers.cancel_member(group.group_id, member_id, kind_of(group).member_timers)

    def _remove(self, group_id: str) -> None:
        """Remove the group and all timers of it."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            self._release(group_id)
            self.renewals.end(group_id)
            self.groups_bytes -= _bytes_of(group_id)
            self.timers.cancel_group(group_id)

    def _apply_offsets(self, records: Iterable[Record | OffsetCommits], producer_id: int) -> None:
        """Apply offsets. One creates its group if nobody ever joined: an empty one without a protocol type."""
        groups = self.groups
        self.offsets.apply_all(records, producer_id)
        for record in records:
            if type(record) is OffsetCommits:
                if record.group not in groups:
                    self._put(new_group(record.group))
                continue
            key = record.key
            if type(key) is OffsetCommitKey and key.group not in groups and record.value is not None:
                self._put(new_group(key.group))

    def _replay_group(self, kind: Kind, record: Record) -> None:
        """Apply a record of a group.

        A tombstone of another kind is ignored. Any other record of another kind replaces the group if it gives way, and
        raises Inconsistent if it does not.
        """
        key: Any = record.key
        group_id = kind.group_id(key)
        old = self.groups.get(group_id)
        if old is not None and kind_of(old) is not kind:
            if record.value is None:
                return
            if not kind_of(old).gives_way(old):
                raise Inconsistent(
                    f"group {group_id} is a {kind_of(old).name} one, and has records of a {kind.name} group"
                )
            group = kind.keys[type(key)](None, record)
        else:
            group = kind.keys[type(key)](old, record)
        if group is not None:
            self._put(group)
        elif old is not None:
            self._remove(group_id)
