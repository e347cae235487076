"""Sixty hours of groups in a run; the promises hold, can fail, and a seed is a seed."""

import re

import pytest

from coordinator.core.shard import Shard
from tests.simulation.day import Day
from tests.simulation.mutants import MUTANTS
from tests.simulation.promises import Broken

HOURS, SEEDS = 6, range(1, 11)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_day_keeps_all_promises(seed: int) -> None:
    report = Day(seed, HOURS).play()
    assert report.faults > 20
    assert report.generations > 5


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mistake_breaks_its_promise(mutant: type[Shard]) -> None:
    broken = []
    for seed in range(1, 13):
        try:
            Day(seed, 1, mutant).play()
        except Broken as error:
            broken.append(str(error))
            if re.search(MUTANTS[mutant], str(error)):
                return
    pytest.fail(f"{mutant.__doc__} Nobody noticed; broken were {broken}")


def test_a_seed_writes_the_same_log_again() -> None:
    """R8."""
    assert Day(5, 2).play() == Day(5, 2).play()
    assert Day(5, 2).play().log != Day(6, 2).play().log


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(1000, 1200, 10))
def test_two_hundred_days(first: int) -> None:
    for seed in range(first, first + 10):
        Day(seed, 24).play()
