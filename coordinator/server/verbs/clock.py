"""The coordinator's clock as an operator moves it: from deadline to deadline, forward, or not at all."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

from coordinator.core.decision import Steps
from coordinator.core.kinds.kind import Member
from coordinator.core.kinds.registry import TIMER_EFFECTS
from coordinator.core.pace import Pace, map_in_steps, sort_in_steps
from coordinator.core.share_state.values import StateKey
from coordinator.core.timers import IMMEDIATELY, Due, TimerKey, member_of
from coordinator.runtime.advance import Advance
from coordinator.runtime.clock import CoordinatorClock
from coordinator.runtime.node import Node
from coordinator.server.poller import Poller
from coordinator.server.verbs.one_at_a_time import OneAtATime
from coordinator.server.verbs.waits import Waits, finish_waits
from protocol.steps import finish_steps

KeepAlive = Callable[[str, str], bool]  # whether the session of a member, by group id and member id, is renewed

FIRED_MAX: Final = 1_000  # timers that an answer lists
GLANCE_MAX: Final = 100  # deadlines of one group that are listed at a glance
_LOAD, _TRANSACTION, _LOCK, _UPKEEP = 1 << 20, (1 << 20) + 1, (1 << 20) + 2, (1 << 20) + 3
_Pending = tuple[int, int, Any]
"""A deadline, what has it (the number of a partition, for a timer of a group, or one of those above), and its key."""
MOVING: Final = "the clock is being moved"
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

    def __init__(
        self, node: Callable[[], Node], poller: Poller, clock: CoordinatorClock, one_at_a_time: OneAtATime
    ) -> None:
        self._node = node
        self._poller = poller
        self._clock = clock
        self._one_at_a_time = one_at_a_time

    @property
    def is_moving(self) -> bool:
        """Whether the clock is on its way to another time: what is seen now is neither before nor after the move."""
        return self._one_at_a_time.under_way == MOVING

    async def arrive(self) -> None:
        """Return when no move of the clock is under way."""
        await self._one_at_a_time.wait_for_end(MOVING)

    async def become_movable(self) -> None:
        """Return when neither a move of the clock nor a reset or a restore is under way."""
        await self._one_at_a_time.wait_for_end()

    def state(self, limit: int | None = None) -> ClockState:
        """Return what the clock shows, and so many pending deadlines, or all, the earliest first."""
        return finish_steps(self.state_in_steps(limit))

    def state_in_steps(self, limit: int | None = None) -> Steps[ClockState]:
        """Return the same in steps."""
        pending = yield from sort_in_steps((yield from self._find_all()))
        found: dict[Deadline, None] = {}  # each partition has a pass over its offsets, all at one time
        pace = Pace()
        for one in pending:
            if limit is not None and len(found) >= limit:
                break
            if pace.is_due():
                yield
            found[self._show(*one)] = None
        return msgspec.structs.replace(self.show(), deadlines=list(found))

    def show(self) -> ClockState:
        """Return what the clock shows."""
        rate = self._clock.rate
        return ClockState(self._clock.now_ms(), "real" if rate == 1 else "frozen" if rate == 0 else "rate", rate)

    def glance(self, group_id: str) -> ClockState:
        """Return what the clock shows, with the deadlines of one group only: cheap, however many there are."""
        timers = self._node().world.partitions.owner(group_id).shard.timers.of_group(group_id)
        deadlines = [_deadline(key, at_ms) for key, at_ms in timers[:GLANCE_MAX] if at_ms != IMMEDIATELY]
        deadlines += [
            self._lock(key, at_ms) for key, at_ms in self._node().world.dataplane.share.deadlines_of(group_id)
        ]
        return msgspec.structs.replace(self.show(), deadlines=deadlines[:GLANCE_MAX])

    def set_rate(self, rate: float) -> None:
        """Freeze the clock with 0, let it follow the real one with 1, or let it run at another rate."""
        self._poller.turn()
        self._clock.set_rate(rate)
        self._poller.reset_alarm()

    def advance(self, for_ms: int, keep_alive: KeepAlive) -> ClockMove:
        """Move the clock forward, from deadline to deadline. Sessions that `keep_alive` names are renewed on the way.

        `keep_alive` gets a group id and a member id.
        """
        return finish_waits(self.advance_in_steps(for_ms, keep_alive))

    def advance_in_steps(self, for_ms: int, keep_alive: KeepAlive) -> Waits[ClockMove]:
        """Do the same in steps, in which no client is served: for clients a move is one step. It is to be done to its
        end."""
        return self._run_in_steps(self._clock.now_ms() + for_ms, keep_alive)

    def step(self, keep_alive: KeepAlive) -> ClockMove:
        """Move the clock to the next deadline, and let it pass. Does nothing when there is none."""
        return finish_waits(self.step_in_steps(keep_alive))

    def step_in_steps(self, keep_alive: KeepAlive) -> Waits[ClockMove]:
        """Do the same in steps, as `advance_in_steps` does."""
        return self._run_in_steps(max(self._clock.now_ms(), self._next_deadline_ms()), keep_alive)

    def _next_deadline_ms(self) -> int:
        """Return the next time of the clock at which something happens, 0 if there is none."""
        world, upkeep = self._node().world, self._node().upkeep
        times = [partition.shard.timers.next_time_ms() for partition in world.partitions]
        times += [world.ledger.transactions.next_deadline_ms(), world.dataplane.share.locks.next_deadline_ms()]
        times += [at_ms for _, at_ms in world.coordinators.loads.deadlines()]
        times += [] if upkeep is None else [at_ms for _, at_ms in upkeep.deadlines()]
        return min([at_ms for at_ms in times if at_ms is not None], default=0)

    def _run_in_steps(self, target_ms: int, keep_alive: KeepAlive) -> Waits[ClockMove]:
        with self._one_at_a_time.during(MOVING):
            self._poller.turn()  # decide pending requests at the time before the clock moves
            self._poller.hold()
            try:
                move = yield from self._move_to(target_ms, keep_alive)
            finally:
                self._poller.release()
                self._poller.reset_alarm()
        self._poller.turn()
        return move

    def _move_to(self, target_ms: int, keep_alive: KeepAlive) -> Waits[ClockMove]:
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

        if node.upkeep is not None:
            node.upkeep.begin_move()
        others = yield from self._find_others(target_ms)
        advance = Advance(node.world, target_ms, is_kept, note)
        try:
            while True:
                due_ms = node.engine.next_deadline_ms()
                clock.jump_to(target_ms if due_ms is None else min(max(due_ms, clock.now_ms()), target_ms))
                for _ in range(TURNS_MAX):
                    self._poller.perform(lambda _: None)
                    yield None
                    due_ms = node.engine.next_deadline_ms()
                    if due_ms is None or due_ms > clock.now_ms():
                        break
                if clock.now_ms() >= target_ms:
                    break
            yield from advance.arrive(clock.now_ms())
        finally:
            advance.close()
        left = yield from self._find_others(target_ms)
        passed = [self._show(*one) for one in sorted(others - left) if one[0] <= clock.now_ms()]
        tidied = [] if node.upkeep is None else (yield from node.upkeep.catch_up(clock.now_ms()))
        passed += [Deadline(kind, log, "", clock.now_ms(), _EFFECTS[kind]) for kind, log in tidied]
        room = max(0, FIRED_MAX - len(fired))
        listed = sorted([*fired, *passed[:room]], key=lambda one: one.at_ms)
        return ClockMove(clock.now_ms(), listed, more + len(passed[room:]))

    def _find_all(self) -> Steps[list[_Pending]]:
        """Return all that waits for the clock."""
        pace, found = Pace(), list((yield from self._find_others()))
        for number, partition in enumerate(self._node().world.partitions):
            for timer in partition.shard.timers.set_ones():
                if pace.is_due():
                    yield
                if timer.at_ms is not None and timer.at_ms != IMMEDIATELY:
                    found.append((timer.at_ms, number, timer.key))
        if (upkeep := self._node().upkeep) is not None:
            found += [(at_ms, _UPKEEP, (kind,)) for kind, at_ms in upkeep.deadlines()]
        return found

    def _find_others(self, until_ms: int = 1 << 62) -> Steps[set[_Pending]]:
        """Return what waits for the clock, up to a time, and is no timer of a group."""
        world = self._node().world
        found: set[_Pending] = {(at_ms, _LOAD, key) for key, at_ms in world.coordinators.loads.deadlines()}

        def take(source: int, key: tuple[Any, ...], at_ms: int | None) -> None:
            if at_ms is not None and at_ms <= until_ms:
                found.add((at_ms, source, key))

        transactions = tuple(world.ledger.transactions.deadlines().items())
        yield from map_in_steps(transactions, lambda one: take(_TRANSACTION, one[:1], one[1]))
        yield from map_in_steps(world.dataplane.share.locks.set_ones(), lambda one: take(_LOCK, one.key, one.at_ms))
        return found

    def _show(self, at_ms: int, source: int, key: Any) -> Deadline:
        """Return a deadline in words."""
        if source == _LOAD:
            return Deadline("load", f"{key[0]} of partition {key[1]}", "", at_ms, _EFFECTS["load"])
        if source == _TRANSACTION:
            return Deadline("transaction", key[0], "", at_ms, _EFFECTS["transaction"])
        if source == _LOCK:
            return self._lock(StateKey(key[1], *key[2]), at_ms)
        return Deadline(key[0], "", "", at_ms, _EFFECTS[key[0]]) if source == _UPKEEP else _deadline(key, at_ms)

    def _lock(self, key: StateKey, at_ms: int) -> Deadline:
        """Return the end of the next lock of a share partition."""
        topic = self._node().world.ledger.catalog.topics.by_id(key.topic_id)
        name = "" if topic is None else topic.name
        return Deadline("lock", key.group_id, f"{name}-{key.partition}", at_ms, _EFFECTS["lock"])

    def keep_named(self, names: Iterable[str]) -> KeepAlive:
        """Keep the members alive that somebody names, by client id, group instance id or member id."""
        wanted = frozenset(names)
        return self._keep(lambda one: not wanted.isdisjoint((one.member_id, one.instance_id, one.client_id)))

    def keep_connected(self) -> KeepAlive:
        """Keep the members alive of whose client id a connection is open."""
        connected = self._poller.client_ids()
        return self._keep(lambda one: one.client_id in connected)

    def _keep(self, is_meant: Callable[[Member], bool]) -> KeepAlive:
        def keeps(group_id: str, member_id: str) -> bool:
            group = self._node().world.partitions.owner(group_id).shard.groups[group_id]
            member = group.members.get(member_id)
            return member is not None and is_meant(member)

        return keeps


def _deadline(key: TimerKey, at_ms: int) -> Deadline:
    kind, group_id, _ = key
    return Deadline(kind, group_id, member_of(key), at_ms, TIMER_EFFECTS[kind])


def keep_everybody(group_id: str, member_id: str) -> bool:
    """Keep every member alive while the clock moves."""
    return True


def keep_nobody(group_id: str, member_id: str) -> bool:
    """Let every session expire that ends while the clock moves."""
    return False
