"""What an operator or a test may do to a running server. HTTP, the page and the command line are faces of these verbs.

Each verb is an input of the one step, in a turn of its own, and answers with data. A verb that cannot be done raises
`Refusal` with a sentence, and has changed nothing.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, Protocol

import trio
from msgspec import Struct

from coordinator.control.faults import STEPS, Action, FaultPlan, FaultSpec, Match, Rule
from coordinator.control.group_view import GroupView, MemberView, view_group
from coordinator.control.journal import Journal
from coordinator.control.scenarios import After, Scenario, ScenarioSpec, check_scenario
from coordinator.control.scenarios import Verb as ScenarioVerb
from coordinator.core.assignors.spec import Assignment
from coordinator.core.events import Cause
from coordinator.core.groups import Group
from coordinator.core.result import Call
from coordinator.core.timers import EXPIRY, IMMEDIATELY, Due, TimerKey
from coordinator.core.verbs import BY, Done, Forget, Rebalance, RemoveMember, SetTarget, Verb
from coordinator.dataplane.brokers import Where
from coordinator.runtime.clock import CoordinatorClock
from coordinator.runtime.edge import FAILED
from coordinator.runtime.node import Node
from coordinator.runtime.partition import Partition
from coordinator.runtime.snapshot import Snapshot
from coordinator.server.frontend import Frontend
from coordinator.server.gate import Gate
from coordinator.server.poller import Poller
from protocol.apis import api_of
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

KeepAlive = Callable[[str, str], bool]  # whether the session of a member, by group id and member id, is renewed

SNAPSHOTS_BYTES_MAX: Final = 256 * 1_048_576
FIRED_MAX: Final = 1_000  # timers that an answer lists
TURNS_MAX: Final = 1_000  # at one deadline, before the clock goes on though there is work left

_EFFECTS: Final = {  # what a timer does when it fires
    "session": "the member is removed, and the group rebalances",
    "join": "the join phase ends without the members that have not joined",
    "sync": "members that have not sent SyncGroup are removed",
    "rebalance": "the member is fenced, as it has not given up its partitions",
    "regex": "regular expressions are matched",
    "expiry": "offsets that have expired are removed",
    "transaction": "the transaction is aborted, and its producer is fenced",
}


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
    """Why a verb is not done, as one sentence."""

    def __init__(self, sentence: str, *, is_conflict: bool = False) -> None:
        super().__init__(sentence)
        self.is_conflict = is_conflict  # the request is fine, and the state of the server is not


class Deadline(Struct, frozen=True):
    """A timer of the coordinator."""

    kind: str
    group: str  # or the transactional id
    member: str
    at_ms: int
    effect: str


class ClockState(Struct, frozen=True):
    """The coordinator's clock, and what it waits for."""

    now_ms: int
    mode: str  # real, frozen or rate
    rate: float
    deadlines: list[Deadline] = []


class State(Struct, frozen=True, forbid_unknown_fields=True):
    """What a test starts from: partitions by topic, offsets by group, topic and partition."""

    topics: dict[str, int] = {}
    offsets: dict[str, dict[str, dict[str, int]]] = {}


class Advanced(Struct, frozen=True):
    """What happened while the clock moved."""

    now_ms: int
    fired: list[Deadline]
    more: int = 0  # timers that fired and are not listed
    clients_learn_by: str = "next heartbeat"  # the clock moves here, not in the clients


class World(Protocol):
    """What stands around a node: it can start another in its place."""

    @property
    def is_ready(self) -> bool: ...
    def take_snapshot(self) -> Snapshot: ...
    def restart(self, snapshot: Snapshot | None = None) -> None: ...


class Operator:
    """The verbs."""

    def __init__(
        self,
        node: Callable[[], Node],
        frontend: Frontend,
        poller: Poller,
        clock: CoordinatorClock,
        world: World,
    ) -> None:
        """`node` returns the node of the moment: a reset makes another."""
        self._world = world
        self._snapshots: dict[str, Snapshot] = {}
        self._node = node
        self._frontend = frontend
        self._poller = poller
        self._clock = clock
        self._gate = frontend.gate = Gate(None, FaultPlan(), self.topic_name)
        self._turned = trio.Event()
        self._waiting = 0
        self._scenarios: dict[int, Scenario] = {}
        self._scenario_numbers = 0
        self._is_playing = False

    async def next_turn(self) -> None:
        """Return when a turn has ended: something may have changed."""
        self._waiting += 1
        try:
            await self._turned.wait()
        finally:
            self._waiting -= 1

    def wake(self) -> None:
        """A turn has ended."""
        if self._scenarios:
            self._play_scenarios()
        if self._waiting:
            self._turned.set()
            self._turned = trio.Event()

    # -- scenarios -----------------------------------------------------------------------------------------------------

    def add_scenario(self, spec: ScenarioSpec) -> Scenario:
        """Begin a scenario. Raises FaultError."""
        check_scenario(spec)
        self._scenario_numbers += 1
        scenario = self._scenarios[self._scenario_numbers] = Scenario(self._scenario_numbers, spec)
        self._play_scenarios()
        return scenario

    def scenario(self, number: int) -> Scenario:
        """Return a scenario, done or under way. Raises Refusal."""
        if number not in self._scenarios:
            raise Refusal(f"there is no scenario {number}", is_conflict=True)
        return self._scenarios[number]

    def remove_scenario(self, number: int) -> Scenario:
        """End a scenario, with the fault that it has in force."""
        scenario = self.scenario(number)
        del self._scenarios[number]
        if scenario.fault is not None and self.faults.get(scenario.fault) is not None:
            self.remove_fault(scenario.fault)
        return scenario

    def _play_scenarios(self) -> None:
        """Do the steps whose moment has come. A verb has turns of its own, which must not begin this anew."""
        if self._is_playing:
            return
        self._is_playing = True
        try:
            for scenario in list(self._scenarios.values()):
                while self._play_step(scenario):
                    scenario.reached += 1
                    scenario.error = ""
        finally:
            self._is_playing = False

    def _play_step(self, scenario: Scenario) -> bool:
        """Do the step at hand, if its moment has come. Returns whether it is done."""
        step = scenario.step
        if step is None:
            return False
        if step.fault is not None:
            if scenario.fault is None:
                scenario.fault = self.add_fault(step.fault).number
            rule = self.faults.get(scenario.fault)
            if rule is not None and not rule.is_used_up:
                return False
            if rule is not None:
                self.remove_fault(rule.number)
            scenario.fault = None
            return True
        assert step.after is not None, "a verb comes after something"
        assert step.verb is not None, "a step that is no fault is a verb"
        if not self._holds(step.after):
            return False
        try:
            self._do_verb(step.after.group, step.verb)
        except Refusal as refusal:
            scenario.error = str(refusal)
            return False
        return True

    def _holds(self, after: After) -> bool:
        view = self.find_group(after.group)
        return (
            view is not None
            and after.state in ("", view.state)
            and after.members in (None, len(view.members))
            and (after.generation is None or view.generation >= after.generation)
        )

    def _do_verb(self, group_id: str, verb: ScenarioVerb) -> None:
        if name := verb.expire:
            self.expire(group_id, name)
        elif name := verb.kick:
            self.kick(group_id, name)
        elif name := verb.fence:
            self.fence(group_id, name)
        elif verb.rebalance:
            self.rebalance(group_id)
        elif verb.forget:
            self.forget(group_id)
        elif verb.hold in STEPS:
            self.hold(group_id, verb.hold)
        elif verb.release:
            self.release(group_id)
        else:
            raise Refusal(f"invalid hold {verb.hold!r}: expected one of {', '.join(STEPS)}")

    # -- requests on their way -----------------------------------------------------------------------------------------

    @property
    def journal(self) -> Journal:
        """The last requests and responses. Raises Refusal while the journal is off."""
        if self._gate.journal is None:
            sentence = "the journal is off: turn it on by PUT /v1/journal, or the setting journal.max.bytes"
            raise Refusal(sentence, is_conflict=True)
        return self._gate.journal

    def set_journal(self, bytes_max: int) -> None:
        """Keep the last requests and responses, at most so many bytes of them; 0 turns the journal off."""
        self._gate.journal = Journal(bytes_max) if bytes_max else None
        self._set_gate()

    @property
    def faults(self) -> FaultPlan:
        """The faults in force."""
        return self._gate.faults

    def add_fault(self, spec: FaultSpec) -> Rule:
        """Put a fault into force. Raises FaultError."""
        rule = self._gate.faults.add(spec)
        self._set_gate()
        return rule

    def remove_fault(self, number: int) -> Rule:
        """End a fault. The requests that it holds are decided now. Raises Refusal."""
        rule = self._gate.faults.remove(number)
        if rule is None:
            raise Refusal(f"there is no fault {number}", is_conflict=True)
        self._poller.perform(lambda _: self._frontend.release(number))
        self._set_gate()
        return rule

    def remove_faults(self) -> None:
        """End every fault."""
        for rule in list(self._gate.faults):
            self.remove_fault(rule.number)

    def hold(self, group_id: str, step: str, client: str = "") -> list[Rule]:
        """Park the requests of a group at a step of its protocol, undecided, until `release`."""
        action = Action(hold=True)
        return [
            self.add_fault(FaultSpec(action, Match(api=api, group=group_id, client=client), count=None))
            for api in sorted(STEPS[step])
        ]

    def release(self, group_id: str) -> list[Rule]:
        """Decide everything that is held of a group."""
        rules = [rule for rule in self.faults if rule.spec.do.hold and rule.spec.on.group == group_id]
        return [self.remove_fault(rule.number) for rule in rules]

    def held(self, number: int) -> int:
        """Return how many requests a fault holds."""
        return self._gate.held(number)

    def _set_gate(self) -> None:
        self._frontend.is_gated = self._gate.journal is not None or bool(self._gate.faults)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic by its id, None if there is no such topic."""
        topic = self._node().ledger.catalog.topics.by_id(topic_id)
        return None if topic is None else topic.name

    # -- clock ---------------------------------------------------------------------------------------------------------

    def clock(self) -> ClockState:
        """Return what the clock shows, and every pending deadline, the earliest first."""
        rate = self._clock.rate
        mode = "real" if rate == 1 else "frozen" if rate == 0 else "rate"
        pending = dict.fromkeys(self._deadlines())  # each partition has a pass over its offsets, all at one time
        return ClockState(self._clock.now_ms(), mode, rate, sorted(pending, key=lambda one: one.at_ms))

    def set_rate(self, rate: float) -> ClockState:
        """Freeze the clock with 0, let it follow the real one with 1, or let it run at another rate."""
        self._poller.turn()
        self._clock.set_rate(rate)
        self._poller.reset_alarm()
        return self.clock()

    def advance(self, for_ms: int, keep_alive: KeepAlive) -> Advanced:
        """Move the clock forward, from deadline to deadline. Sessions that `keep_alive` names are renewed on the way.

        `keep_alive` gets a group id and a member id.
        """
        return self._run_to(self._clock.now_ms() + for_ms, keep_alive)

    def step(self, keep_alive: KeepAlive) -> Advanced:
        """Move the clock to the next deadline, and let it pass. Does nothing when there is none."""
        due_ms = min((one.at_ms for one in self._deadlines()), default=0)
        return self._run_to(max(self._clock.now_ms(), due_ms), keep_alive)

    def _run_to(self, target_ms: int, keep_alive: KeepAlive) -> Advanced:
        node, clock = self._node(), self._clock
        fired: dict[Deadline, None] = {}  # of the passes over offsets that all partitions have at one time, one
        more = 0

        def note(due: Due) -> None:
            nonlocal more
            deadline = _deadline(due.key, due.deadline_ms)
            if due.deadline_ms == IMMEDIATELY or deadline in fired:
                return
            if len(fired) < FIRED_MAX:
                fired[deadline] = None
            else:
                more += 1

        def is_kept(key: TimerKey) -> bool:
            return keep_alive(key[1], key[2])

        self._poller.turn()  # what has arrived by now is decided by the time that it was
        for partition in node.partitions:
            partition.shard.keeps_alive, partition.shard.on_timer = is_kept, note
            if (partition.shard.timers.deadline(EXPIRY) or target_ms) < target_ms:
                partition.shard.timers.set(EXPIRY, target_ms)  # one pass finds all that a thousand would have found
        try:
            while True:
                due_ms = node.next_deadline_ms()
                clock.jump_to(target_ms if due_ms is None else min(max(due_ms, clock.now_ms()), target_ms))
                for _ in range(TURNS_MAX):
                    self._poller.perform(lambda _: None)
                    due_ms = node.next_deadline_ms()
                    if due_ms is None or due_ms > clock.now_ms():
                        break
                if clock.now_ms() >= target_ms:
                    break
            self._renew(is_kept)
        finally:
            for partition in node.partitions:
                partition.shard.keeps_alive = partition.shard.on_timer = None
        self._poller.reset_alarm()
        return Advanced(clock.now_ms(), list(fired), more)

    def _renew(self, is_kept: Callable[[TimerKey], bool]) -> None:
        """A member that is kept alive has just been heard of, when the clock has arrived."""
        now_ms = self._clock.now_ms()
        for partition in self._node().partitions:
            shard = partition.shard
            for group_id, group in shard.groups.items():
                for member_id in group.members:
                    key = ("session", group_id, member_id)
                    if key in shard.timers and is_kept(key):
                        shard.renew_session(key, now_ms)

    def _deadlines(self) -> Iterator[Deadline]:
        for partition in self._node().partitions:
            for key, at_ms in partition.shard.timers.items():
                if at_ms != IMMEDIATELY:
                    yield _deadline(key, at_ms)
        for transaction, at_ms in self._node().ledger.transactions.deadlines().items():
            yield Deadline("transaction", transaction, "", at_ms, _EFFECTS["transaction"])

    # -- state ---------------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Start again with nothing: no topics but those of the start, no groups, no connections, no faults."""
        self._restart(None)

    def take_snapshot(self, name: str) -> int:
        """Keep all that the logs hold under a name. Returns its bytes. Waiting requests are not in it."""
        self._check_ready()
        snapshot = self._world.take_snapshot()
        size = sum(map(len, snapshot.values()))
        others = sum(size for other, size in self.snapshots().items() if other != name)
        if others + size > SNAPSHOTS_BYTES_MAX:
            raise Refusal(f"snapshots may take {SNAPSHOTS_BYTES_MAX} bytes in all: remove one", is_conflict=True)
        self._snapshots[name] = snapshot
        return size

    def restore(self, name: str) -> None:
        """Start again with the logs of a snapshot. Every connection is closed: no client acts on the old world."""
        self._restart(self.snapshot(name))

    def snapshot(self, name: str) -> Snapshot:
        """Return a snapshot. Raises Refusal when there is none of that name."""
        if name not in self._snapshots:
            raise Refusal(f"there is no snapshot {name!r}", is_conflict=True)
        return self._snapshots[name]

    def snapshots(self) -> dict[str, int]:
        """Return the bytes of each snapshot, by name."""
        return {name: sum(map(len, one.values())) for name, one in sorted(self._snapshots.items())}

    def remove_snapshot(self, name: str) -> None:
        """Forget a snapshot."""
        self.snapshot(name)
        del self._snapshots[name]

    def _restart(self, snapshot: Snapshot | None) -> None:
        self._check_ready()
        self._scenarios.clear()
        self.remove_faults()
        self._clock.set_rate(1.0)
        self._world.restart(snapshot)
        if self._gate.journal is not None:
            self._gate.journal.clear()

    def _check_ready(self) -> None:
        if not self._world.is_ready:
            raise Refusal("the server is still loading", is_conflict=True)

    def state(self, prefix: str = "") -> State:
        """Return topics, and groups with their offsets, whose names begin with `prefix`."""
        topics = self._node().ledger.catalog.topics
        return State(
            {
                name: topic.partitions
                for name, topic in sorted(topics.items())
                if name.startswith(prefix) and not name.startswith("__")
            },
            {view.group: view.offsets for view in self.groups(prefix) if view.offsets},
        )

    def seed(self, state: State) -> None:
        """Create topics and commit offsets, as a client without a group would. Raises Refusal for what is refused."""
        topics = self._node().ledger.catalog.topics
        missing = {name: count for name, count in state.topics.items() if name not in topics}
        if missing:
            wanted = tuple(CreateTopicsRequestCreatableTopic(name, count, -1) for name, count in missing.items())
            for topic in self._ask(CreateTopicsRequest(wanted, timeout_ms=1_000), 7).topics:
                if topic.error_code:
                    raise Refusal(f"topic {topic.name!r}: {topic.error_message}")
        for group_id, offsets in state.offsets.items():
            for answer in self._ask(_commit(group_id, offsets), 8).topics:
                for partition in answer.partitions:
                    if partition.error_code:
                        code = ErrorCode(partition.error_code).name
                        raise Refusal(f"group {group_id!r}, {answer.name}-{partition.partition_index}: {code}")

    def remove_topics(self, prefix: str) -> int:
        """Delete every topic whose name begins with `prefix`. Returns how many."""
        names = tuple(self.state(prefix).topics)
        if names:
            self._ask(DeleteTopicsRequest(topic_names=names, timeout_ms=1_000), 5)
        return len(names)

    def _ask(self, request: Any, version: int) -> Any:
        """Let the node decide a request of the operator's own."""
        node, api = self._node(), api_of(request)

        def decide(now_ms: int) -> Any:
            call = Call(0, now_ms, version, BY, "/operator", self._frontend.fresh_id)
            return node.handle(api.key, request, call, Where(()))

        return self._poller.perform(decide)

    # -- groups --------------------------------------------------------------------------------------------------------

    def groups(self, prefix: str = "") -> list[GroupView]:
        """Return every group whose id begins with `prefix`, sorted by id."""
        views = [
            self._view(partition, group)
            for partition in self._node().partitions
            for group_id, group in partition.shard.groups.items()
            if group_id.startswith(prefix)
        ]
        return sorted(views, key=lambda view: view.group)

    def group(self, group_id: str) -> GroupView:
        """Return one group. Raises Refusal when there is none of that id."""
        partition, group = self._find_group(group_id)
        return self._view(partition, group)

    def find_group(self, group_id: str) -> GroupView | None:
        """Return one group, None when there is none of that id."""
        partition = self._node().partitions.owner(group_id)
        group = partition.shard.groups.get(group_id)
        return None if group is None else self._view(partition, group)

    def expire(self, group_id: str, name: str, reason: str = "", *, disconnects: bool = False) -> MemberView:
        """Let a member's session expire now."""
        return self._remove(group_id, name, Cause.SESSION_EXPIRED, reason, disconnects=disconnects)

    def kick(self, group_id: str, name: str, reason: str = "", *, disconnects: bool = False) -> MemberView:
        """Remove a member. Its next request is answered UNKNOWN_MEMBER_ID."""
        return self._remove(group_id, name, Cause.MEMBER_KICKED, reason, disconnects=disconnects)

    def fence(self, group_id: str, name: str) -> MemberView:
        """Remove a member, and tell it at its next heartbeat that it is fenced.

        A static member of a classic group gets FENCED_INSTANCE_ID, any other of a classic group UNKNOWN_MEMBER_ID, a
        member of the consumer protocol FENCED_MEMBER_EPOCH.
        """
        member = self._remove(group_id, name, Cause.MEMBER_FENCED)
        api = "Heartbeat" if member.epoch is None else "ConsumerGroupHeartbeat"
        error = "FENCED_MEMBER_EPOCH"
        if member.epoch is None:
            error = "UNKNOWN_MEMBER_ID" if member.instance_id is None else "FENCED_INSTANCE_ID"
        self.add_fault(FaultSpec(Action(error=error), Match(api=api, group=group_id, client=member.member_id)))
        return member

    def rebalance(self, group_id: str, reason: str = "") -> GroupView:
        """Rebalance a group, though nothing has changed."""
        self._do(group_id, Rebalance(group_id, reason))
        return self.group(group_id)

    def set_target(self, group_id: str, targets: dict[str, dict[str, list[int]]]) -> GroupView:
        """Force the target assignment of a consumer group: for each member, partitions by the name of their topic."""
        _, group = self._find_group(group_id)
        topics = self._node().ledger.catalog.topics
        named: dict[str, Assignment] = {}
        for name, partitions in targets.items():
            if unknown := sorted(topic for topic in partitions if topic not in topics):
                raise Refusal(f"invalid topic {unknown[0]!r}: expected a topic that exists")
            member_id = self._resolve(group, name)
            named[member_id] = {
                topics.id_of(topic): tuple(sorted(set(some))) for topic, some in partitions.items() if some
            }
        self._do(group_id, SetTarget(group_id, named))
        return self.group(group_id)

    def forget(self, group_id: str) -> None:
        """Remove a group with its members and offsets, whatever its state is."""
        self._do(group_id, Forget(group_id))

    def forget_all(self, prefix: str) -> int:
        """Remove every group whose id begins with `prefix`. Returns how many."""
        names = [view.group for view in self.groups(prefix)]
        for name in names:
            self.forget(name)
        return len(names)

    def keep_named(self, names: Collection[str | None]) -> KeepAlive:
        """Keep the members alive that somebody names, by client id, group instance id or member id."""
        wanted = frozenset(names)

        def keeps(group_id: str, member_id: str) -> bool:
            group = self._node().partitions.owner(group_id).shard.groups[group_id]
            member = group.members.get(member_id)
            return member is not None and not wanted.isdisjoint((member_id, member.instance_id, _client_id(member)))

        return keeps

    def keep_connected(self) -> KeepAlive:
        """Keep the members alive of whose client id a connection is open."""
        connected = self._poller.client_ids()
        return self.keep_named(connected)

    # -- within --------------------------------------------------------------------------------------------------------

    def _remove(
        self, group_id: str, name: str, cause: Cause, reason: str = "", *, disconnects: bool = False
    ) -> MemberView:
        partition, group = self._find_group(group_id)
        member_id = self._resolve(group, name)
        (view,) = (one for one in self._view(partition, group).members if one.member_id == member_id)
        self._do(group_id, RemoveMember(group_id, member_id, cause, reason))
        if disconnects:
            self._poller.close_all("operator", view.client_id)
        return view

    def _do(self, group_id: str, verb: Verb) -> None:
        """Give a verb to the partition that owns the group. Raises Refusal."""
        node = self._node()
        partition = node.partitions.owner(group_id)
        if not partition.is_loaded:
            raise Refusal(f"group {group_id!r} is being loaded", is_conflict=True)

        def step(now_ms: int) -> Any:
            call = Call(0, now_ms, 0, None, "", self._frontend.fresh_id)
            return node.take(partition, partition.shard.handle(verb, call))

        response = self._poller.perform(lambda now_ms: node.edge.attempt("operator", step, now_ms))
        if response is FAILED:
            raise Refusal("internal error: the server's log says why", is_conflict=True)
        assert isinstance(response, Done), "a verb is answered by Done"
        if response.refusal:
            raise Refusal(response.refusal, is_conflict=True)

    def _find_group(self, group_id: str) -> tuple[Partition, Group]:
        partition = self._node().partitions.owner(group_id)
        group = partition.shard.groups.get(group_id)
        if group is None:
            raise Refusal(f"there is no group {group_id!r}", is_conflict=True)
        return partition, group

    def _view(self, partition: Partition, group: Group) -> GroupView:
        return view_group(group, partition.shard.offsets, self._node().ledger.catalog.topics)

    @staticmethod
    def _resolve(group: Group, name: str) -> str:
        if name in group.members:
            return name
        if name in group.instances:
            member_id: str = group.instances[name]
            return member_id
        found: list[str] = [member_id for member_id, member in group.members.items() if _client_id(member) == name]
        if not found:
            known = ", ".join(sorted(_client_id(member) for member in group.members.values())) or "nobody"
            raise Refusal(
                f"there is no member {name!r} in group {group.group_id!r}: its clients are {known}", is_conflict=True
            )
        if len(found) > 1:
            raise Refusal(
                f"{len(found)} members have the client id {name!r}: expected one of {', '.join(sorted(found))}",
                is_conflict=True,
            )
        return found[0]


def _commit(group_id: str, offsets: dict[str, dict[str, int]]) -> OffsetCommitRequest:
    topics = []
    for topic, partitions in offsets.items():
        if invalid := [index for index in partitions if not (index.isascii() and index.isdigit() and len(index) < 10)]:
            raise Refusal(f"invalid partition {invalid[0]!r} of {topic!r}: expected a number")
        entries = (OffsetCommitRequestPartition(int(index), offset) for index, offset in partitions.items())
        topics.append(OffsetCommitRequestTopic(topic, partitions=tuple(entries)))
    return OffsetCommitRequest(group_id, topics=tuple(topics))


def _client_id(member: Any) -> str:
    return str(member.client_id if hasattr(member, "client_id") else member.metadata.client_id)


def _deadline(key: TimerKey, at_ms: int) -> Deadline:
    kind, group_id, member_id = key
    return Deadline(kind, group_id, member_id, at_ms, _EFFECTS[kind])


def keep_everybody(group_id: str, member_id: str) -> bool:
    """Keep every member alive while the clock moves."""
    return True


def keep_nobody(group_id: str, member_id: str) -> bool:
    """Let every session expire that ends while the clock moves."""
    return False
