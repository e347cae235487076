"""Fetches that wait for records: parked under a ticket until enough has come, or until their time is up.

Their time is real time, whatever the coordinator's clock does: a test that stops that clock must not stop consumers
from polling. It ends when that of others does, a little later than it was asked for: an idle consumer asks and is
answered twice a second for ever, and a processor that has done other work meanwhile needs half of a small turn to read
the program into its caches again. Clients that were answered together ask again together, and stay so.

Such a consumer asks for the same each time. So a fetch that is answered with nothing new is remembered for a while, and
waits once more when it comes again and nothing has changed: nothing is worked out twice.
"""

from heapq import heapify, heappop, heappush
from typing import Any, Final

from msgspec import Struct

from coordinator.dataplane.topic_logs import TopicPartition
from storage.log import Log

GRAIN_MS_MAX: Final = 64  # a power of two
STALE_MAX: Final = 64  # deadlines at which no fetch ends any more, beyond as many as there are at which one does
REMEMBERED_MAX: Final = 1_000  # fetches that are answered: those of one deadline come again within milliseconds


class Waiting(Struct, gc=False):
    """A parked fetch. `missing` counts down to when it is worth looking again whether there are `min_bytes`."""

    ticket: int
    deadline_ms: int
    missing: int
    key: Any  # the request, or its session: the same object when the client fetches the same again
    fetch: Any
    partitions: tuple[TopicPartition, ...]
    found: Any = None  # what there was when it was parked, if no records: all there is as long as nothing has changed
    is_stale: bool = False  # whether something has changed, or `found` was not kept
    logs: tuple[Log, ...] = ()  # of the partitions, once it is remembered
    response: Any = None  # that tells of what was found


class LongPolls:
    """The parked fetches, by partition and by deadline."""

    def __init__(self) -> None:
        self._waiting: dict[int, Waiting] = {}
        self._by_partition: dict[TopicPartition, dict[int, Waiting]] = {}
        self._by_deadline: dict[int, dict[int, Waiting]] = {}
        self._deadlines: list[int] = []  # a heap of these, with some at which no fetch ends any more
        self._woken: dict[int, Waiting] = {}
        self._remembered: dict[int, Waiting] = {}  # by the identities of their keys, which they hold

    def __len__(self) -> int:
        return len(self._waiting)

    def park(self, waiting: Waiting) -> None:
        """Let a fetch wait."""
        self._waiting[waiting.ticket] = waiting
        ending = self._by_deadline.get(waiting.deadline_ms)
        if ending is None:
            ending = self._by_deadline[waiting.deadline_ms] = {}
            heappush(self._deadlines, waiting.deadline_ms)
        ending[waiting.ticket] = waiting
        for partition in waiting.partitions:
            self._by_partition.setdefault(partition, {})[waiting.ticket] = waiting

    def let_go(self, ticket: int) -> Waiting | None:
        """Forget who waits under a ticket: it is answered, or its client has left."""
        waiting = self._waiting.pop(ticket, None)
        if waiting is None:
            return None
        self._woken.pop(ticket, None)
        ending = self._by_deadline[waiting.deadline_ms]
        del ending[ticket]
        if not ending:
            del self._by_deadline[waiting.deadline_ms]
            if len(self._deadlines) > 2 * len(self._by_deadline) + STALE_MAX:  # who leaves early leaves little behind
                self._deadlines = list(self._by_deadline)
                heapify(self._deadlines)
        for partition in waiting.partitions:
            tickets = self._by_partition[partition]
            tickets.pop(ticket, None)
            if not tickets:
                del self._by_partition[partition]
        return waiting

    def remember(self, waiting: Waiting) -> None:
        """Remember a fetch that was answered, for its client is about to send it again."""
        self._remembered[id(waiting.key)] = waiting
        if len(self._remembered) > REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]

    def recall(self, key: Any) -> Waiting | None:
        """Return the fetch that is remembered under this key, and forget it."""
        return self._remembered.pop(id(key), None)

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

    def find_overdue(self, now_ms: int) -> Waiting | None:
        """Return a parked fetch whose wait is over, None if there is none. It is to be let go."""
        at_ms = self._next_ms()
        return next(iter(self._by_deadline[at_ms].values())) if at_ms is not None and at_ms <= now_ms else None

    def next_deadline_ms(self) -> int | None:
        """Return when somebody has waited long enough, in real time: at once for who is woken, None while nobody
        waits."""
        if self._woken:
            return 0
        return self._next_ms()

    def _next_ms(self) -> int | None:
        """Return when the next wait is over, None while nobody waits."""
        while self._deadlines:
            if self._deadlines[0] in self._by_deadline:
                return self._deadlines[0]
            heappop(self._deadlines)
        return None


def deadline_ms(now_ms: int, wait_ms: int) -> int:
    """Return when a wait that begins now ends: where it meets others of about its length, never too early.

    Waits end at multiples of a power of two, the largest below a quarter of the wait. Most waits are round decimal
    numbers, which have a multiple closely behind them: 12 ms behind 500, 24 behind 1,000. So a client that asks again
    as soon as it is answered is late by that, and not by a whole grain each time.
    """
    is_long = wait_ms > 4 * GRAIN_MS_MAX  # as nearly always
    grain_ms = GRAIN_MS_MAX if is_long else 1 << max((wait_ms - 1).bit_length() - 3, 0)
    return -(-(now_ms + wait_ms) // grain_ms) * grain_ms
