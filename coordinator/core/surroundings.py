"""What a shard calls of the runtime around it: functions, and the bounds of memory, which are those of all shards."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from coordinator.core.growth import Shortage
from coordinator.core.result import Result

Step = Callable[[], Result[Any]]
Attempt = Callable[[str, Step], Result[Any] | None]
RefuseGroup = Callable[[int, Any, int], Any]
"""Given the bytes of a new group, the request that would create it and its version: the response if there is no room,
else None."""
RefuseRequest = Callable[[Any, int], Any]
"""Given a request and its version: the response if there is no room for what it brings, else None."""
Write = Callable[[Result[Any], int], None]


def _do_nothing(number: int) -> None:
    """Count no bytes, and wake nobody."""


def _attempt(kind: str, step: Step) -> Result[Any]:
    return step()


class Surroundings(Struct, frozen=True):
    """The functions of the runtime. By default a shard has no bounds, and what fails in it is raised."""

    attempt: Attempt = _attempt  # runs one step of many, and contains its failure
    wake: Callable[[int], None] = _do_nothing  # is told of deadlines that may be the earliest one
    hold_members: Callable[[int], None] = _do_nothing  # is told how many bytes more the members take
    hold_offsets: Callable[[int], None] = _do_nothing
    shortage: Shortage = Shortage()  # never of anything
    refuse_group: RefuseGroup = lambda more_bytes, request, version: None
    refuse_members: RefuseRequest = lambda request, version: None
    refuse_offsets: RefuseRequest = lambda request, version: None
    refuse_records: RefuseRequest = lambda request, version: None
    refuse_ending: RefuseRequest = lambda request, version: None


BY_ITSELF: Final = Surroundings()
