"""Long requests, decided in steps: other requests are decided in between.

A handler whose work grows with what a client names or the server holds is a generator function. It passes checkpoints
(`core/pace.py`), where others may have their turn, and returns the response:

    def list_groups(engine, request, call, where) -> Steps[ListGroupsResponse]:
        found = yield from chain_steps(engine.world.partitions, list_partition)
        return ListGroupsResponse(...)

A step is over at the first checkpoint at which the meter says so: in a server by the processor time that it has used,
in a simulation by the number of checkpoints. A journal says how many each step had, and a replay does as many.

A request whose handler returns in its first step is answered like any other. Else it is parked under its ticket, and
`LongRequests.step` does one step at a time, of each such request in turn. Steps wait for no clock: they go on in the
next turn, though a test has stopped the coordinator's time. Between two steps everything may change, so a handler takes
what it reads from immutable values, and what it writes step by step is complete in each step. Where its client leaves,
a request that changes something goes on to its end, as in Kafka; one that only reads is forgotten.
"""

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Final, Protocol

from msgspec import Struct

from coordinator.control.inputs import StepInput
from coordinator.core.decision import Outcome, Steps
from protocol.apis import names_with
from protocol.traits import Trait

ACTIVE_MAX: Final = 4  # requests that have their turns; others wait behind them
STEP_S: Final = 0.002  # of processor time, after which a step is over
LEFT_MAX: Final = 100  # requests of clients that have left, which bounds what these keep in memory; others are cut off
STEPS_MAX: Final = 1_000  # of the active ones together, of which none ends: then one of them lets another in

DONE_TO_THE_END: Final = names_with(Trait.CHANGES) - names_with(Trait.CUT_OFF)


class StepMeter(Protocol):
    """Says at a checkpoint whether a step has used enough."""

    def begin(self) -> None:
        """Begin a step."""

    def is_over(self) -> bool:
        """Return whether others are to have their turn now."""


class ProcessorTime:
    """Ends a step by the processor time that it has used: a busy machine ends none earlier."""

    def __init__(self, cpu_s: Callable[[], float], seconds: float = STEP_S) -> None:
        self._cpu_s = cpu_s
        self._seconds = seconds
        self._until_s = 0.0

    def begin(self) -> None:
        self._until_s = self._cpu_s() + self._seconds

    def is_over(self) -> bool:
        return self._cpu_s() >= self._until_s


class Checkpoints:
    """Ends a step at its first checkpoint, so that what it does depends on no machine."""

    def begin(self) -> None:
        """Do nothing: there is nothing to be counted."""

    def is_over(self) -> bool:
        return True


class Endless:
    """Ends no step before the request is decided."""

    def begin(self) -> None:
        """Do nothing: there is nothing to be counted."""

    def is_over(self) -> bool:
        return False


class UnfinishedRequest(Struct, eq=False):
    """A request that is decided in steps, or work that no client waits for."""

    name: str  # of the API, or of the work
    ticket: int
    request: Any
    version: int
    steps: Steps[Outcome]


class UnfinishedRequests:
    """The requests that are decided in steps, the next one first."""

    def __init__(self, meter: StepMeter) -> None:
        self.meter = meter
        self.next_ticket_of_nobody = count(-1, -1).__next__  # of work that no client waits for
        self._waiting: deque[UnfinishedRequest] = deque()  # their first step is done
        self._active: deque[UnfinishedRequest] = deque()  # few, because what they have found so far is in memory
        self._left = set[int]()  # the tickets of those whose clients have left
        self._steps = 0  # since the last one has become active, or has ended

    def __bool__(self) -> bool:
        return bool(self._active or self._waiting)

    def keep(self, unfinished: UnfinishedRequest) -> None:
        """Let a request wait for its next step, behind all others."""
        self._waiting.append(unfinished)

    def pop(self) -> UnfinishedRequest:
        """Return the request whose turn it is; it stays in its queue, as the last.

        The active ones may all wait for what one holds that is not active, as acknowledgements hold a share partition.
        """
        self._steps += 1
        is_full = len(self._active) >= ACTIVE_MAX
        if self._waiting and (not is_full or self._steps > STEPS_MAX):
            if is_full:
                self._waiting.append(self._active.popleft())
            self._active.append(self._waiting.popleft())
            self._steps = 0
        self._active.rotate(-1)
        return self._active[-1]

    def find(self, ticket: int) -> UnfinishedRequest | None:
        """Return the request under a ticket, None if there is none."""
        return next((one for queue in (self._active, self._waiting) for one in queue if one.ticket == ticket), None)

    def advance(self, unfinished: UnfinishedRequest, noted: StepInput, most: int | None = None) -> Outcome | None:
        """Do a step: to the checkpoint at which the meter says that it is over, or over `most` checkpoints.

        Returns what comes of the request, None if it has further steps. `noted` gets the number of checkpoints. The
        caller has begun the meter, for a step alone: what a step begins within itself counts as a part of it.
        """
        while True:
            noted.checkpoints += 1
            try:
                next(unfinished.steps)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            if self.meter.is_over() if most is None else noted.checkpoints >= most:
                return None

    def remove(self, unfinished: UnfinishedRequest) -> None:
        """Forget a request whose last step is done, or has failed."""
        self._steps = 0
        self._left.discard(unfinished.ticket)
        for queue in (self._active, self._waiting):
            if unfinished in queue:
                queue.remove(unfinished)

    def forget(self, ticket: int) -> None:
        """Answer a client no more that has left. What it has asked to be changed is changed to the end."""
        left = self.find(ticket)
        if left is None:
            return
        if left.name in DONE_TO_THE_END and len(self._left) < LEFT_MAX:
            left.ticket = self.next_ticket_of_nobody()
            self._left.add(left.ticket)
            return
        self.remove(left)
        left.steps.close()
