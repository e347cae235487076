"""Keyed deadlines. Setting one again moves it, which is what every heartbeat does, so that must cost next to nothing.

A heap of deadlines would grow by an entry a heartbeat. Here a timer has at most one live entry in the heap, the
earliest moment at which it is worth a look; a deadline that moves later is only noted in the timer, and the entry is
pushed again when it surfaces. So a heartbeat is one look into a dict, and the heap is as long as there are timers.

Timers belong to what they time: they are indexed by group, and go with their member or their group.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

TimerKey: TypeAlias = tuple[str, str, str]  # (kind, group id, member id or "")


def session(group_id: str, member_id: str) -> TimerKey:
    """A member is gone when it fires: its session, or its time as a pending or new member, is over."""
    return ("session", group_id, member_id)


def join(group_id: str) -> TimerKey:
    """The join phase of a classic rebalance ends when it fires."""
    return ("join", group_id, "")


def sync(group_id: str) -> TimerKey:
    """Members that have not sent SyncGroup by then are removed."""
    return ("sync", group_id, "")


def rebalance(group_id: str, member_id: str) -> TimerKey:
    """Return the key of the timer that fences a member which has not given up its partitions by then (KIP-848)."""
    return ("rebalance", group_id, member_id)


EXPIRY: TimerKey = ("expiry", "", "")  # the pass over all offsets of a shard

SESSION, JOIN, SYNC, REBALANCE, REGEX = "session", "join", "sync", "rebalance", "regex"
MEMBER_KINDS: Final = (SESSION, JOIN, SYNC, REBALANCE)  # all kinds of timers that a member can have
WORK: Final = frozenset({REGEX, EXPIRY[0]})  # what takes many steps


IMMEDIATELY: Final = -(2**62)
"""Whatever the clock shows: for work that goes on in steps. Its keys wait in a queue and fire one after the other, as
many in each turn as its owner lets them."""

MayGoOn = Callable[[], bool]  # whether this turn fires more timers; it is asked behind each of them
MayWork = Callable[[], bool]  # whether a step of work may be done in this turn; it is asked before each step


def always() -> bool:
    """Let a turn do all that is due."""
    return True


class Due(NamedTuple):
    """A timer that has gone off."""

    key: TimerKey
    deadline_ms: int


class Timer(Struct, eq=False, gc=False):
    """A key with its deadline, and with the moment at which the heap looks at it."""

    key: TimerKey
    at_ms: int | None = None  # None: it is not set
    look_ms: int | None = None  # of its live entry in the heap, never later than the deadline; None: it has none


def _wake_nobody(at_ms: int) -> None:
    """Timers by themselves are asked for deadlines."""


class Timers:
    """Deadlines by key. Those that are due come out in the order of their deadlines, then of setting.

    `wake` is called for each deadline that may be the earliest one.
    """

    __slots__ = ("_by_group", "_count", "_fired", "_heap", "_next_turn_ms", "_pushes", "_timers", "_work", "wake")

    def __init__(self) -> None:
        self._timers: dict[TimerKey, Timer] = {}  # those that are set, and those whose heap entry is still there
        self._count = 0  # of those that are set
        self._by_group: dict[str, set[TimerKey]] = {}
        self._fired: set[TimerKey] = set()  # what has fired in the turn at hand
        self._work: OrderedDict[TimerKey, None] = OrderedDict()  # what is set to fire immediately, the first one first
        self._next_turn_ms = 0
        self._heap: list[tuple[int, int, Timer]] = []  # (when, number of the push, timer)
        self._pushes = 0
        self.wake: Callable[[int], None] = _wake_nobody

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: TimerKey) -> bool:
        return self.deadline(key) is not None

    def set(self, key: TimerKey, at_ms: int) -> None:
        """Fire `key` at `at_ms`, and not at the deadline that it had."""
        if self._fired and key in self._fired and at_ms != IMMEDIATELY:
            at_ms = max(at_ms, self._next_turn_ms)
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = Timer(key)
        if timer.at_ms is None:
            self._count += 1
            self._by_group.setdefault(key[1], set()).add(key)
        elif self._work:
            self._work.pop(key, None)
        timer.at_ms = at_ms
        if at_ms == IMMEDIATELY:
            self._work[key] = None
            self.wake(at_ms)
        elif timer.look_ms is None or at_ms < timer.look_ms:
            self._push(timer, at_ms)
            self.wake(at_ms)

    def cancel(self, key: TimerKey) -> None:
        """Forget `key`, if it is set at all. Its heap entry goes when it surfaces, or when there are too many."""
        timer = self._timers.get(key)
        if timer is None or timer.at_ms is None:
            return
        self._work.pop(key, None)
        self._unset(timer)
        if len(self._heap) > 2 * self._count + 64:
            self._rebuild()

    def cancel_member(self, group_id: str, member_id: str) -> None:
        """Forget all timers of a member."""
        for kind in MEMBER_KINDS:
            self.cancel((kind, group_id, member_id))

    def cancel_group(self, group_id: str) -> None:
        """Forget all timers of a group and of its members."""
        for key in tuple(self._by_group.get(group_id, ())):
            self.cancel(key)

    def deadline(self, key: TimerKey) -> int | None:
        """Return when `key` fires, None if it is not set."""
        timer = self._timers.get(key)
        return None if timer is None else timer.at_ms

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline, None without any."""
        if self._work:
            return IMMEDIATELY
        while self._heap:
            at_ms, _, timer = self._heap[0]
            if timer.look_ms == timer.at_ms == at_ms:
                return at_ms
            self._settle()
        return None

    def earliest_wakeup_ms(self) -> int | None:
        """Return a lower bound of the earliest deadline, cheaper to find; None without any."""
        if self._work:
            return IMMEDIATELY
        return self._heap[0][0] if self._heap else None

    def fire(self, now_ms: int, may_work: MayWork = always, may_go_on: MayGoOn = always) -> Iterator[Due]:
        """Take what is due at `now_ms`, one after the other, while the caller sets and cancels others.

        `may_go_on` is asked behind each timer: what is left stays due. A timer fires once a turn: one that is set
        again, however short its timeout, is due in the next turn.
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
        """Take the earliest timer that is due at `now_ms`; None when none is."""
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
        """The timers of a group and of its members, earliest first."""
        return self._sort_by_deadline(self._timers[key] for key in self._by_group.get(group_id, ()))

    def items(self) -> list[tuple[TimerKey, int]]:
        """Return all (key, deadline), earliest first: for tests and for people."""
        return self._sort_by_deadline(self._timers.values())

    @staticmethod
    def _sort_by_deadline(timers: Iterable[Timer]) -> list[tuple[TimerKey, int]]:
        found = [(timer.key, timer.at_ms) for timer in timers if timer.at_ms is not None]
        return sorted(found, key=lambda item: (item[1], item[0]))

    def _unset(self, timer: Timer) -> None:
        """The timer is set no longer; while it has an entry in the heap, it is kept."""
        key = timer.key
        timer.at_ms = None
        if timer.look_ms is None:
            del self._timers[key]
        self._count -= 1
        keys = self._by_group[key[1]]
        keys.discard(key)
        if not keys:
            del self._by_group[key[1]]

    def _push(self, timer: Timer, at_ms: int) -> None:
        timer.look_ms = at_ms
        self._pushes += 1
        heappush(self._heap, (at_ms, self._pushes, timer))

    def _settle(self) -> None:
        """Take the first heap entry away, which is not a deadline (any more); push its timer again if that is set."""
        at_ms, _, timer = heappop(self._heap)
        if timer.look_ms != at_ms:
            return  # a later entry of the timer was replaced by an earlier one, which has been here
        timer.look_ms = None
        if timer.at_ms is None:
            del self._timers[timer.key]
        elif timer.at_ms != IMMEDIATELY:
            self._push(timer, timer.at_ms)

    def _rebuild(self) -> None:
        """Leave only what is set in the heap, in O(timers); so cancelled timers cost memory for no longer than this."""
        for timer in self._timers.values():
            timer.look_ms = None  # of those that are cancelled too, which entries elsewhere may have
        self._timers = {key: timer for key, timer in self._timers.items() if timer.at_ms is not None}
        self._heap = []
        for timer in sorted(self._timers.values(), key=lambda timer: timer.at_ms or 0):
            if timer.at_ms is not None and timer.at_ms != IMMEDIATELY:
                self._push(timer, timer.at_ms)
