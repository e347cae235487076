"""Long requests, decided in steps: other requests are decided in between.

A handler whose work grows with what the server holds is a generator function. It yields wherever others may have their
turn, after about a millisecond of work, and returns the response:

    def list_groups(engine, request, call, where) -> Steps[ListGroupsResponse]:
        for partition in engine.partitions:
            ...
            yield
        return ListGroupsResponse(...)

A request whose handler returns at its first step is answered like any other. Else it is parked under its ticket, and
`Engine.step` does one step at a time, of each such request in turn. Steps wait for no clock: they go on in the next
turn, though a test has stopped the coordinator's time. Between two steps everything may change, so a handler takes
what it reads from immutable values, and what it writes step by step is complete in each step.
"""

from collections import deque
from typing import Any, Final

from msgspec import Struct

from coordinator.core.decision import PARKED, Outcome, Steps

NOBODYS: Final = 0  # the ticket of work that no client waits for
ACTIVE_MAX: Final = 4  # requests that have their turns; others wait behind them
STEP_GROUPS: Final = 200  # to be described, listed or deleted in one step
_ID_CHARACTERS: Final = 512  # of an id, that take as long as a group


class Pace:
    """When a step is over in which groups are looked up by their ids: a long id is hashed character by character."""

    def __init__(self) -> None:
        self._work = 0

    def is_due(self, group_id: str) -> bool:
        """Return whether others are to have their turn before this group."""
        self._work += 1 + len(group_id) // _ID_CHARACTERS
        if self._work < STEP_GROUPS:
            return False
        self._work = 0
        return True


class UnfinishedRequest(Struct, eq=False):
    """A request that is decided in steps."""

    ticket: int
    request: Any
    version: int
    steps: Steps[Outcome]


class UnfinishedRequests:
    """The requests that are decided in steps, the next one first."""

    def __init__(self) -> None:
        self._waiting: deque[UnfinishedRequest] = deque()  # their first step is done
        self._active: deque[UnfinishedRequest] = deque()  # few, because what they have found so far is in memory

    def __bool__(self) -> bool:
        return bool(self._active or self._waiting)

    def begin(self, ticket: int, request: Any, version: int, steps: Steps[Outcome]) -> Outcome:
        """Do the first step of a request. Returns what comes of it: PARKED if there is more to do."""
        return self._continue(UnfinishedRequest(ticket, request, version, steps), self._waiting)

    def pop(self) -> UnfinishedRequest:
        """Take the request whose turn it is, to be resumed."""
        if self._waiting and len(self._active) < ACTIVE_MAX:
            self._active.append(self._waiting.popleft())
        return self._active.popleft()

    def resume(self, unfinished: UnfinishedRequest) -> Outcome:
        """Do the next step of a request. Returns what comes of it: PARKED if there is more to do."""
        return self._continue(unfinished, self._active)

    def forget(self, ticket: int) -> None:
        """Do nothing more for a client that has left."""
        for queue in (self._active, self._waiting):
            for unfinished in [one for one in queue if one.ticket == ticket]:
                queue.remove(unfinished)
                unfinished.steps.close()

    @staticmethod
    def _continue(unfinished: UnfinishedRequest, queue: deque[UnfinishedRequest]) -> Outcome:
        try:
            next(unfinished.steps)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        queue.append(unfinished)
        return PARKED
