"""Simulated hours of a node with applications of Kafka Streams: the promises hold, and can fail."""

import pytest

from tests.mistakes import Plant
from tests.simulation.broken import Broken
from tests.simulation.streams_history import play
from tests.simulation.streams_mutants import MUTANTS

TRIES = 20


@pytest.mark.rule("S-016")
@pytest.mark.parametrize("seed", [2, 3, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 4))])
def test_a_history_keeps_all_promises(seed: int) -> None:
    report = play(seed, has_moves=seed % 3 == 0)
    assert report.requests > 500
    assert report.replays > 40


@pytest.mark.long
@pytest.mark.parametrize("plant", MUTANTS.values(), ids=MUTANTS)
def test_a_mistake_breaks_a_promise(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """This is about the promises alone, so it is no part of the default run."""
    plant(monkeypatch)
    for seed in range(1, 1 + TRIES):
        try:
            play(seed, has_moves=seed % 3 == 0)
        except Broken:
            return
    pytest.fail(f"{plant.__doc__} No promise was broken in {TRIES} histories.")


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(1000, 1600, 30))
def test_two_hundred_hours(first: int) -> None:
    for seed in range(first, first + 30):
        play(seed, has_moves=seed % 3 == 0)
