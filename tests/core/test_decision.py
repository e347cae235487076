"""What a handler returns, and what may be done with it."""

import pytest

from coordinator.core.decision import (
    PARKED,
    SILENT,
    Done,
    InSteps,
    answers,
    begin,
    in_steps,
    map_response,
)
from tests.steps import count_steps


def two_steps(number: int):
    yield
    return number


def test_a_handler_may_return_a_response_alone() -> None:
    assert answers(lambda number: number + 1)(2) == Done(3)
    decision = in_steps(two_steps)(2)
    assert count_steps(decision.steps) == (2, Done(2))


def test_a_response_is_finished_wherever_it_comes_and_keeps_its_scope() -> None:
    assert map_response(Done(1, "g"), str) == Done("1", "g")
    assert count_steps(map_response(in_steps(two_steps)(2), str).steps) == (2, Done("2"))
    assert map_response(SILENT, str) is SILENT

    def silent():
        yield
        return SILENT

    assert count_steps(map_response(InSteps(silent()), str).steps) == (2, SILENT)


def test_a_parked_request_cannot_be_finished() -> None:
    with pytest.raises(AssertionError):
        map_response(PARKED, str)


def test_steps_that_pass_no_checkpoint_are_decided_at_once() -> None:
    def steps(checkpoints: int):
        for _ in range(checkpoints):
            yield
        return Done(checkpoints)

    assert begin(steps(0)) == Done(0)
    begun = begin(steps(2))
    assert isinstance(begun, InSteps)
    assert count_steps(begun.steps) == (2, Done(2))
