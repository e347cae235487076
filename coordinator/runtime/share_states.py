"""The share coordinator of the node: `__share_group_state`, of which each partition is a state machine with a log.

    call ──► decide ──► encode, gather, apply ──► the turn's flush appends what was gathered, once a partition

The topic is made when a share group first needs it, as by Kafka. Its logs are topics' logs, which clients may fetch and
describe; nothing is written to them but here. They are not compacted: what no share partition needs is deleted.
"""

import errno
from collections.abc import Callable, Collection, Generator, Hashable, Iterator
from typing import Any, Final

from coordinator.core.catalog.names import SHARE_STATE_TOPIC
from coordinator.core.catalog.records import TopicValue
from coordinator.core.decision import Steps
from coordinator.core.pace import Pace
from coordinator.core.refusal import Refusal
from coordinator.core.result import Result
from coordinator.core.share_state.keys import coordinator_key
from coordinator.core.share_state.machine import StateDecision, StateMachine
from coordinator.core.share_state.persister import Retry
from coordinator.core.share_state.records import StateRecord, decode
from coordinator.core.share_state.values import ShareState, StateKey, StateSummary, StateUpdate
from coordinator.dataplane.brokers import NOBODY, OPERATOR
from coordinator.runtime.damage import describe_damage, read_log
from coordinator.runtime.log_pace import LogPace
from coordinator.runtime.memory import Memory
from coordinator.runtime.own_topics import make_topic
from coordinator.runtime.share_state_log import StateLog
from coordinator.runtime.world import World
from protocol.errors import ErrorCode, ProtocolError
from protocol.java_hash import partition_of
from storage.files import StorageError

PRUNED_AT_ONCE: Final = 1_000  # snapshots of what had not changed for long, in one step

NOT_SERVED: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""The codes of a partition that is loaded later: `call_when_served` says when."""

Decide = Callable[[StateMachine], StateDecision]


class ShareStates:
    """All partitions of `__share_group_state`. It is the node's `Persister`."""

    def __init__(
        self,
        world: World,
        record: Callable[[Result[Any], int], Any],
        append: Callable[[], None],
        fresh_topic_id: Callable[[], bytes],
        memory: Memory,
    ) -> None:
        """`record` makes a result of the catalog so, `append` has what was decided on the disk when it returns."""
        self._world = world
        self._memory = memory
        self._record = record
        self._append = append
        self._fresh_topic_id = fresh_topic_id
        self._logs: list[StateLog] = []  # none while the topic does not exist
        self._dirty: dict[StateLog, None] = {}
        self._forgetting: dict[str, ErrorCode] = {}  # groups that go after their states, with what keeps one from it
        self._waiting: dict[int, dict[Any, Retry]] = {}  # by the partition whose state they need, and name
        self._updates_per_snapshot: int = world.config["share.coordinator.snapshot.update.records.per.snapshot"]
        self._cold_ms: int = world.config["share.coordinator.cold.partition.snapshot.interval.ms"]

    @property
    def partitions(self) -> int:
        """How many partitions the topic has, 0 while it does not exist."""
        return len(self._logs)

    def note_forgetting(self, group_id: str, code: ErrorCode = ErrorCode.NONE) -> None:
        """A group goes once its states are gone, or stays for this reason."""
        self._forgetting[group_id] = code

    def end_forgetting(self, group_id: str) -> None:
        """The states of a group that is to go are gone."""
        self._forgetting.pop(group_id, None)

    def take_forgetting(self, group_id: str) -> ErrorCode | None:
        """Return NONE while the states of a group go, so that it can; once, why it stays; None of any other group."""
        code = self._forgetting.get(group_id)
        if code:
            del self._forgetting[group_id]
        return code

    @property
    def is_served(self) -> bool:
        """Whether each of them has a coordinator that has loaded it."""
        return all(one.served_by != NOBODY for one in self._logs)

    # -- the persister -------------------------------------------------------------------------------------------------

    def initialize(self, key: StateKey, state_epoch: int, start_offset: int, now_ms: int) -> ErrorCode:
        """Begin the state anew at an offset; NO_OFFSET leaves it to the first fetch."""
        topics = self._topics
        return _code(self._do(key, lambda one: one.initialize(key, state_epoch, start_offset, topics, now_ms), now_ms))

    def read(self, key: StateKey, leader_epoch: int, now_ms: int) -> ShareState | ErrorCode:
        """Return the state, and note the leader epoch of who has read it."""
        answer = self._do(key, lambda one: one.read(key, leader_epoch, self._topics, now_ms), now_ms)
        return answer if isinstance(answer, ShareState) else _code(answer)

    def write(self, key: StateKey, update: StateUpdate, now_ms: int) -> ErrorCode:
        """Change the state. Fenced by an older leader or state epoch than that of the state."""
        return _code(self._do(key, lambda one: one.write(key, update, self._topics, now_ms), now_ms))

    def delete(self, key: StateKey, now_ms: int) -> ErrorCode:
        """Forget the state; NONE as well if there was none."""
        return _code(self._do(key, lambda one: one.delete(key, self._topics), now_ms))

    def summary(self, key: StateKey) -> StateSummary | ErrorCode:
        """Return offsets and epochs; those of a new state if there is none."""
        if not self._logs:
            return StateSummary()
        answer = self._do(key, lambda one: one.summarize(key, self._topics), 0)
        return answer if isinstance(answer, StateSummary) else _code(answer)

    def call_when_served(self, key: StateKey, call: Retry, name: Hashable = None) -> None:
        """Call once, with the time in milliseconds, when the state is served again: the latest call of each name."""
        self._waiting.setdefault(self.partition_of(key), {})[call if name is None else name] = call

    def perform(self, key: StateKey, decide: Decide, node_id: int, now_ms: int) -> Any:
        """Decide a request of a client who takes the broker `node_id` for the coordinator. Returns the answer, or a
        `Refusal`."""
        of_states = self._world.coordinators.of_share_states
        if not self._logs or node_id not in (OPERATOR, of_states[self.partition_of(key)]):
            return Refusal(ErrorCode.NOT_COORDINATOR, "This is not the correct coordinator.")
        return self._do(key, decide, now_ms)

    def _do(self, key: StateKey, decide: Decide, now_ms: int) -> Any:
        """Decide, and make it so. What raises has changed nothing."""
        if not self._logs:
            self.create_topic(now_ms)
        one = self._logs[self.partition_of(key)]
        if one.served_by == NOBODY:
            has_coordinator = self._world.coordinators.of_share_states[one.index] != NOBODY
            return Refusal(NOT_SERVED[0] if has_coordinator else NOT_SERVED[1])
        decision = decide(one.machine)
        if decision.record is not None:
            self._gather(one, decision.record, now_ms)
        return decision.answer

    def _gather(self, one: StateLog, record: StateRecord, now_ms: int) -> None:
        one.gather(record, now_ms)
        self._dirty[one] = None
        if self._world.is_synced:
            self._world.gathering.add(1)

    @property
    def _topics(self) -> Any:
        return self._world.ledger.catalog.topics

    def partition_of(self, key: StateKey) -> int:
        """Return the partition that remembers a state."""
        return self.partition_of_name(coordinator_key(key))

    def partition_of_name(self, name: str) -> int:
        """Return the partition that remembers the state `group:topic id:partition`."""
        return partition_of(name, len(self._logs))

    # -- the log -------------------------------------------------------------------------------------------------------

    @property
    def has_gathered(self) -> bool:
        """Whether something waits to be appended."""
        return bool(self._dirty)

    def flush(self) -> None:
        """Append what was gathered, once a partition. Raises StorageError, after which nothing may be answered."""
        dirty, self._dirty = self._dirty, {}
        for one in dirty:
            one.flush(self._world.dataplane.append_state)

    def refuse_losses(self, lost: Collection[tuple[str, int]]) -> None:
        """Raise StorageError if states may be lost of which somebody was told, or may be."""
        for topic, index in lost:
            if topic == SHARE_STATE_TOPIC:
                reason = self._world.dataplane.closed_partitions.get((topic, index), "closed")
                raise StorageError("write", f"{topic}-{index}", errno.EIO, reason)

    # -- the topic -----------------------------------------------------------------------------------------------------

    def create_topic(self, now_ms: int) -> None:
        """Make the topic, and serve its partitions, which are empty."""
        self._record(self._topic(now_ms), now_ms)
        self.open()
        for one in self._logs:
            self.serve(one.index, now_ms)

    def adopt_topic(self, now_ms: int) -> None:
        """Make the topic if there are logs of it that the catalog does not know: a copy of another broker's."""
        if SHARE_STATE_TOPIC not in self._world.ledger.catalog.topics_by_name and self._stored_partitions():
            self._world.ledger.record(self._topic(now_ms), now_ms)

    def _topic(self, now_ms: int) -> Result[Any]:
        config = self._world.config
        count: int = config["share.coordinator.state.topic.num.partitions"]
        topic = TopicValue(self._fresh_topic_id(), count, 1, now_ms)
        return Result(records=make_topic(SHARE_STATE_TOPIC, topic, config))

    def open(self) -> None:
        """Make the partitions of the topic, if it exists. They are served once they are loaded."""
        topic = self._world.ledger.catalog.topics_by_name.get(SHARE_STATE_TOPIC)
        if topic is not None:
            self._logs = [StateLog(index, self._machine()) for index in range(topic.partitions)]
            self._world.coordinators.spread_share_states(topic.partitions)

    def _machine(self) -> StateMachine:
        memory = self._memory
        return StateMachine(self._updates_per_snapshot, memory.hold_states, lambda: not memory.shortage.of_members)

    def forget_topics(self, gone: Collection[bytes], now_ms: int) -> Steps[None]:
        """Forget the states of topics that are no more, in steps. What is loaded meanwhile forgets them itself."""
        pace = Pace()
        for one in self._logs:
            machine = one.machine
            for record in machine.remove_topics(gone):
                if pace.is_due():
                    yield
                if one.machine is machine and one.served_by != NOBODY:
                    self._gather(one, record, now_ms)

    def _remove_topics(self, one: StateLog, gone: Collection[bytes], now_ms: int) -> None:
        for record in one.machine.remove_topics(gone):
            self._gather(one, record, now_ms)

    # -- loading -------------------------------------------------------------------------------------------------------

    def load(self, now_ms: Callable[[], int]) -> Iterator[int]:
        """Load all partitions at the start, those with nothing to load first. Yields how many records were read."""
        stored = self._stored_partitions()
        for one in sorted(self._logs, key=lambda one: one.index in stored):
            if one.index in stored:
                yield from self.replay(one.index)
            self.serve(one.index, now_ms())

    def _stored_partitions(self) -> set[int]:
        return {index for topic, index in self._world.dataplane.stored_partitions() if topic == SHARE_STATE_TOPIC}

    def replay(self, index: int) -> Iterator[int]:
        """Rebuild a partition from its log, a step at a time. Raises `DamagedLog` for what cannot be read."""
        one, pace = self._logs[index], LogPace()
        if not one.is_written and index not in self._stored_partitions():
            return
        one.is_written = True
        for _ in self._world.dataplane.open_state_in_steps(index):
            yield 0
        source = self._world.dataplane.open_state(index)
        for header, facts in read_log(source):
            if header.is_control:
                continue
            for fact in facts:
                try:
                    record = decode(fact.key or b"", fact.value)
                except ProtocolError as error:
                    raise describe_damage(source, fact.offset, error) from error
                one.machine.apply(record)
                one.machine.note_offset(record, fact.offset)
            if pace.count(header, len(facts)):
                yield pace.take()
        yield pace.take()

    def serve(self, index: int, now_ms: int) -> None:
        """Serve a partition that is loaded, and try again what has waited for it."""
        one = self._logs[index]
        one.served_by = self._world.coordinators.of_share_states[index]
        if gone := {topic_id for ids in self._world.ledger.catalog.gone.values() for topic_id in ids}:
            self._remove_topics(one, gone, now_ms)
        for call in self._waiting.pop(index, {}).values():
            self._world.edge.attempt("share state", call, now_ms)

    def unload(self, index: int) -> StateMachine:
        """Append what the partition's coordinator has decided. Return what it held, to be forgotten in steps."""
        one, old = self._logs[index], self._logs[index].machine
        one.flush(self._world.dataplane.append_state)
        self._dirty.pop(one, None)
        one.machine, one.served_by = self._machine(), NOBODY
        self._memory.hold_states(-old.bytes)
        return old

    def forget(self) -> Steps[None]:
        """Forget all states in steps: they are long to free."""
        for one in self._logs:
            yield from one.machine.forget()

    # -- upkeep --------------------------------------------------------------------------------------------------------

    def prune(self, now_ms: int) -> Generator[None, None, None]:
        """Delete the records that no share partition needs, in steps. Kafka: `setupRecordPruning`,
        `setupSnapshotColdPartitions`."""
        for one in self._logs:
            machine = one.machine
            if one.served_by == NOBODY or not machine.entries:
                continue
            for number, record in enumerate(machine.snapshot_cold(now_ms, self._cold_ms), 1):
                self._gather(one, record, now_ms)
                if number % PRUNED_AT_ONCE == 0:
                    yield
                    if one.machine is not machine:  # it has moved, and another broker is reading its log
                        break
        self._append()  # a snapshot is on the disk before the records that it stands for are deleted
        for one in self._logs:
            if one.served_by != NOBODY and one.is_written:
                self._world.dataplane.delete_states_before(one.index, one.machine.needed_offset)
                yield

    def find(self, key: StateKey) -> ShareState | None:
        """Return the state of a share partition, None if there is none, or it is being loaded."""
        if not self._logs:
            return None
        entry = self._logs[self.partition_of(key)].machine.entries.get(key)
        return None if entry is None else entry.state

    def states(self) -> Iterator[tuple[StateKey, ShareState]]:
        """Yield each share partition that is served with its state. Others may change meanwhile."""
        for one in self._logs:
            for key, entry in tuple(one.machine.entries.items()):
                yield key, entry.state


def _code(answer: Any) -> ErrorCode:
    return answer.error if isinstance(answer, Refusal) else ErrorCode.NONE
