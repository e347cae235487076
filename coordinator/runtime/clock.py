"""The clocks of the server: the real one, and the coordinator's, which a test may move.

By the coordinator's clock go sessions, rebalances, transactions, retention, and the timestamps of commits. Long polls,
idle connections, latencies and budgets go by the real one.

A timestamp is the wall clock's at the start plus what the monotonic clock has counted since, so that a step of the
wall clock neither ends a session nor expires an offset. Trio's own clock counts the seconds: a `MockClock` in a test,
or the real one.
"""

import math
import time
from collections.abc import Callable
from typing import Final

import trio

NEVER_MS: Final = 2**62


class Clock:
    """Real milliseconds since the epoch, never going back."""

    def __init__(self, wall_ms: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`monotonic` counts seconds; `wall_ms` is what the wall clock shows now."""
        self._monotonic = monotonic
        self._base_s = wall_ms / 1000 - monotonic()

    @classmethod
    def real(cls) -> "Clock":
        """Return the clock of this process."""
        return cls(int(time.time() * 1000))

    def now_ms(self) -> int:
        """Return the milliseconds since the epoch."""
        return int((self._base_s + self._monotonic()) * 1000)

    def trio_time(self, at_ms: int) -> float:
        """Return when it will be `at_ms`, on Trio's clock, and never earlier: no timer is to find itself not due."""
        if at_ms >= NEVER_MS:
            return math.inf
        return trio.current_time() + max(0.0, at_ms / 1000 - self._base_s - self._monotonic() + 0.0001)


class CoordinatorClock:
    """The coordinator's time: that of a real clock, until somebody stops it, speeds it up or moves it forward.

    It never goes back. `rate` is how many of its milliseconds pass in a real one: 1 as long as nobody steers, 0 while
    it is frozen.
    """

    def __init__(self, real: Clock, start_ms: int | None = None) -> None:
        """`start_ms` is what it shows now; by default, the real time."""
        self._real = real
        self._real_base_ms = real.now_ms()
        self._base_ms = self._real_base_ms if start_ms is None else start_ms
        self.rate = 1.0

    def now_ms(self) -> int:
        """Return the milliseconds since the epoch, by the coordinator's time."""
        passed_ms = self._real.now_ms() - self._real_base_ms
        return self._base_ms + (passed_ms if self.rate == 1.0 else int(passed_ms * self.rate))

    def set_rate(self, rate: float) -> None:
        """Let the time go on from now at another rate: 1 as the real time does, 0 to stop it."""
        assert rate >= 0, "the coordinator's time never goes back"
        self._rebase(self.now_ms())
        self.rate = rate

    def jump_to(self, at_ms: int) -> None:
        """Move the time forward. Does nothing when it is that late already."""
        self._rebase(max(at_ms, self.now_ms()))

    def trio_time(self, at_ms: int) -> float:
        """Return when it will be `at_ms`, on Trio's clock, if nobody steers until then; infinity while it is frozen."""
        left_ms = max(at_ms - self._base_ms, 0)
        if left_ms > NEVER_MS * self.rate:  # as always while it is frozen; a quotient might be too large for a number
            return math.inf
        return self._real.trio_time(self._real_base_ms + (math.ceil(left_ms / self.rate) if left_ms else 0))

    def _rebase(self, now_ms: int) -> None:
        self._base_ms, self._real_base_ms = now_ms, self._real.now_ms()
