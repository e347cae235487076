"""Count what keeps the loop: the processor time of each stretch in which no other task has a turn.

Clients' requests have turns, which count themselves (`server/turn`). Everything else that runs in the loop's thread is
a Trio task: upkeep, loading, the operator's verbs. Trio calls this instrument before and after each step of a task. A
task says what it does by `WORK`, which the tasks that it starts inherit:

    WORK.set("upkeep")

A long step is counted under that name. The clock is read twice a step; the processor time is a system call, and is
read only where a step was long.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import trio

from coordinator.metrics import LONG_TURN_SECONDS, Stats

CONNECTIONS: Final = "connections"
EVENTS: Final = "events"
LOADING: Final = "loading"
REQUESTS: Final = "requests"
SNAPSHOTS: Final = "snapshots"
UPKEEP: Final = "upkeep"
VERBS: Final = "verbs"
WORK: ContextVar[str] = ContextVar("WORK", default="other")


@contextmanager
def doing(work: str) -> Iterator[None]:
    """Count what a task does meanwhile as this."""
    token = WORK.set(work)
    try:
        yield
    finally:
        WORK.reset(token)


class LoopTime(trio.abc.Instrument):
    """Counts the long steps of tasks in `stats`, by what they do. Requests are left to their turns."""

    def __init__(self, stats: Stats, real_s: Callable[[], float]) -> None:
        self._stats = stats
        self._real_s = real_s
        self._began_s = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note when a step begins."""
        self._began_s = self._real_s()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count a step that was long."""
        now_s = self._real_s()
        if now_s - self._began_s >= LONG_TURN_SECONDS:
            work = task.context.get(WORK, "other")
            if work != REQUESTS:
                self._stats.count_work(work, self._began_s, now_s)
