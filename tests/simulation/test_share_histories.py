"""Simulated quarters of an hour of share groups: the promises hold, can fail, and a seed is a seed."""

from functools import cache

import pytest

from tests.mistakes import Plant
from tests.simulation.broken import Broken
from tests.simulation.share_history import ShareReport, play
from tests.simulation.share_mutants import SHARE_MUTANTS

FOUND = (2, 132, 159)
"""Seeds that broke a promise once. 2: a closed partition was told as a failure of the server. 132: a share partition was
forgotten while what its members had acquired could not be released. 159: a state that was there was begun anew after a
power cut."""
TRIES = 25


@cache
def played(seed: int) -> ShareReport:
    """Return what a history was made of, played once for all tests."""
    return play(seed)


@pytest.mark.rule("H-201 H-206 H-207 H-210 H-238")
@pytest.mark.parametrize("seed", [1, 5, *(pytest.param(seed, marks=pytest.mark.long) for seed in FOUND)])
def test_a_history_of_share_groups_keeps_all_promises(seed: int) -> None:
    report = played(seed)
    assert report.delivered > 500
    assert report.redelivered > 100


def test_a_seed_of_share_groups_writes_the_same_logs_again() -> None:
    assert play(1) == played(1)


@pytest.mark.long
@pytest.mark.parametrize("plant", SHARE_MUTANTS.values(), ids=SHARE_MUTANTS)
def test_a_mistake_breaks_a_promise_of_share_groups(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(1, 1 + TRIES):
        try:
            play(seed)
        except Broken:
            return
    pytest.fail(f"{plant.__doc__} No promise was broken in {TRIES} histories.")


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(1_000, 1_500, 50))
def test_a_hundred_hours_of_share_groups(first: int) -> None:
    for seed in range(first, first + 50):
        play(seed)
