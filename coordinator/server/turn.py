"""One cycle of the poll loop: how long it may take, and what it has decided."""

import math
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from coordinator.metrics import Stats
from coordinator.server.connection import Connection
from protocol.apis import keys_with
from protocol.traits import Trait

TURN_S: Final = 0.010  # after which a turn decides nothing more
TURN_OWED_BYTES_MAX: Final = 4 * 1_048_576  # after which a turn decides nothing more
HEAVY_S: Final = 0.0005  # of processor time: a connection that keeps a turn for longer is heavy for a while
HEARTBEATS: Final = keys_with(Trait.HEARTBEAT)
CPU_LOOK_S: Final = 0.001  # between two looks at the processor time: what a connection may be charged too much


class DecidedRequests(Struct, frozen=True):
    """Requests that a turn has decided, for their latencies."""

    began_s: float  # the turn
    at_once: list[int]  # the API keys of those that arrived in that turn
    late: list[tuple[int, float]]  # of those that arrived before: API key, and when


class Turn:
    """The turn, over and over again. The parts of the server read its times, and ask it for more."""

    def __init__(self, stats: Stats, real_s: Callable[[], float], cpu_s: Callable[[], float] | None, seconds: float):
        """`real_s` counts real seconds, `cpu_s` those in which the loop's thread had a processor, if anybody does."""
        self._stats = stats
        self.real_s = real_s
        self.cpu_s = cpu_s
        self._cpu_looked_s = 0.0  # the processor time at the latest look
        self.next_look_s = 0.0 if cpu_s else math.inf  # when to look at it again, by the real clock
        self.seconds = seconds  # of the budget
        self.now_ms = 0  # the coordinator's time of the turn, 0 between turns
        self.began_ms = 0  # the same, and between turns that of the latest one
        self.began_s = 0.0
        self._ended_s = 0.0
        self._over_s = 0.0  # from when on it decides nothing more
        self.is_over = False
        self.checked_s = 0.0  # the latest look at the real clock
        self.owed_bytes = 0  # of responses, by this turn
        self.decided: list[int] = []  # the API keys of requests that arrived in this turn
        self.decided_late: list[tuple[int, float]] = []  # of those that arrived before: API key, and when

    def begin(self, now_ms: int) -> None:
        """Begin a turn at the coordinator's time."""
        self.now_ms = self.began_ms = now_ms
        self.began_s = self.checked_s = began_s = self.real_s()
        self._over_s = began_s + self.seconds
        self.is_over = False

    def end(self) -> None:
        """End the turn: nothing more is decided until the next one begins."""
        self.now_ms = self.owed_bytes = 0
        self._ended_s = self.real_s()

    def has_time(self) -> bool:
        """Return whether the turn may decide more."""
        self.checked_s = now_s = self.real_s()
        if now_s < self._over_s and self.owed_bytes < TURN_OWED_BYTES_MAX:
            return True
        self.is_over = True
        return False

    def look_at_cpu(self) -> float:
        """Return the processor time since the latest look. A look is a system call, and therefore rare."""
        if self.cpu_s is None:
            return math.inf
        before, self._cpu_looked_s = self._cpu_looked_s, self.cpu_s()
        self.next_look_s = self.checked_s + CPU_LOOK_S
        return self._cpu_looked_s - before

    def charge(self, connection: Connection, began_s: float) -> float:
        """Make a connection heavy if its requests were expensive. Returns the processor time that they took."""
        used_s = min(self.checked_s - began_s, self.look_at_cpu())
        if used_s > HEAVY_S:
            connection.charge(used_s, self.checked_s)
        return used_s

    def take_decided_requests(self) -> "DecidedRequests":
        """Return what was decided and waits for the disk, to be counted when that is over. Heartbeats hardly ever
        do."""
        waiting = DecidedRequests(
            self.began_s,
            [key for key in self.decided if key not in HEARTBEATS],
            [late for late in self.decided_late if late[0] not in HEARTBEATS],
        )
        self.decided = [key for key in self.decided if key in HEARTBEATS]
        self.decided_late = [late for late in self.decided_late if late[0] in HEARTBEATS]
        return waiting

    def count_decided_requests(self, requests: "DecidedRequests", left_s: float) -> None:
        """Count the latencies of requests whose responses left at `left_s`."""
        stats = self._stats
        for api_key in set(requests.at_once):
            stats.count_response(api_key, left_s - requests.began_s, requests.at_once.count(api_key))
        for api_key, arrived_s in requests.late:
            stats.count_response(api_key, left_s - arrived_s)

    def count(self) -> None:
        """Count how long the turn took, now that its responses have been sent, and how long what it decided: from the
        arrival of a request to the end of the append."""
        if self.decided or self.decided_late:
            requests = DecidedRequests(self.began_s, self.decided, self.decided_late)
            self.count_decided_requests(requests, self._ended_s)
            self.decided.clear()
            self.decided_late.clear()
        self._stats.count_turn(self.began_s, self.real_s())
