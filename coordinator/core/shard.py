"""One partition's machine: which handler decides a request, and what its result does to the shard.

The runtime knows this class and the words of `result`. It hands in requests, the time and, at start, the records of the
log; it writes `Result.records` of one result as one atomic batch, and releases answers only then. It does nothing about
timers but to call `fire` when `next_deadline_ms` has come.

Requests for one group come through `handle`: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetDelete,
TxnOffsetCommit, ConsumerGroupHeartbeat. Requests for many groups are split over all shards by the runtime, and merged
there; for them a shard has a function for one group, or for all of its own: `describe`, `describe_consumer`, `listed`,
`delete`, `fetch_offsets`.

Decided before a request comes here, in `runtime/groups`: whose partition it is, whether that is loaded (14), and for
an offset in a transaction whether the producer has that open. Decided here is all the rest: whether the group id is one
(24), whether topics and partitions exist, since `topics` is a value the shard has anyway. Everybody may do everything:
there are no ACLs, and no client for whom `call.sees` hides a topic.

Consumer groups (KIP-848) have the same way in, by the class of the group, through the functions of `consumer.api`:

    consumer_group_heartbeat(group | None, request, call, limits, topics, assignors) -> Result   upgrades a ClassicGroup
    join_group(group, request, call, limits, topics, assignors) -> Result                           of a classic member
    sync_group, heartbeat, leave_group(group, request, call, limits, topics) -> Result               of classic members
    fired(group, kind, member_id, deadline_ms, now_ms, limits, topics) -> Result       a timer of the group went off
    loaded(group, now_ms, limits, topics) -> Result               is_subscribed(group, topic) -> bool
    replay(group | None, record) -> ConsumerGroup | None          tombstones(group) -> tuple[Record, ...]
    commit_refusal(group, request, call, topics) -> ErrorCode     fetch_refusal(group, member_id, epoch) -> ErrorCode
    describe(group, limits, topics) -> DescribedGroup             not_found(group_id) -> DescribedGroup
    group_timers(group) -> tuple[TimerKey, ...]                   malformed(request, version, limits) -> Refusal | None

That topics have changed a consumer group finds out for itself, at its next heartbeat.

All that is durable is in the groups, in the offsets, and in the records that made them. What is soft, and named here
once: parked requests and pending members (in the classic groups), the timers, and the tally of offsets.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from coordinator.core import cleanup, timers
from coordinator.core.admin import list_groups
from coordinator.core.admin.describe_groups import described
from coordinator.core.assignors import BUILT_IN
from coordinator.core.assignors.spec import Assignor
from coordinator.core.classic import durable, expiry
from coordinator.core.classic.group import ClassicGroup
from coordinator.core.consumer import api as consumer
from coordinator.core.consumer.group import ConsumerGroup
from coordinator.core.consumer.owners import Inconsistent
from coordinator.core.dispatch import HANDLERS, Group
from coordinator.core.limits import Limits
from coordinator.core.offsets.offset_fetch import fetch_offsets
from coordinator.core.offsets.store import NOT_TRANSACTIONAL, OffsetStore
from coordinator.core.offsets.tally import Tally, offsets_in
from coordinator.core.records import GroupMetadataKey, OffsetCommitKey, Record, UnknownKey
from coordinator.core.result import Call, CancelTimer, Reply, Result, SetTimer
from coordinator.core.timers import EXPIRY, Timers
from coordinator.core.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponseDescribedGroup
from protocol.messages.delete_groups import DeleteGroupsResponseDeletableGroupResult
from protocol.messages.describe_groups import DescribeGroupsResponseDescribedGroup
from protocol.messages.list_groups import ListGroupsResponseListedGroup
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup

CLEANED_AT_ONCE: Final = 10_000  # offsets looked at before the next turn: some milliseconds


_NO_TOPICS: Final[Mapping[str, Collection[bytes]]] = {}


class HandlerFailed(Exception):  # noqa: N818 - it is raised for mistakes of ours
    """A handler raised what nobody thought of; its cause says what."""


class Shard:
    """The groups and offsets of one partition of `__consumer_offsets`."""

    def __init__(
        self, partition: int, limits: Limits, topics: Topics, assignors: Mapping[str, Assignor] = BUILT_IN
    ) -> None:
        self.partition = partition
        self.limits = limits
        self.own_limits: Mapping[str, Limits] = {}  # of groups with settings of their own; set by the runtime
        self.assignors = assignors
        self.topics = topics
        self.offsets = OffsetStore()
        self.tally = Tally()
        self.timers = Timers()
        self.counts: Counter[tuple[type, str]] = Counter()  # groups by class and state
        self.groups: dict[str, Group] = {}  # by id; to be read by others, and changed here only
        self._uncleaned: Iterator[str] | None = None  # groups that the pass over all offsets has yet to see

    # -- normal work ---------------------------------------------------------------------------------------------------

    def handle(self, request: Any, call: Call) -> Result[Any]:
        """Decide one request. Raises HandlerFailed, and then nothing has changed: a handler only returns a Result."""
        try:
            result = HANDLERS[type(request)](self, request, call)
        except Exception as error:
            raise HandlerFailed from error
        return self._done(result)

    def limits_of(self, group_id: str) -> Limits:
        """The limits of a group: the server's, unless it has settings of its own."""
        return self.own_limits.get(group_id, self.limits) if self.own_limits else self.limits

    def next_deadline_ms(self) -> int | None:
        """When `fire` has something to do, None for never."""
        return self.timers.next_deadline_ms()

    def fire(self, now_ms: int) -> list[Result[Any]]:
        """Do what is due, in the order of the deadlines."""
        results: list[Result[Any]] = []
        while (due := self.timers.pop_due(now_ms)) is not None:
            key, deadline_ms = due
            kind, group_id, member_id = key
            group = self.groups.get(group_id)
            if key == EXPIRY:
                results += self._cleaned(now_ms)
            elif group is not None:
                results.append(self._done(self._fired(group, kind, member_id, deadline_ms, now_ms)))
        return results

    def topics_changed(self, topics: Topics, now_ms: int) -> list[Result[Any]]:
        """Topics have been created, grown or deleted. What was committed to a deleted topic goes with it."""
        gone = {name for name, topic in self.topics.items() if topics.id_of(name) != topic.id}
        self.topics = topics
        if not gone:
            return []
        results = (cleanup.orphans(group_id, self.offsets, gone) for group_id in tuple(self.offsets.groups()))
        return [self._done(result) for result in results if result.records]

    def end_transaction(self, producer_id: int, committed: bool) -> list[Result[Any]]:
        """A producer's marker is about to be written: its pending offsets are committed, or dropped. Writes no more."""
        self.offsets.end_transaction(producer_id, committed)
        return []

    # -- start-up ------------------------------------------------------------------------------------------------------

    def replay(self, record: Record, producer_id: int = NOT_TRANSACTIONAL) -> None:
        """Apply a record of the log: the next one, of a transactional batch of `producer_id` or of a plain one."""
        key = record.key
        if type(key) is OffsetCommitKey:
            self._apply_offsets((record,), producer_id)
        elif type(key) is GroupMetadataKey:
            self._replay_classic(key.group, record)
        elif type(key) in consumer.KEYS:
            self._replay_consumer(record)
        else:
            assert type(key) is UnknownKey, f"{key!r}: nobody replays that"

    def replay_batch(self, records: Sequence[Record], producer_id: int = NOT_TRANSACTIONAL) -> None:
        """Apply the records of a batch in their order. Nearly every batch is a commit, which is offsets and no more."""
        if {type(record.key) for record in records} == {OffsetCommitKey}:
            self._apply_offsets(records, producer_id)
        else:
            for record in records:
                self.replay(record, producer_id)

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Apply the end of a producer's transaction."""
        self.offsets.end_transaction(producer_id, committed)

    def loaded(self, now_ms: int, gone: Mapping[str, Collection[bytes]] = _NO_TOPICS) -> list[Result[Any]]:
        """All records have been applied: sessions run from now on, though members may have been gone for long.

        `gone` has, by name, the ids of topics that are no more: what was committed to them goes now, if the server
        stopped before it went, or if they were deleted meanwhile.
        """
        self.timers.set(EXPIRY, now_ms + self.limits.offsets_retention_check_interval_ms)
        results = [self._done(self._restarted(group, now_ms)) for group in tuple(self.groups.values()) if group.members]
        return results + (self._forgotten(gone) if gone else [])

    # -- for the router, group by group --------------------------------------------------------------------------------

    def describe(self, group_id: str, version: int) -> DescribeGroupsResponseDescribedGroup:
        """DescribeGroups: one classic group."""
        return described(group_id, self.groups.get(group_id), version)

    def describe_consumer(self, group_id: str) -> ConsumerGroupDescribeResponseDescribedGroup:
        """ConsumerGroupDescribe: one consumer group."""
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return consumer.not_found(group_id)
        return consumer.describe(group, self.limits_of(group_id), self.topics)

    def listed(self) -> Iterator[ListGroupsResponseListedGroup]:
        """ListGroups: all groups; `admin.list_groups.Wanted` is the request's filter. Groups may change meanwhile."""
        for group in tuple(self.groups.values()):
            if isinstance(group, ConsumerGroup):
                yield list_groups.listed(group, "consumer", "consumer")
            else:
                yield list_groups.listed(group, "classic", group.protocol_type)

    def delete(self, group_id: str, now_ms: int) -> Result[Any]:
        """DeleteGroups: one group, with all of its offsets. The response is the entry about it."""
        group = self.groups.get(group_id)
        if error := cleanup.delete_refusal(group):
            return Result(response=DeleteGroupsResponseDeletableGroupResult(group_id, error))
        assert group is not None, "there is no group, and that is no reason"
        result = self._done(cleanup.deleted(group, self.offsets, now_ms))
        self.tally.deletions += offsets_in(result.records)
        self._remove(group_id)
        return result.answering(DeleteGroupsResponseDeletableGroupResult(group_id))

    def fetch_offsets(
        self, wanted: OffsetFetchRequestGroup, version: int, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """OffsetFetch: one group. `offsets.offset_fetch` has the old form, `asked`, and the old answer, `answered`."""
        group = self.groups.get(wanted.group_id)
        error = ErrorCode.NONE
        if isinstance(group, ConsumerGroup):
            error = consumer.fetch_refusal(group, wanted.member_id, wanted.member_epoch)
        if error:
            return OffsetFetchResponseGroup(wanted.group_id, error_code=error)
        return fetch_offsets(wanted, version, self.offsets, self.topics, require_stable=require_stable)

    # -- within --------------------------------------------------------------------------------------------------------

    def _done(self, result: Result[Any]) -> Result[Any]:
        """Make what was decided true."""
        if result.group is not None:
            self._put(result.group)
        for effect in result.effects:
            if type(effect) is SetTimer:
                if not effect.keep or effect.key not in self.timers:
                    self.timers.set(effect.key, effect.at_ms)
            elif type(effect) is CancelTimer:
                self.timers.cancel(effect.key)
            else:
                assert type(effect) is Reply, f"{effect!r} is no effect"
        if result.records:
            producer_id = NOT_TRANSACTIONAL if result.producer is None else result.producer.id
            self._apply_offsets(result.records, producer_id)
        return result

    def _forgotten(self, gone: Mapping[str, Collection[bytes]]) -> list[Result[Any]]:
        groups = tuple(self.offsets.groups())
        results = (cleanup.forgotten(group_id, self.offsets, self.topics, gone) for group_id in groups)
        return [self._done(result) for result in results if result.records]

    def _put(self, group: Group) -> None:
        """The group is there, and is this one."""
        old = self.groups.get(group.group_id)
        if old is group:
            return
        self.groups[group.group_id] = group
        if old is None or old.state is not group.state:
            self.counts[type(group), group.state] += 1
            if old is not None:
                self.counts[type(old), old.state] -= 1

    def _remove(self, group_id: str) -> None:
        """The group is not there, nor are the ids that it has given out."""
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        self.counts[type(group), group.state] -= 1
        if isinstance(group, ConsumerGroup):
            for key in consumer.group_timers(group):
                self.timers.cancel(key)
        else:
            for member_id in group.pending:
                self.timers.cancel(timers.session(group_id, member_id))

    def _apply_offsets(self, records: Iterable[Record], producer_id: int) -> None:
        """An offset makes its group exist: one that nobody ever joined is an empty group without a protocol type."""
        groups, apply = self.groups, self.offsets.apply
        for record in records:
            key = record.key
            if type(key) is OffsetCommitKey:
                apply(record, producer_id)
                if key.group not in groups and record.value is not None:
                    self._put(ClassicGroup(key.group))

    def _fired(self, group: Group, kind: str, member_id: str, deadline_ms: int, now_ms: int) -> Result[Any]:
        if isinstance(group, ConsumerGroup):
            limits = self.limits_of(group.group_id)
            return consumer.fired(group, kind, member_id, deadline_ms, now_ms, limits, self.topics)
        return expiry.fired(group, kind, member_id, deadline_ms, now_ms, self.limits)

    def _restarted(self, group: Group, now_ms: int) -> Result[Any]:
        if isinstance(group, ConsumerGroup):
            return consumer.loaded(group, now_ms, self.limits_of(group.group_id), self.topics)
        return expiry.loaded(group, now_ms, self.limits)

    def _replay_classic(self, group_id: str, record: Record) -> None:
        if record.value is None:
            self._remove(group_id)
        else:
            self._put(durable.restored(group_id, record.value))  # type: ignore[arg-type]  # the key says which

    def _replay_consumer(self, record: Record) -> None:
        """A consumer group takes the place of a group of offsets alone; of another classic one only after its end."""
        group_id: str = record.key.group_id  # type: ignore[union-attr]  # all keys of consumer groups have it
        old = self.groups.get(group_id)
        if isinstance(old, ClassicGroup):
            if record.value is None:
                return
            if old.members or old.protocol_type is not None:
                raise Inconsistent(f"group {group_id} is a classic one, and has records of a consumer group")
        group = consumer.replay(old if isinstance(old, ConsumerGroup) else None, record)
        if group is not None:
            self._put(group)
        elif old is not None:
            self._remove(group_id)

    def _cleaned(self, now_ms: int) -> list[Result[Any]]:
        """A part of the pass over all offsets; the rest has its turn in a millisecond, the next pass in its time."""
        if self._uncleaned is None:
            self._uncleaned = iter(tuple(self.groups))
        results: list[Result[Any]] = []
        looked_at = 0
        for group_id in self._uncleaned:
            if group_id in self.groups:
                results += self._expired(self.groups[group_id], now_ms)
                looked_at += 1 + sum(map(len, self.offsets.of_group(group_id).values()))
            if looked_at >= CLEANED_AT_ONCE:
                self.timers.set(EXPIRY, now_ms + 1)
                return results
        self._uncleaned = None
        self.timers.set(EXPIRY, now_ms + self.limits.offsets_retention_check_interval_ms)
        return results

    def _expired(self, group: Group, now_ms: int) -> list[Result[Any]]:
        result, ends = cleanup.expired(group, self.offsets, now_ms, self.limits.offsets_retention_ms)
        if not result.records:
            return []
        self._done(result)
        self.tally.expirations += offsets_in(result.records)
        if ends:
            self._remove(group.group_id)
        return [result]
