"""Do the steps of long requests (`steps.py`), and of work that no client waits for."""

from typing import Any, Final

from coordinator.control.inputs import Kind, StepInput
from coordinator.core.decision import PARKED, SILENT, InSteps, Outcome, Parked, Steps, begin
from coordinator.runtime.edge import Failure
from coordinator.runtime.error_response import failure_outcome
from coordinator.runtime.steps import UnfinishedRequest, UnfinishedRequests
from coordinator.runtime.world import Replies, World

UNTIL_THE_END: Final = 1 << 62  # more checkpoints than a request has


class LongRequests:
    """The steps of all unfinished requests. `take_replies` has what came of those that were parked."""

    def __init__(self, world: World, unfinished: UnfinishedRequests) -> None:
        self._world = world
        self._unfinished = unfinished
        self._replies: Replies = []

    def begin(self, name: str, ticket: int, request: Any, version: int, steps: Steps[Outcome]) -> Outcome:
        """Do the first step of a request, which is parked if there are more. Most have not even a checkpoint."""
        decision = self._world.edge.attempt(name, begin, steps)
        if isinstance(decision, Failure):
            return failure_outcome(request, version, decision.code)
        if not isinstance(decision, InSteps):
            return decision
        unfinished = UnfinishedRequest(name, ticket, request, version, steps)
        self._unfinished.meter.begin()
        outcome = None
        if not self._unfinished.meter.is_over():
            outcome = self._advance(unfinished, self._note_step(unfinished), None)
        if outcome is None:
            self._unfinished.keep(unfinished)
            return PARKED
        return outcome

    def do(self, work: Steps[None]) -> None:
        """Do what nobody waits for in steps, in turn with the requests that are decided so."""
        unfinished = UnfinishedRequest("load", self._unfinished.next_ticket_of_nobody(), None, 0, _silently(work))
        if self._advance(unfinished, StepInput(unfinished.ticket), 1) is None:
            self._unfinished.keep(unfinished)

    def answer(self, name: str, ticket: int, request: Any, version: int, steps: Steps[Outcome]) -> None:
        """Answer a parked request in turn with others. `request` is for an error, and may be an empty one."""
        self._unfinished.keep(UnfinishedRequest(name, ticket, request, version, steps))

    def step(self) -> None:
        """Do the next step of a request that is decided in steps."""
        self._continue(self._unfinished.pop(), None)

    def take_replies(self) -> Replies:
        """Remove and return the requests that the latest steps have decided.

        Their responses may be large: take them after each step, so that not many of them are held.
        """
        if not self._replies:
            return []
        replies, self._replies = self._replies, []
        return replies

    def repeat_step(self, noted: StepInput | None) -> None:
        """Do a step again as a journal has noted it. An old one says neither of which request nor how far: it ends."""
        unfinished = None
        if noted is not None:
            unfinished = self._unfinished.find(noted.ticket)
        elif self._unfinished:
            unfinished = self._unfinished.pop()
        if unfinished is not None:
            self._continue(unfinished, UNTIL_THE_END if noted is None else noted.checkpoints)

    def _continue(self, unfinished: UnfinishedRequest, most: int | None) -> None:
        self._unfinished.meter.begin()
        outcome = self._advance(unfinished, self._note_step(unfinished), most)
        if outcome is None:
            return
        self._unfinished.remove(unfinished)
        if unfinished.ticket >= 0 and not isinstance(outcome, Parked):
            self._replies.append((unfinished.ticket, outcome))

    def _note_step(self, unfinished: UnfinishedRequest) -> StepInput:
        noted = StepInput(unfinished.ticket)
        if self._world.note_input is not None:
            self._world.note_input(Kind.STEP, noted)
        return noted

    def _advance(self, unfinished: UnfinishedRequest, noted: StepInput, most: int | None) -> Outcome | None:
        """Do a step. Returns what comes of the request, None if it has further steps."""
        outcome = self._world.edge.attempt(unfinished.name, self._unfinished.advance, unfinished, noted, most)
        if not isinstance(outcome, Failure):
            return outcome
        return failure_outcome(unfinished.request, unfinished.version, outcome.code)


def _silently(work: Steps[None]) -> Steps[Outcome]:
    yield from work
    return SILENT
