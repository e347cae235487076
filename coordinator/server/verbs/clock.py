"""The coordinator's clock as an operator moves it: from deadline to deadline, forward, or not at all."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from msgspec import Struct

from coordinator.core.kinds.registry import TIMER_EFFECTS
from coordinator.core.share_state.values import StateKey
from coordinator.core.timers import IMMEDIATELY, Due, TimerKey, member_of
from coordinator.runtime.advance import Advance
from coordinator.runtime.clock import CoordinatorClock
from coordinator.runtime.node import Node
from coordinator.server.poller import Poller

KeepAlive = Callable[[str, str], bool]  # whether the session of a member, by group id and member id, is renewed

FIRED_MAX: Final = 1_000  # timers that an answer lists
GLANCE_MAX: Final = 100  # deadlines of one group that are listed at a glance
TURNS_MAX: Final = 1_000  # at one deadline, before the clock goes on though there is work left

_EFFECTS: Final = {  # what happens when other times than those of groups have come
    "load": "a broker serves what it has loaded",
    "lock": "records that a member of a share group has acquired are available again, or archived",
    "transaction": "the transaction is aborted, and its producer is fenced",
    "retention": "records that are older than their topic keeps them are deleted",
    "transactional_ids": "transactional ids that nobody uses are forgotten",
    "compaction": "a log is compacted",
    "share_states": "states of share partitions that nobody needs are removed from their log",
}


class Deadline(Struct, frozen=True):
    """A timer of the coordinator."""

    kind: str
    group: str  # or the transactional id, or the partition of a log
    member: str  # or the share partition
    at_ms: int
    effect: str


class ClockState(Struct, frozen=True):
    """The coordinator's clock, and what it waits for."""

    now_ms: int
    mode: str  # real, frozen or rate
    rate: float
    deadlines: list[Deadline] = []


class ClockMove(Struct, frozen=True):
    """The result of moving the clock: the time, and the timers that fired on the way."""

    now_ms: int
    fired: list[Deadline]
    more: int = 0  # timers that fired and are not listed
    clients_learn_by: str = "next heartbeat"  # the clock moves here, not in the clients


class ClockVerbs:
    """The verbs for the coordinator's clock."""

    def __init__(self, node: Callable[[], Node], poller: Poller, clock: CoordinatorClock) -> None:
        self._node = node
        self._poller = poller
        self._clock = clock

    def state(self) -> ClockState:
        """Return what the clock shows, and every pending deadline, the earliest first."""
        rate = self._clock.rate
        mode = "real" if rate == 1 else "frozen" if rate == 0 else "rate"
        pending = dict.fromkeys(self._deadlines())  # each partition has a pass over its offsets, all at one time
        return ClockState(self._clock.now_ms(), mode, rate, sorted(pending, key=lambda one: one.at_ms))

    def glance(self, group_id: str) -> ClockState:
        """Return what the clock shows, with the deadlines of one group only: cheap, however many there are."""
        rate = self._clock.rate
        mode = "real" if rate == 1 else "frozen" if rate == 0 else "rate"
        timers = self._node().world.partitions.owner(group_id).shard.timers.of_group(group_id)
        deadlines = [_deadline(key, at_ms) for key, at_ms in timers[:GLANCE_MAX] if at_ms != IMMEDIATELY]
        deadlines += [
            self._lock(key, at_ms) for key, at_ms in self._node().world.dataplane.share.deadlines_of(group_id)
        ]
        return ClockState(self._clock.now_ms(), mode, rate, deadlines[:GLANCE_MAX])

    def set_rate(self, rate: float) -> ClockState:
        """Freeze the clock with 0, let it follow the real one with 1, or let it run at another rate."""
        self._poller.turn()
        self._clock.set_rate(rate)
        self._poller.reset_alarm()
        return self.state()

    def advance(self, for_ms: int, keep_alive: KeepAlive) -> ClockMove:
        """Move the clock forward, from deadline to deadline. Sessions that `keep_alive` names are renewed on the way.

        `keep_alive` gets a group id and a member id.
        """
        return self._run_to(self._clock.now_ms() + for_ms, keep_alive)

    def step(self, keep_alive: KeepAlive) -> ClockMove:
        """Move the clock to the next deadline, and let it pass. Does nothing when there is none."""
        due_ms = min((one.at_ms for one in self._deadlines()), default=0)
        return self._run_to(max(self._clock.now_ms(), due_ms), keep_alive)

    def _run_to(self, target_ms: int, keep_alive: KeepAlive) -> ClockMove:
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
            return keep_alive(key[1], member_of(key))

        self._poller.turn()  # decide pending requests at the time before the clock moves
        others = list(self._deadlines_of_others())
        advance = Advance(node.world, target_ms, is_kept, note)
        try:
            while True:
                due_ms = node.engine.next_deadline_ms()
                clock.jump_to(target_ms if due_ms is None else min(max(due_ms, clock.now_ms()), target_ms))
                for _ in range(TURNS_MAX):
                    self._poller.perform(lambda _: None)
                    due_ms = node.engine.next_deadline_ms()
                    if due_ms is None or due_ms > clock.now_ms():
                        break
                if clock.now_ms() >= target_ms:
                    break
            advance.arrive(clock.now_ms())
        finally:
            advance.close()
        left = set(self._deadlines_of_others())
        passed = [one for one in others if one.at_ms <= clock.now_ms() and one not in left]
        passed += [Deadline(kind, log, "", clock.now_ms(), _EFFECTS[kind]) for kind, log in self._tidy_up()]
        self._poller.reset_alarm()
        room = max(0, FIRED_MAX - len(fired))
        listed = sorted([*fired, *passed[:room]], key=lambda one: one.at_ms)
        return ClockMove(clock.now_ms(), listed, more + len(passed[room:]))

    def _tidy_up(self) -> list[tuple[str, str]]:
        """Let the janitor do what is due by the time that the clock shows now. Returns what it did."""
        node = self._node()
        return [] if node.upkeep is None else node.upkeep.catch_up(self._clock.now_ms())

    def _deadlines(self) -> Iterator[Deadline]:
        for partition in self._node().world.partitions:
            for key, at_ms in partition.shard.timers.items():
                if at_ms != IMMEDIATELY:
                    yield _deadline(key, at_ms)
        yield from self._deadlines_of_others()
        if (upkeep := self._node().upkeep) is not None:
            for kind, at_ms in upkeep.deadlines():
                yield Deadline(kind, "", "", at_ms, _EFFECTS[kind])

    def _deadlines_of_others(self) -> Iterator[Deadline]:
        """Yield what waits for the clock and is no timer of a group."""
        for (kind, index), at_ms in self._node().world.coordinators.loads.deadlines():
            yield Deadline("load", f"{kind} of partition {index}", "", at_ms, _EFFECTS["load"])
        for transaction, at_ms in self._node().world.ledger.transactions.deadlines().items():
            yield Deadline("transaction", transaction, "", at_ms, _EFFECTS["transaction"])
        for key, at_ms in self._node().world.dataplane.share.deadlines():
            yield self._lock(key, at_ms)

    def _lock(self, key: StateKey, at_ms: int) -> Deadline:
        """Return the end of the next lock of a share partition."""
        topic = self._node().world.ledger.catalog.topics.by_id(key.topic_id)
        name = "" if topic is None else topic.name
        return Deadline("lock", key.group_id, f"{name}-{key.partition}", at_ms, _EFFECTS["lock"])

    def keep_named(self, names: Collection[str | None]) -> KeepAlive:
        """Keep the members alive that somebody names, by client id, group instance id or member id."""
        wanted = frozenset(names)

        def keeps(group_id: str, member_id: str) -> bool:
            group = self._node().world.partitions.owner(group_id).shard.groups[group_id]
            member = group.members.get(member_id)
            return member is not None and not wanted.isdisjoint((member_id, member.instance_id, member.client_id))

        return keeps

    def keep_connected(self) -> KeepAlive:
        """Keep the members alive of whose client id a connection is open."""
        connected = self._poller.client_ids()
        return self.keep_named(connected)


def _deadline(key: TimerKey, at_ms: int) -> Deadline:
    kind, group_id, _ = key
    return Deadline(kind, group_id, member_of(key), at_ms, TIMER_EFFECTS[kind])


def keep_everybody(group_id: str, member_id: str) -> bool:
    """Keep every member alive while the clock moves."""
    return True


def keep_nobody(group_id: str, member_id: str) -> bool:
    """Let every session expire that ends while the clock moves."""
    return False
