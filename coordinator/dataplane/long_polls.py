"""Fetches that wait for records: parked under a ticket until enough has come, or until their time is up.

They wait in real time, whatever the coordinator's clock shows: a test that stops that clock must not stop consumers
from polling. Waits end together, a little later than requested: an idle consumer sends a fetch twice a second, and the
processor needs half of a small turn to load the program into its caches again. Clients that are answered together send
their next requests together as well.

An idle consumer repeats the same fetch. So a fetch that was answered without news is remembered for a while: if it
comes again and nothing has changed, it is parked again without being evaluated again.

A parked fetch of many partitions takes some ten times the memory of its request. Where all of them together have too
many partitions, the one with the most is answered early.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Final

from msgspec import Struct

from coordinator.core.share_state.values import StateKey
from coordinator.dataplane.topic_logs import TopicPartition
from storage.log import Log

GRAIN_MS_MAX: Final = 128  # a power of two
LONG_MS: Final = 500  # a wait of this length, and each longer one, ends at a multiple of the largest grain
STALE_MAX: Final = 64  # unused deadlines in the heap, beyond as many as are in use
PARTITIONS_MAX: Final = 500_000  # of all parked fetches: some 250 MiB
REMEMBERED_MAX: Final = 1_000  # answered fetches; those of one deadline are repeated within milliseconds

Watched = TopicPartition | StateKey
"""What a fetch waits for: records of a partition, or those of a share partition that are available again."""


class Waiting(Struct, gc=False):
    """A parked fetch. `missing` is how many bytes have to be appended before it is worth evaluating it again."""

    ticket: int
    deadline_ms: int
    missing: int
    key: Any  # the request, or its session: the same object if the client repeats the fetch
    fetch: Any
    partitions: tuple[TopicPartition, ...]
    found: Any = None  # the partitions as they were when it was parked, if there were no records
    is_stale: bool = False  # whether something has changed, or `found` was not kept
    logs: tuple[Log, ...] = ()  # of the partitions, once it is remembered
    response: Any = None  # made of `found`
    share_partitions: tuple[StateKey, ...] = ()  # of a ShareFetch
    is_reading: bool = False  # whether its partitions are being read in steps

    def keep(self, found: Any, size: int) -> None:
        """Keep what was found, if that is no records: they would be held for as long as the client likes, and counted
        nowhere. They are read once more in the end."""
        self.found = None if size else found
        self.is_stale = self.is_stale or size > 0

    @property
    def watched(self) -> Iterator[Watched]:
        """What it waits for."""
        yield from self.partitions
        yield from self.share_partitions


class LongPolls:
    """The parked fetches, by partition and by deadline."""

    def __init__(self) -> None:
        self._waiting: dict[int, Waiting] = {}
        self._by_partition: dict[Watched, dict[int, Waiting]] = {}
        self._by_deadline: dict[int, dict[int, Waiting]] = {}
        self._deadlines: list[int] = []  # a heap of the deadlines, with some that are unused
        self._woken: dict[int, Waiting] = {}
        self._remembered: dict[int, Waiting] = {}  # by the `id` of their keys, which they keep alive
        self._partitions = 0  # of all parked fetches

    def __len__(self) -> int:
        return len(self._waiting)

    def park(self, waiting: Waiting) -> None:
        """Park a fetch."""
        self._waiting[waiting.ticket] = waiting
        self._set_deadline(waiting)
        for partition in waiting.watched:
            self._by_partition.setdefault(partition, {})[waiting.ticket] = waiting
        self._partitions += len(waiting.partitions)
        if self._partitions > PARTITIONS_MAX:
            largest = max(self._waiting.values(), key=lambda one: len(one.partitions) if one.deadline_ms else 0)
            if largest.is_reading:
                largest.deadline_ms = 0  # it is answered when it was read
            else:
                self._remove_deadline(largest)
                largest.deadline_ms = 0
                self._set_deadline(largest)

    def begin_reading(self, waiting: Waiting) -> None:
        """Let a parked fetch be neither woken nor overdue until `end_reading`. What changes meanwhile is noted."""
        self._woken.pop(waiting.ticket, None)
        self._remove_deadline(waiting)
        waiting.is_reading, waiting.is_stale, waiting.missing = True, False, waiting.fetch.min_bytes

    def end_reading(self, waiting: Waiting, size: int) -> None:
        """Let a fetch wait in which `size` bytes were found. It is read again at once if, with all that came meanwhile,
        there may be enough."""
        waiting.is_reading = False
        waiting.missing -= size
        self._set_deadline(waiting)
        if waiting.missing <= 0:
            self._woken[waiting.ticket] = waiting

    def _set_deadline(self, waiting: Waiting) -> None:
        ending = self._by_deadline.get(waiting.deadline_ms)
        if ending is None:
            ending = self._by_deadline[waiting.deadline_ms] = {}
            heappush(self._deadlines, waiting.deadline_ms)
        ending[waiting.ticket] = waiting

    def _remove_deadline(self, waiting: Waiting) -> None:
        ending = self._by_deadline[waiting.deadline_ms]
        del ending[waiting.ticket]
        if not ending:
            del self._by_deadline[waiting.deadline_ms]
            if len(self._deadlines) > 2 * len(self._by_deadline) + STALE_MAX:  # after many early ends
                self._deadlines = list(self._by_deadline)
                heapify(self._deadlines)

    def let_go(self, ticket: int) -> Waiting | None:
        """Remove a parked fetch that is answered, or whose client has left. Return it, None if there is none."""
        waiting = self._waiting.pop(ticket, None)
        if waiting is None:
            return None
        self._woken.pop(ticket, None)
        if not waiting.is_reading:
            self._remove_deadline(waiting)
        self._partitions -= len(waiting.partitions)
        for partition in waiting.watched:
            tickets = self._by_partition[partition]
            tickets.pop(ticket, None)
            if not tickets:
                del self._by_partition[partition]
        return waiting

    def remember(self, waiting: Waiting) -> None:
        """Remember an answered fetch, because the client is about to repeat it."""
        self._remembered[id(waiting.key)] = waiting
        if len(self._remembered) > REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]

    def recall(self, key: Any) -> Waiting | None:
        """Remove and return the fetch that is remembered by this key."""
        return self._remembered.pop(id(key), None)

    def note_append(self, partition: TopicPartition, size: int) -> None:
        """Note that `size` bytes were appended to a partition."""
        for ticket, waiting in self._by_partition.get(partition, {}).items():
            waiting.is_stale = True
            waiting.missing -= size
            if waiting.missing <= 0 and not waiting.is_reading:
                self._woken[ticket] = waiting

    def wake(self, partition: Watched) -> None:
        """Evaluate all fetches of a partition again: a transaction has ended in it, it was deleted, or records of a
        share partition are available again."""
        for ticket, one in self._by_partition.get(partition, {}).items():
            one.is_stale = True
            if one.is_reading:
                one.missing = 0
            else:
                self._woken[ticket] = one

    def pop_ready(self) -> Waiting | None:
        """Return a parked fetch that may have enough bytes now, None if there is none. It stays parked."""
        for ticket in self._woken:
            return self._woken.pop(ticket)
        return None

    def find_overdue(self, now_ms: int) -> Waiting | None:
        """Return a parked fetch whose wait is over, None if there is none. The caller calls `let_go`."""
        at_ms = self._next_ms()
        return next(iter(self._by_deadline[at_ms].values())) if at_ms is not None and at_ms <= now_ms else None

    def next_deadline_ms(self) -> int | None:
        """Return the next deadline in real time: 0 if a fetch is to be evaluated, None if no fetch is parked."""
        if self._woken:
            return 0
        return self._next_ms()

    def _next_ms(self) -> int | None:
        """Return the next deadline, None if no fetch is parked."""
        while self._deadlines:
            if self._deadlines[0] in self._by_deadline:
                return self._deadlines[0]
            heappop(self._deadlines)
        return None


def deadline_ms(now_ms: int, wait_ms: int) -> int:
    """Return when a wait that begins now ends: together with others of about its length, and never too early.

    Waits end at multiples of a power of two, the largest one that is about a quarter of the wait, or less: 128 ms for
    500. Most waits are round decimal numbers, which are a little less than such a multiple: 500 ms by 12 ms, 1,000 ms
    by 24 ms. So a client that repeats its fetch at once is late by that much each time, and not by a whole grain.
    """
    is_long = wait_ms >= LONG_MS  # nearly always
    grain_ms = GRAIN_MS_MAX if is_long else 1 << max((wait_ms * GRAIN_MS_MAX // LONG_MS).bit_length() - 1, 0)
    return -(-(now_ms + wait_ms) // grain_ms) * grain_ms
