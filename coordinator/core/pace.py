"""Where work that others size gives way: the checkpoints of handlers.

How long a loop takes over what a client has named, or over what the server holds, nobody can say in advance. So such a
loop is a generator that passes a checkpoint, a bare `yield`, each time that it has done some work:

    described = yield from map_in_steps(request.groups, lambda group_id: describe(shard, group_id))

A checkpoint costs next to nothing, and does not end the step: the driver (`runtime/steps`) looks there how much
processor time the step has used, and lets others have their turn if that is enough. So the units here are no promise,
only a rough idea of how often it is worth looking. `tests/test_loops.py` finds loops of handlers without checkpoints.
"""

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from heapq import merge
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, Final, TypeVar

from coordinator.core.decision import Steps

T = TypeVar("T")
R = TypeVar("R")

UNITS: Final = 50
"""Between two checkpoints. A unit is what a small entry takes, some microseconds, so this is some tenths of a
millisecond."""
SORTED_AT_ONCE: Final = 2_000  # entries: a millisecond
CHARACTERS_A_UNIT: Final = 512  # of a name, which is hashed character by character


class Pace:
    """Says when it is time for the next checkpoint."""

    __slots__ = ("_units",)

    def __init__(self) -> None:
        self._units = 0

    def is_due(self, units: int = 1) -> bool:
        """Count work that was done or follows now. Returns whether to pass a checkpoint first."""
        self._units += units
        if self._units < UNITS:
            return False
        self._units = 0
        return True


def do_to_the_end(do_in_steps: Callable[[Steps[None]], None], work: Steps[None]) -> Steps[None]:
    """Have work done that is not to be cut off, and wait for it: it is done to its end though the client leaves."""
    do_in_steps(work)
    while getgeneratorstate(work) != GEN_CLOSED:
        yield


def empty_in_steps(*tables: MutableMapping[Any, Any]) -> Steps[None]:
    """Remove all entries of some tables: to free many at once takes long."""
    pace = Pace()
    for table in tables:
        while table:
            if pace.is_due():
                yield
            table.popitem()


def sort_in_steps(entries: Sequence[Any], key: Callable[[Any], Any] | None = None) -> Steps[list[Any]]:
    """Return the same as `sorted`, which takes 0.2 s for 200,000 names."""
    parts = []
    for at in range(0, len(entries), SORTED_AT_ONCE):
        if at:
            yield
        parts.append(sorted(entries[at : at + SORTED_AT_ONCE], key=key))
    if len(parts) < 2:
        return parts[0] if parts else []
    return (yield from map_in_steps(merge(*parts, key=key), lambda entry: entry))


def name_units(name: str | None) -> int:
    """Return how many units it takes to look a name up."""
    return 1 + len(name) // CHARACTERS_A_UNIT if name else 1


def map_in_steps(entries: Iterable[T], do: Callable[[T], R], units: Callable[[T], int] | None = None) -> Steps[list[R]]:
    """Do something for each entry, with checkpoints. `units` tells what an entry takes, if that is more than one."""
    pace, done = Pace(), []
    for entry in entries:
        if pace.is_due(1 if units is None else units(entry)):
            yield
        done.append(do(entry))
    return done


def chain_steps(entries: Iterable[T], do: Callable[[T], Steps[R]]) -> Steps[list[R]]:
    """Do the same where what is done for one entry has checkpoints of its own."""
    pace, done = Pace(), []
    for entry in entries:
        if pace.is_due():
            yield
        done.append((yield from do(entry)))
    return done
