"""What a handler returns about a request: the response, or how the request goes on.

    Done(response, group_id)   the response; it leaves when the log holds all that it rests on
    PARKED                     a `Reply` under the ticket of the call is the response, later
    InSteps(steps)             others have their turn between two steps; the last one returns one of the other three
    SILENT                     no response is wanted: a Produce with acks=0
    Silent(closes="why")       no response can say that the request has failed: its connection is closed

A handler that has nothing to say but a response may return just that: `answers` makes a handler of it in the table,
and `in_steps` one of a generator that returns the response.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from protocol.steps import Steps

__all__ = [
    "PARKED", "SILENT", "Decision", "Done", "InSteps", "Outcome", "Parked", "Silent", "Steps", "answers", "begin",
    "in_steps", "map_response", "respond_in_steps",
]  # fmt: skip


class Done(Struct, frozen=True, gc=False):
    """The response to a request.

    With a `group_id` it tells of that group and of nothing else, so that it waits for no other group's records.
    Without, it may rest on everything that was decided before.
    """

    response: Any
    group_id: str | None = None


class Parked(Struct, frozen=True, gc=False):
    """The response follows later, as a `Reply` to the ticket of the call."""


class Silent(Struct, frozen=True, gc=False):
    """There is no response, not even to an error. A client that waits for one loses its connection: `closes` is why."""

    closes: str = ""


PARKED: Final = Parked()
SILENT: Final = Silent()
Outcome = Done | Parked | Silent
"""What is known of a request once a step of it is done."""


class InSteps(Struct, frozen=True):
    """The request is decided in steps, of which none is done yet."""

    steps: Steps[Outcome]


Decision = Outcome | InSteps


def answers(handle: Callable[..., Any]) -> Callable[..., Done]:
    """Return the handler that decides at once what `handle` responds."""
    return lambda *args: Done(handle(*args))


def in_steps(handle: Callable[..., Steps[Any]]) -> Callable[..., InSteps]:
    """Return the handler that decides in steps what `handle` responds."""
    return lambda *args: InSteps(respond_in_steps(handle(*args)))


def respond_in_steps(steps: Steps[Any]) -> Steps[Done]:
    """Do all steps, and make a decision of the response that they end with."""
    return Done((yield from steps))


def begin(steps: Steps[Outcome]) -> Decision:
    """Do the steps up to their first checkpoint: most have none, and need no request to be parked."""
    try:
        next(steps)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    return InSteps(steps)


def map_response(decision: Decision, finish: Callable[[Any], Any]) -> Decision:
    """Finish the response of a decision, if it comes now or in steps. Nothing else can be finished."""
    if type(decision) is Done:
        return Done(finish(decision.response), decision.group_id)
    if type(decision) is InSteps:
        return InSteps(_map_in_steps(decision.steps, finish))
    assert type(decision) is Silent, "the response to a parked request is finished by nobody"
    return decision


def _map_in_steps(steps: Steps[Outcome], finish: Callable[[Any], Any]) -> Steps[Outcome]:
    outcome = yield from steps
    return Done(finish(outcome.response), outcome.group_id) if type(outcome) is Done else outcome
