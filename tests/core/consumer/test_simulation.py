"""Fifty simulated hours of mixed groups, and the same story twice."""

import pytest

from tests.core.consumer.simulation import Story

HOURS_EACH = 5


@pytest.mark.parametrize("seed", range(10))
def test_hours_of_a_mixed_group(seed: int) -> None:
    """Safety after every change, settling twice an hour, and enough that happened; `python -m` runs any seed longer."""
    story = Story(seed)
    story.live(HOURS_EACH)
    for what in ("member_joined", "session_expired", "assignment_computed", "restarts", "member_reconciled"):
        assert story.happened[what] >= 3, what


def test_a_seed_is_a_story() -> None:
    """The same log to the last record."""
    one, two = Story(3), Story(3)
    one.live(1)
    two.live(1)
    assert one.fingerprint == two.fingerprint and len(one.log) > 50
    other = Story(4)
    other.live(1)
    assert other.fingerprint != one.fingerprint
