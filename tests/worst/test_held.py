"""What a server holds ends in short steps: some cases on a small server. `python -m tests.worst --held` has all, and large ones."""

import pytest

from tests.worst.held import FEW, Held
from tests.worst.verbs import STEP_BYTES, STEP_S

CASES = (
    "DeleteGroups of a group",
    "DeleteGroups of a share group",
    "a member of a share group joins",
    "DeleteTopics of 3 topics",
    "a broker stops",
    "an operator forgets",
)


@pytest.fixture(scope="module")
def owner() -> Held:
    return Held(FEW)


def test_every_case_is_named_once(owner: Held) -> None:
    assert len(owner.cases()) > len(CASES)


@pytest.mark.parametrize("name", CASES)
def test_an_end_is_made_in_short_steps(owner: Held, name: str) -> None:
    (cost,) = owner.measure(name)
    assert cost.longest_s < STEP_S and cost.longest_bytes < STEP_BYTES, f"{name}: {cost}"
