"""Deadlines by key. Every heartbeat moves a deadline, so that moving one must cost next to nothing.

A plain heap of deadlines would grow by an entry with each heartbeat. Here each timer has at most one live entry in the
heap. A later deadline is only noted in the timer, whose entry is pushed again when it reaches the top. So a heartbeat
costs one lookup in a dict, and the heap has as many entries as there are timers.

Timers are indexed by group, and are cancelled with their member or their group.
"""

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


class Timer(Struct, eq=False, gc=False):
    """A key with its deadline, and the time of its live entry in the heap."""

    key: TimerKey
    at_ms: int | None = None  # None: it is not set
    look_ms: int | None = None  # never later than the deadline; None: no entry in the heap is live

    def postpone(self, at_ms: int) -> bool:
        """Fire at `at_ms` instead. Return False, and do nothing, if it is not set, or is to fire later, or at once."""
        if self.at_ms is None or not IMMEDIATELY < self.at_ms <= at_ms:
            return False
        self.at_ms = at_ms
        return True


def _wake_nobody(at_ms: int) -> None:
    """Do nothing: the owner asks for the next deadline by itself."""


class Timers:
    """Deadlines by key. Those that are due come out in the order of their deadlines.

    Of two with the same deadline, one that was moved there comes after one that was set so at once.
    `wake` is called for each deadline that may be the earliest one.
    """

    __slots__ = ("_by_group", "_fired", "_heap", "_next_turn_ms", "_pushes", "_timers", "_wake", "_work", "count")

    def __init__(self, wake: Callable[[int], None] = _wake_nobody) -> None:
        self._timers: dict[TimerKey, Timer] = {}  # those that are set, and those that still have an entry in the heap
        self.count = 0  # of those that are set
        self._by_group: dict[str, set[TimerKey]] = {}
        self._fired: set[TimerKey] = set()  # in this turn
        self._work: OrderedDict[TimerKey, None] = OrderedDict()  # those due IMMEDIATELY, in the order of setting
        self._next_turn_ms = 0
        self._heap: list[tuple[int, int, Timer]] = []  # (when, number of the push, timer)
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
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = Timer(key)
        if timer.at_ms is None:
            self.count += 1
            self._by_group.setdefault(key[1], set()).add(key)
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
        timer = self._timers.get(key)
        if timer is None or timer.at_ms is None:
            return
        self._work.pop(key, None)
        self._unset(timer)
        if len(self._heap) > 2 * self.count + 64:
            self._rebuild()

    def cancel_member(self, group_id: str, member_id: str, names: Iterable[str]) -> None:
        """Cancel the timers of a member that have these names."""
        for name in names:
            self.cancel((name, group_id, member_id))

    def forget(self) -> Steps[None]:
        """Forget everything in steps: it is long to free. The timers are of no use then."""
        return empty_in_steps(self._timers, self._by_group)

    def cancel_group(self, group_id: str) -> None:
        """Cancel all timers of a group and of its members."""
        for key in tuple(self._by_group.get(group_id, ())):
            self.cancel(key)

    def find(self, key: TimerKey) -> Timer | None:
        """Return the timer with this key, None if there is none. The caller may keep it, and call `postpone` only."""
        return self._timers.get(key)

    def deadline(self, key: TimerKey) -> int | None:
        """Return when `key` fires, None if it is not set."""
        timer = self._timers.get(key)
        return None if timer is None else timer.at_ms

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline, None if no timer is set."""
        return IMMEDIATELY if self._work else self.next_time_ms()

    def next_time_ms(self) -> int | None:
        """Return the earliest deadline that is a time of the clock, None if there is none."""
        while self._heap:
            at_ms, _, timer = self._heap[0]
            if timer.look_ms == timer.at_ms == at_ms:
                return at_ms
            self._settle()
        return None

    def earliest_wakeup_ms(self) -> int | None:
        """Return a lower bound of the earliest deadline, which is cheaper to find; None if no timer is set."""
        if self._work:
            return IMMEDIATELY
        return self._heap[0][0] if self._heap else None

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
                self._unset(self._timers[key])
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
        """Remove and return the earliest timer that is due at `now_ms`, None if none is due."""
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, _, timer = self._heap[0]
            if timer.look_ms == timer.at_ms == at_ms:
                heappop(self._heap)
                timer.look_ms = None
                self._unset(timer)
                return Due(timer.key, at_ms)
            self._settle()
        return None

    def of_group(self, group_id: str) -> list[tuple[TimerKey, int]]:
        """Return the timers of a group and of its members, earliest first."""
        return self._sort_by_deadline(self._timers[key] for key in self._by_group.get(group_id, ()))

    def set_ones(self) -> tuple[Timer, ...]:
        """Return all timers as they are now, in no order: those without a deadline are not set."""
        return tuple(self._timers.values())

    def items(self) -> list[tuple[TimerKey, int]]:
        """Return all keys and deadlines, earliest first, for tests and operators."""
        return self._sort_by_deadline(self._timers.values())

    @staticmethod
    def _sort_by_deadline(timers: Iterable[Timer]) -> list[tuple[TimerKey, int]]:
        found = [(timer.key, timer.at_ms) for timer in timers if timer.at_ms is not None]
        return sorted(found, key=lambda item: (item[1], item[0]))

    def _unset(self, timer: Timer) -> None:
        """Note that a timer is no longer set. It is kept as long as it has an entry in the heap."""
        key = timer.key
        timer.at_ms = None
        if timer.look_ms is None:
            del self._timers[key]
        self.count -= 1
        keys = self._by_group[key[1]]
        keys.discard(key)
        if not keys:
            del self._by_group[key[1]]

    def _push(self, timer: Timer, at_ms: int) -> None:
        timer.look_ms = at_ms
        self._pushes += 1
        heappush(self._heap, (at_ms, self._pushes, timer))

    def _settle(self) -> None:
        """Remove the first heap entry, which is no deadline any more, and push its timer again if the timer is set."""
        at_ms, _, timer = heappop(self._heap)
        if timer.look_ms != at_ms:
            return  # an earlier entry has replaced this one
        timer.look_ms = None
        if timer.at_ms is None:
            del self._timers[timer.key]
        elif timer.at_ms != IMMEDIATELY:
            self._push(timer, timer.at_ms)

    def _rebuild(self) -> None:
        """Make the heap anew of the timers that are set, so that cancelled ones take no memory."""
        self._timers = {key: timer for key, timer in self._timers.items() if timer.at_ms is not None}
        self._heap = []
        for timer in sorted(self._timers.values(), key=lambda timer: timer.at_ms or 0):
            timer.look_ms = None
            if timer.at_ms is not None and timer.at_ms != IMMEDIATELY:
                self._push(timer, timer.at_ms)
