"""One cycle of the poll loop, and how long it may take."""

import math
from collections.abc import Callable
from typing import Final

from coordinator.server.connection import Connection

TURN_S: Final = 0.010  # after which a turn decides nothing more
TURN_RESPONSE_BYTES_MAX: Final = 4 * 1_048_576  # after which a turn decides nothing more
HEAVY_S: Final = 0.0005  # of processor time: a connection that keeps a turn for longer is heavy for a while
CPU_LOOK_S: Final = 0.001  # between two looks at the processor time, and the most that a connection is charged too much


class Turn:
    """The current turn: one object for all of them. The parts of the server read its times, and ask it for more."""

    def __init__(self, real_s: Callable[[], float], cpu_s: Callable[[], float] | None, seconds: float):
        """`real_s` counts real seconds, `cpu_s` those in which the loop's thread had a processor, if anybody does."""
        self.real_s = real_s
        self.cpu_s = cpu_s
        self._cpu_looked_s = 0.0  # the processor time at the latest look
        self.next_look_s = 0.0 if cpu_s else math.inf  # when to look at it again, by the real clock
        self.seconds = seconds  # of the budget
        self.now_ms = 0  # the coordinator's time of the turn, 0 between turns
        self.began_ms = 0  # the same, and between turns that of the latest one
        self.began_s = 0.0
        self.ended_s = 0.0
        self._over_s = 0.0  # from when on it decides nothing more
        self.is_over = False
        self.checked_s = 0.0  # the latest look at the real clock
        self.response_bytes = 0  # of this turn

    def begin(self, now_ms: int) -> None:
        """Begin a turn at the coordinator's time."""
        self.now_ms = self.began_ms = now_ms
        self.began_s = self.checked_s = began_s = self.real_s()
        self._over_s = began_s + self.seconds
        self.is_over = False

    def end(self) -> None:
        """End the turn: nothing more is decided until the next one begins."""
        self.now_ms = self.response_bytes = 0
        self.ended_s = self.real_s()

    def check_time(self) -> bool:
        """Look at the real clock. Returns whether the turn may decide more; once it may not, it is over."""
        self.checked_s = now_s = self.real_s()
        if now_s < self._over_s and self.response_bytes < TURN_RESPONSE_BYTES_MAX:
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
