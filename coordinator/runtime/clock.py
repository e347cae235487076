"""The one clock of the server.

A timestamp is the wall clock's at the start plus what the monotonic clock has counted since, so that a step of the
wall clock neither ends a session nor expires an offset. Trio's own clock counts the seconds: a `MockClock` in a test,
or the real one.
"""

import math
import time
from collections.abc import Callable

import trio


class Clock:
    """Milliseconds since the epoch, never going back."""

    def __init__(self, wall_ms: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`monotonic` counts seconds; `wall_ms` is what the wall clock shows now."""
        self._monotonic = monotonic
        self._base_s = wall_ms / 1000 - monotonic()

    @classmethod
    def real(cls) -> "Clock":
        """The process's own clocks."""
        return cls(int(time.time() * 1000))

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return int((self._base_s + self._monotonic()) * 1000)

    def trio_time(self, at_ms: int) -> float:
        """When it will be `at_ms`, on Trio's clock, and never before: no timer is to find itself not due."""
        if at_ms >= 2**62:
            return math.inf
        return trio.current_time() + max(0.0, at_ms / 1000 - self._base_s - self._monotonic() + 0.0001)
