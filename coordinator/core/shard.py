"""One partition's machine: which handler decides a request, and what its result does to the shard.

The runtime knows this class and the words of `result`. It hands in requests, the time and, at start, the records of the
log; it writes `Result.records` of one result as one atomic batch, and releases answers only then. It does nothing about
timers but to call `fire` when `next_deadline_ms` has come.

Requests for one group come through `handle`: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetDelete,
TxnOffsetCommit, ConsumerGroupHeartbeat. Requests for many groups are split by the router, over all shards, and merged
there; for them a shard has a function for one group, or for all of its own: `describe`, `describe_consumer`, `list`,
`delete`, `fetch_offsets`.

Decided before a request comes here, by the router: who may do what (ACLs), whose partition it is and whether it is
loaded (errors 14, 15, 16), and that the group id is one (24) where Kafka asks that of the service and not of the group.
Decided here: whether topics and partitions exist (O-003, O-004), since `topics` is a value the shard has anyway; the
router takes out only what the client may not see.

Consumer groups (KIP-848) have the same way in, by the class of the group, through the functions of `consumer.api`:

    consumer_group_heartbeat(group | None, request, call, limits, topics) -> Result    also of a ClassicGroup: upgrades it
    join_group, sync_group, heartbeat, leave_group(group, request, call, limits, topics) -> Result     classic members
    fired(group, kind, member_id, deadline_ms, now_ms, limits, topics) -> Result       a timer of the group went off
    topics_changed(group, topics, now_ms) -> Result | None        loaded(group, now_ms, limits, topics) -> Result
    replay(group | None, record) -> ConsumerGroup | None          tombstones(group) -> tuple[Record, ...]
    commit_refusal(group, request, call) -> ErrorCode             fetch_refusal(group, member_id, epoch) -> ErrorCode
    describe(group, topics) -> DescribedGroup                     is_subscribed(group, topic) -> bool

All that is durable is in the groups, in the offsets, and in the records that made them. What is soft, and named here
once: parked requests and pending members (in the classic groups), and the timers.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinator.core.classic.group import ClassicGroup
from coordinator.core.limits import Limits
from coordinator.core.offsets.store import NOT_TRANSACTIONAL, OffsetStore
from coordinator.core.records import OffsetCommitKey, Record
from coordinator.core.result import Call, CancelTimer, Reply, Result, SetTimer
from coordinator.core.timers import Timers
from coordinator.core.topics import Topics

Group = ClassicGroup  # | ConsumerGroup
Handler = Callable[["Shard", Any, Call], Result[Group]]


class Shard:
    """The groups and offsets of one partition of `__consumer_offsets`."""

    def __init__(self, partition: int, limits: Limits, topics: Topics) -> None:
        self.partition = partition
        self.limits = limits
        self.topics = topics
        self.offsets = OffsetStore()
        self.timers = Timers()
        self.counts: Counter[tuple[type, str]] = Counter()  # groups by class and state
        self._groups: dict[str, Group] = {}

    @property
    def groups(self) -> Mapping[str, Group]:
        """All groups by id. A view, for metrics and for people."""
        return self._groups

    def handle(self, request: Any, call: Call) -> Result[Group]:
        """Decide one request."""
        return self._done(HANDLERS[type(request)](self, request, call))

    def next_deadline_ms(self) -> int | None:
        """When `fire` has something to do, None for never."""
        return self.timers.next_deadline_ms()

    def _done(self, result: Result[Group]) -> Result[Group]:
        """Make what a handler decided true."""
        group = result.group
        if group is not None:
            self._put(group)
        for effect in result.effects:
            if type(effect) is SetTimer:
                self.timers.set(effect.key, effect.at_ms)
            elif type(effect) is CancelTimer:
                self.timers.cancel(effect.key)
            else:
                assert type(effect) is Reply, f"{effect!r} is no effect"
        for record in result.records:
            if type(record.key) is OffsetCommitKey:
                self._apply_offset(record, NOT_TRANSACTIONAL if result.producer is None else result.producer.id)
        return result

    def _put(self, group: Group) -> None:
        old = self._groups.get(group.group_id)
        if old is group:
            return
        self._groups[group.group_id] = group
        if old is None or old.state is not group.state or type(old) is not type(group):
            self.counts[type(group), group.state] += 1
            if old is not None:
                self.counts[type(old), old.state] -= 1

    def _remove(self, group_id: str) -> None:
        group = self._groups.pop(group_id)
        self.counts[type(group), group.state] -= 1

    def _apply_offset(self, record: Record, producer_id: int) -> None:
        """An offset makes its group exist: one that nobody ever joined is an empty group without a protocol type."""
        self.offsets.apply(record, producer_id)
        group_id = record.key.group  # type: ignore[union-attr]  # the caller has looked
        if record.value is not None and group_id not in self._groups:
            self._put(ClassicGroup(group_id))


HANDLERS: Final[dict[type, Handler]] = {}
