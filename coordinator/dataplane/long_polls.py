"""Fetches that wait for records: parked under a ticket until enough has come, or until their time is up.

Their time is real time, whatever the coordinator's clock does: a test that stops that clock must not stop consumers
from polling. It ends when that of others does, a little later than it was asked for: an idle consumer asks and is
answered twice a second for ever, and a processor that has done other work meanwhile needs half of a small turn to read
the program into its caches again. Clients that were answered together ask again together, and stay so.
"""

from heapq import heapify, heappop, heappush
from typing import Any, Final

from msgspec import Struct

from coordinator.dataplane.topic_logs import TopicPartition

GRAIN_MS_MAX: Final = 64  # a power of two
STALE_MAX: Final = 64  # deadlines of fetches that no longer wait, beyond as many as there are that do


class Waiting(Struct, gc=False):
    """A parked fetch. `missing` counts down to when it is worth looking again whether there are `min_bytes`."""

    ticket: int
    deadline_ms: int
    missing: int
    fetch: Any
    partitions: tuple[TopicPartition, ...]
    found: Any = None  # what there was when it was parked, if no records: all there is as long as nothing has changed
    is_stale: bool = False  # whether something has changed, or `found` was not kept


class LongPolls:
    """The parked fetches, by partition and by deadline."""

    def __init__(self) -> None:
        self._waiting: dict[int, Waiting] = {}
        self._by_partition: dict[TopicPartition, dict[int, Waiting]] = {}
        self._deadlines: list[tuple[int, int]] = []  # a heap of (ms, ticket), with some whose tickets are gone
        self._woken: dict[int, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def park(self, waiting: Waiting) -> None:
        """Let a fetch wait."""
        self._waiting[waiting.ticket] = waiting
        heappush(self._deadlines, (waiting.deadline_ms, waiting.ticket))
        for partition in waiting.partitions:
            self._by_partition.setdefault(partition, {})[waiting.ticket] = waiting

    def let_go(self, ticket: int) -> Waiting | None:
        """Forget who waits under a ticket: it is answered, or its client has left."""
        waiting = self._waiting.pop(ticket, None)
        if waiting is None:
            return None
        self._woken.pop(ticket, None)
        if len(self._deadlines) > 2 * len(self._waiting) + STALE_MAX:  # who leaves early must not leave much behind
            self._deadlines = [(one.deadline_ms, one.ticket) for one in self._waiting.values()]
            heapify(self._deadlines)
        for partition in waiting.partitions:
            tickets = self._by_partition[partition]
            tickets.pop(ticket, None)
            if not tickets:
                del self._by_partition[partition]
        return waiting

    def note_append(self, partition: TopicPartition, size: int) -> None:
        """A partition has grown by `size` bytes."""
        for ticket, waiting in self._by_partition.get(partition, {}).items():
            waiting.is_stale = True
            waiting.missing -= size
            if waiting.missing <= 0:
                self._woken[ticket] = waiting

    def wake(self, partition: TopicPartition) -> None:
        """Look again at all who wait for this partition: a transaction has ended in it, or it is no more."""
        waiting = self._by_partition.get(partition, {})
        for one in waiting.values():
            one.is_stale = True
        self._woken.update(waiting)

    def pop_ready(self) -> Waiting | None:
        """Return a parked fetch that may have enough now, None if there is none. It stays parked until it is let go."""
        for ticket in self._woken:
            return self._woken.pop(ticket)
        return None

    def pop_overdue(self, now_ms: int) -> Waiting | None:
        """Return a parked fetch whose wait is over, None if there is none. It is to be let go."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            waiting = self._waiting.get(heappop(self._deadlines)[1])
            if waiting is not None:
                return waiting
        return None

    def next_deadline_ms(self) -> int | None:
        """Return when somebody has waited long enough, in real time: at once for who is woken, None while nobody
        waits."""
        if self._woken:
            return 0
        while self._deadlines and self._deadlines[0][1] not in self._waiting:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None


def deadline_ms(now_ms: int, wait_ms: int) -> int:
    """Return when a wait that begins now ends: where it meets others of about its length, never too early.

    Waits end at multiples of a power of two, the largest below a quarter of the wait. Most waits are round decimal
    numbers, which have a multiple closely behind them: 12 ms behind 500, 24 behind 1,000. So a client that asks again
    as soon as it is answered is late by that, and not by a whole grain each time.
    """
    grain_ms = min(1 << max((wait_ms - 1).bit_length() - 3, 0), GRAIN_MS_MAX)
    return -(-(now_ms + wait_ms) // grain_ms) * grain_ms
