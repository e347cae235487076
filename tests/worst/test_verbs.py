"""A sample of the calls of the admin port, with their largest bodies: each is answered in short steps. `python -m tests.worst --verbs` makes all of them."""

import random
from functools import partial

import pytest

from tests.worst.growth import in_a_copy
from tests.worst.server import SMALL
from tests.worst.verb_calls import calls
from tests.worst.verbs import LONG, PATHS, STEP_BYTES, STEP_S, WorstControl

SAMPLE, SEED = 8, 29
TRIES = 4  # a processor that others use as well shows more time than a step takes, and never less


@pytest.fixture(scope="module")
def control() -> WorstControl:
    return WorstControl(SMALL)


def test_every_operation_is_called_and_one_that_takes_long_says_why(control: WorstControl) -> None:
    operations = control.operations
    called = {(call.method, call.operation) for call in calls(operations, PATHS)}
    assert called >= {(one.method, one.path) for one in operations}
    assert set(LONG) <= called


@pytest.mark.parametrize("number", range(SAMPLE))
def test_a_call_is_answered_in_short_steps(control: WorstControl, number: int) -> None:
    found = [call for call in calls(control.operations, PATHS) if (call.method, call.operation) not in LONG]
    call = random.Random(SEED).sample(found, SAMPLE)[number]
    for _ in range(TRIES):
        cost, status, beats = in_a_copy(partial(control.measure, call))
        assert status and status != 500, call.name
        assert beats, "a member sends heartbeats meanwhile"
        if cost.longest_s < STEP_S:
            break
    assert cost.longest_s < STEP_S and cost.longest_bytes < STEP_BYTES, f"{call.name}: {cost}"


def test_a_name_that_nothing_can_have_is_refused(control: WorstControl) -> None:
    found = [call for call in calls(control.operations) if call.name.startswith("POST /v1/wait g0 group x ")]
    assert [in_a_copy(partial(control.measure, call))[1] for call in found] == [400], "32,767 characters at most"
