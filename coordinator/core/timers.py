"""Deadlines by key. Every heartbeat moves a deadline, so that moving one must cost next to nothing.

A plain heap of deadlines would grow by an entry with each heartbeat. Here each timer has at most one live entry in the
heap. A later deadline is only noted in the timer, whose entry is pushed again when it reaches the top. So a heartbeat
costs one lookup in a dict, and the heap has as many entries as there are timers.

Timers are indexed by group, and are cancelled with their member or their group. A group may have hundreds of thousands:
those of one that ends are void at once, and what the heap has of them is thrown out a little with each call.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from coordinator.core.decision import Steps
from coordinator.core.pace import empty_in_steps

Timed: TypeAlias = str | tuple[bytes, int]
"""What of its group a timer times: a member, by its id; a partition, by topic id and number; "": the group itself."""
TimerKey: TypeAlias = tuple[str, str, Timed]
"""The name of a timer, the group, and what of it. A bare tuple: one is made with each heartbeat."""

SESSION, JOIN, SYNC, REBALANCE, REGEX = "session", "join", "sync", "rebalance", "regex"
INITIAL: Final = "initial"  # the delay before the first target of a streams group
LOCK: Final = "lock"  # the end of the next lock of records of a share partition
EXPIRY: Final[TimerKey] = ("expiry", "", "")  # the pass over all offsets of a shard


def session(group_id: str, member_id: str) -> TimerKey:
    """Return the key of the timer that removes a member, when its session or its time to join is over."""
    return (SESSION, group_id, member_id)


def join(group_id: str) -> TimerKey:
    """Return the key of the timer that ends the join phase of a classic rebalance."""
    return (JOIN, group_id, "")


def sync(group_id: str) -> TimerKey:
    """Return the key of the timer that removes the members that have not sent SyncGroup by then."""
    return (SYNC, group_id, "")


def rebalance(group_id: str, member_id: str) -> TimerKey:
    """Return the key of the timer that fences a member that has not given up its partitions by then (KIP-848)."""
    return (REBALANCE, group_id, member_id)


def lock(group_id: str, topic_id: bytes, partition: int) -> TimerKey:
    """Return the key of the timer that ends locks of records of a share partition."""
    return (LOCK, group_id, (topic_id, partition))


def member_of(key: TimerKey) -> str:
    """Return the id of the member that a timer is of, "" if it is of the group itself."""
    timed = key[2]
    assert isinstance(timed, str), "a timer of a partition is of no member"
    return timed


EFFECTS: Final = {
    SESSION: "the member is removed, and the group rebalances",
    JOIN: "the join phase ends without the members that have not joined",
    SYNC: "members that have not sent SyncGroup are removed",
    REBALANCE: "the member is fenced, as it has not given up its partitions",
    REGEX: "regular expressions are matched",
    EXPIRY[0]: "offsets that have expired are removed",
}
"""What timers that groups of several kinds have do when they fire, in words."""


IMMEDIATELY: Final = -(2**62)
"""A deadline that is due whatever the clock shows, for work that is done in steps. Timers with this deadline fire in
the order in which they were set, as many in each turn as `may_work` allows."""

RETRY_MS: Final = 500
"""After which a timer fires again that could not do what it is for: as in Kafka, it does so until it can."""

MayGoOn = Callable[[], bool]  # whether this turn fires more timers; called after each of them
MayWork = Callable[[], bool]  # whether this turn does another step of work; called before each of them


def always() -> bool:
    """Return True: the turn fires all timers that are due."""
    return True


class Due(NamedTuple):
    """A timer that has fired."""

    key: TimerKey
    deadline_ms: int

    @property
    def member_id(self) -> str:
        """The member that it is of, "" if it is of the group itself."""
        return member_of(self.key)


class AdvanceLike(Protocol):
    """A move of the clock that an operator wants, while timers fire on the way."""

    target_ms: int
    """Where it ends."""

    def keeps_alive(self, key: TimerKey) -> bool:
        """Return whether a session that would end is renewed instead."""

    def note_timer(self, due: Due) -> None:
        """Note that a timer has fired."""


class Validity(Struct, eq=False, gc=False):
    """Whether the timers of a group are not all cancelled. It does not hold them: that would be a cycle."""

    is_over: bool = False


class Timer(Struct, eq=False, gc=False):
    """A key with its deadline, and the time of its live entry in the heap."""

    key: TimerKey
    of_group: Validity
    at_ms: int | None = None  # None: it is not set
    look_ms: int | None = None  # never later than the deadline; None: no entry in the heap is live

    def postpone(self, at_ms: int) -> bool:
        """Fire at `at_ms` instead. Return False, and do nothing, if it is not set, or is to fire later, or at once."""
        if self.at_ms is None or self.of_group.is_over or not IMMEDIATELY < self.at_ms <= at_ms:
            return False
        self.at_ms = at_ms
        return True

    def has_entry(self, at_ms: int) -> bool:
        """Return whether an entry of the heap for this time is the live one."""
        return self.look_ms == at_ms and not self.of_group.is_over


class TimersOfGroup(Struct, eq=False):
    """The timers of a group that are set, and those that still have an entry in the heap."""

    validity: Validity
    timers: dict[TimerKey, Timer] = {}
    count: int = 0  # of those that are set


_NO_TIMERS: Final = TimersOfGroup(Validity())

Entry = tuple[int, int, Timer]
"""Of the heap: when, the number of the push, and the timer. The one of which the timer has the time is live."""

SETTLED_AT_ONCE: Final = 1_000
"""Entries of the heap that are no deadlines any more, with each call: some milliseconds."""
LOOKED_AT: Final = 16  # entries of the heap, with each call that may make one dead
DEAD_MAX: Final = 64  # entries that are not live, beside as many as timers are set


def _wake_nobody(at_ms: int) -> None:
    """Do nothing: the owner asks for the next deadline by itself."""


class Timers:
    """Deadlines by key. Those that are due come out in the order of their deadlines.

    Of two with the same deadline, one that was moved there comes after one that was set so at once.
    `wake` is called for each deadline that may be the earliest one.
    """

    __slots__ = ("_fired", "_groups", "_heap", "_next_turn_ms", "_old", "_pushes", "_wake", "_work", "count")

    def __init__(self, wake: Callable[[int], None] = _wake_nobody) -> None:
        self._groups: dict[str, TimersOfGroup] = {}
        self.count = 0  # of timers that are set
        self._fired: set[TimerKey] = set()  # in this turn
        self._work: OrderedDict[TimerKey, None] = OrderedDict()  # those due IMMEDIATELY, in the order of setting
        self._next_turn_ms = 0
        self._heap: list[Entry] = []
        self._old: list[Entry] = []  # a heap that had too many dead entries: the live ones move to `_heap`
        self._pushes = 0
        self._wake = wake

    def __len__(self) -> int:
        return self.count

    def __contains__(self, key: TimerKey) -> bool:
        return self.deadline(key) is not None

    def set(self, key: TimerKey, at_ms: int) -> None:
        """Fire `key` at `at_ms`, in place of any earlier deadline."""
        if self._fired and key in self._fired and at_ms != IMMEDIATELY:
            at_ms = max(at_ms, self._next_turn_ms)
        group = self._groups.get(key[1])
        if group is None:
            group = self._groups[key[1]] = TimersOfGroup(Validity())
        timer = group.timers.get(key)
        if timer is None:
            timer = group.timers[key] = Timer(key, group.validity)
        if timer.at_ms is None:
            self.count += 1
            group.count += 1
        elif self._work:
            self._work.pop(key, None)
        timer.at_ms = at_ms
        if at_ms == IMMEDIATELY:
            self._work[key] = None
            self._wake(at_ms)
        elif timer.look_ms is None or at_ms < timer.look_ms:
            self._push(timer, at_ms)
            self._wake(at_ms)

    def cancel(self, key: TimerKey) -> None:
        """Cancel `key` if it is set. Its heap entry is removed when it reaches the top, or when there are too many."""
        timer = self.find(key)
        if timer is None or timer.at_ms is None:
            return
        self._work.pop(key, None)
        self._unset(timer)
        self._throw_out()

    def cancel_member(self, group_id: str, member_id: str, names: Iterable[str]) -> None:
        """Cancel the timers of a member that have these names."""
        for name in names:
            self.cancel((name, group_id, member_id))

    def forget(self) -> Steps[None]:
        """Forget everything in steps: it is long to free. The timers are of no use then."""
        for group in tuple(self._groups.values()):
            yield from empty_in_steps(group.timers)
        yield from empty_in_steps(self._groups)

    def cancel_group(self, group_id: str) -> None:
        """Cancel all timers of a group and of its members, however many."""
        group = self._groups.pop(group_id, None)
        if group is None:
            return
        for key in [key for key in self._work if key[1] == group_id]:
            del self._work[key]
        self.count -= group.count
        group.validity.is_over = True  # and what it has is freed, but for the entries of the heap
        self._throw_out()

    def find(self, key: TimerKey) -> Timer | None:
        """Return the timer with this key, None if there is none. The caller may keep it, and call `postpone` only."""
        return self._groups.get(key[1], _NO_TIMERS).timers.get(key)

    def deadline(self, key: TimerKey) -> int | None:
        """Return when `key` fires, None if it is not set."""
        timer = self.find(key)
        return None if timer is None else timer.at_ms

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline, None if no timer is set; a lower bound while very many were cancelled."""
        return IMMEDIATELY if self._work else self.next_time_ms(SETTLED_AT_ONCE)

    def next_time_ms(self, most: int = sys.maxsize) -> int | None:
        """Return the earliest deadline that is a time of the clock, None if there is none.

        If `most` entries before it are no deadlines any more, return a lower bound.
        """
        for _ in range(most):
            if not (heap := self._earliest_heap()):
                return None
            at_ms, _, timer = heap[0]
            if timer.at_ms == at_ms and timer.has_entry(at_ms):
                return at_ms
            self._settle(heap)
        return self.earliest_wakeup_ms()

    def earliest_wakeup_ms(self) -> int | None:
        """Return a lower bound of the earliest deadline, which is cheaper to find; None if no timer is set."""
        if self._work:
            return IMMEDIATELY
        heap = self._earliest_heap()
        return heap[0][0] if heap else None

    def fire(self, now_ms: int, may_work: MayWork = always, may_go_on: MayGoOn = always) -> Iterator[Due]:
        """Yield the timers that are due at `now_ms`. The caller may set and cancel timers in between.

        Timers that are left because of `may_work` or `may_go_on` stay due. A timer fires at most once a turn: if it is
        set again, however short its timeout, it is due in the next turn.
        """
        self._next_turn_ms = now_ms + 1
        try:
            for _ in range(len(self._work)):
                if not self._work or not may_work():
                    break
                key, _ = self._work.popitem(last=False)
                if (timer := self.find(key)) is not None:
                    self._unset(timer)
                self._fired.add(key)
                yield Due(key, IMMEDIATELY)
            while (due := self.pop_due(now_ms)) is not None:
                self._fired.add(due.key)
                yield due
                if not may_go_on():
                    break
        finally:
            self._fired.clear()

    def pop_due(self, now_ms: int) -> Due | None:
        """Remove and return the earliest timer that is due at `now_ms`, None if none is.

        Also None if that is not known yet, for very many that were cancelled: `earliest_wakeup_ms` is due then."""
        for _ in range(SETTLED_AT_ONCE):
            heap = self._earliest_heap()
            if not heap or heap[0][0] > now_ms:
                return None
            at_ms, _, timer = heap[0]
            if timer.at_ms == at_ms and timer.has_entry(at_ms):
                heappop(heap)
                timer.look_ms = None
                self._unset(timer)
                self._throw_out()
                return Due(timer.key, at_ms)
            self._settle(heap)
        return None

    def of_group(self, group_id: str) -> list[tuple[TimerKey, int]]:
        """Return the timers of a group and of its members, earliest first."""
        return self._sort_by_deadline(self._groups.get(group_id, _NO_TIMERS).timers.values())

    def set_ones(self) -> Iterator[Timer]:
        """Yield all timers, in no order, while others come and go: those without a deadline are not set."""
        for group in tuple(self._groups.values()):
            if not group.validity.is_over:
                yield from tuple(group.timers.values())

    def items(self) -> list[tuple[TimerKey, int]]:
        """Return all keys and deadlines, earliest first, for tests and operators."""
        return self._sort_by_deadline(self.set_ones())

    @staticmethod
    def _sort_by_deadline(timers: Iterable[Timer]) -> list[tuple[TimerKey, int]]:
        found = [(timer.key, timer.at_ms) for timer in timers if timer.at_ms is not None]
        return sorted(found, key=lambda item: (item[1], item[0]))

    def _unset(self, timer: Timer) -> None:
        """Note that a timer is no longer set. It is kept as long as it has an entry in the heap."""
        timer.at_ms = None
        self.count -= 1
        self._groups[timer.key[1]].count -= 1
        if timer.look_ms is None:
            self._forget(timer)

    def _forget(self, timer: Timer) -> None:
        group = self._groups[timer.key[1]]
        del group.timers[timer.key]
        if not group.timers:
            del self._groups[timer.key[1]]

    def _push(self, timer: Timer, at_ms: int) -> None:
        timer.look_ms = at_ms
        self._pushes += 1
        heappush(self._heap, (at_ms, self._pushes, timer))

    def _earliest_heap(self) -> list[Entry]:
        """Return the heap that has the earliest entry; an empty one if there is none."""
        if self._old and (not self._heap or self._old[0] < self._heap[0]):
            return self._old
        return self._heap

    def _settle(self, heap: list[Entry]) -> None:
        """Remove the first entry of a heap, which is no deadline any more, and push its timer again if that is set."""
        at_ms, _, timer = heappop(heap)
        if not timer.has_entry(at_ms):
            return  # an earlier entry has replaced this one, or the group has ended
        timer.look_ms = None
        if timer.at_ms is None:
            self._forget(timer)
        elif timer.at_ms != IMMEDIATELY:
            self._push(timer, timer.at_ms)

    def _throw_out(self) -> None:
        """Look at some entries of a heap that has too many dead ones, the last ones first: to take them leaves a heap.

        All at once took 0.1 s for 200,000. The live ones go to the other heap.
        """
        if not self._old:
            if len(self._heap) <= 2 * self.count + DEAD_MAX:
                return
            self._old, self._heap = self._heap, []
        for _ in range(min(LOOKED_AT, len(self._old))):
            entry = self._old.pop()
            at_ms, _, timer = entry
            if not timer.has_entry(at_ms):
                continue
            if timer.at_ms is None or timer.at_ms == IMMEDIATELY:
                timer.look_ms = None
                if timer.at_ms is None:
                    self._forget(timer)
            else:
                heappush(self._heap, entry)
