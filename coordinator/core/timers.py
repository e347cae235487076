"""Keyed deadlines. Setting one again moves it, which is what every heartbeat does, so that must cost next to nothing.

A heap of deadlines would grow by an entry a heartbeat. Here a key has at most one live entry in the heap, the earliest
moment at which it is worth a look; a deadline that moves later is only noted in a dict, and the entry is pushed again
when it surfaces. So a heartbeat is one dict assignment, and the heap is as long as there are timers.

Timers belong to what they time: they are indexed by group, and go with their member or their group.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, TypeAlias

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


class Timers:
    """Deadlines by key. Those that are due come out in the order of their deadlines, then of setting."""

    __slots__ = ("_by_group", "_due", "_fired", "_heap", "_looks", "_next_turn_ms", "_pushes", "_work")

    def __init__(self) -> None:
        self._due: dict[TimerKey, int] = {}
        self._by_group: dict[str, set[TimerKey]] = {}
        self._fired: set[TimerKey] = set()  # what has fired in the turn at hand
        self._work: OrderedDict[TimerKey, None] = OrderedDict()  # what is set to fire immediately, the first one first
        self._next_turn_ms = 0
        self._looks: dict[TimerKey, int] = {}  # when the live heap entry of a key comes up
        self._heap: list[tuple[int, int, TimerKey]] = []  # (when, number of the push, key)
        self._pushes = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._due

    def set(self, key: TimerKey, at_ms: int) -> None:
        """Fire `key` at `at_ms`, and not at the deadline that it had."""
        if key in self._fired and at_ms != IMMEDIATELY:
            at_ms = max(at_ms, self._next_turn_ms)
        if key not in self._due:
            self._by_group.setdefault(key[1], set()).add(key)
        elif self._work:
            self._work.pop(key, None)
        self._due[key] = at_ms
        if at_ms == IMMEDIATELY:
            self._work[key] = None
            return
        look = self._looks.get(key)
        if look is None or at_ms < look:
            self._push(key, at_ms)

    def cancel(self, key: TimerKey) -> None:
        """Forget `key`, if it is set at all. Its heap entry goes when it surfaces, or when there are too many."""
        if self._due.pop(key, None) is None:
            return
        self._leave_group(key)
        self._work.pop(key, None)
        if len(self._heap) > 2 * len(self._due) + 64:
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
        return self._due.get(key)

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline, None without any."""
        if self._work:
            return IMMEDIATELY
        while self._heap:
            at_ms, _, key = self._heap[0]
            if self._looks.get(key) == at_ms and self._due.get(key) == at_ms:
                return at_ms
            self._settle()
        return None

    def earliest_wakeup_ms(self) -> int | None:
        """Return a lower bound of the earliest deadline, cheap enough to ask for after every request; None without
        any."""
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
                del self._due[key]
                self._leave_group(key)
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
            at_ms, _, key = self._heap[0]
            if self._looks.get(key) == at_ms and self._due.get(key) == at_ms:
                heappop(self._heap)
                del self._looks[key], self._due[key]
                self._leave_group(key)
                return Due(key, at_ms)
            self._settle()
        return None

    def of_group(self, group_id: str) -> list[tuple[TimerKey, int]]:
        """The timers of a group and of its members, earliest first."""
        keys = self._by_group.get(group_id, ())
        return sorted(((key, self._due[key]) for key in keys), key=lambda item: (item[1], item[0]))

    def items(self) -> list[tuple[TimerKey, int]]:
        """Return all (key, deadline), earliest first: for tests and for people."""
        return sorted(self._due.items(), key=lambda item: (item[1], item[0]))

    def _leave_group(self, key: TimerKey) -> None:
        keys = self._by_group[key[1]]
        keys.discard(key)
        if not keys:
            del self._by_group[key[1]]

    def _push(self, key: TimerKey, at_ms: int) -> None:
        self._looks[key] = at_ms
        self._pushes += 1
        heappush(self._heap, (at_ms, self._pushes, key))

    def _settle(self) -> None:
        """Take the first heap entry away, which is not a deadline (any more); push its key again if that is set."""
        at_ms, _, key = heappop(self._heap)
        if self._looks.get(key) != at_ms:
            return  # a later entry of the key was replaced by an earlier one, which has been here
        del self._looks[key]
        due = self._due.get(key)
        if due is not None and due != IMMEDIATELY:
            self._push(key, due)

    def _rebuild(self) -> None:
        """Leave only what is set in the heap, in O(timers); so cancelled timers cost memory for no longer than this."""
        entries = sorted([one for one in self._due.items() if one[1] != IMMEDIATELY], key=lambda item: item[1])
        self._heap = [(at_ms, order, key) for order, (key, at_ms) in enumerate(entries)]
        self._looks = dict(entries)
        self._pushes = len(entries)
        heapify(self._heap)
