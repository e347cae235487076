"""Sequences of random valid requests: a sample of what `python -m tests.simulation.fuzz` plays."""

from typing import Any

import pytest

from coordinator.runtime import router
from tests.simulation.broken import Broken
from tests.simulation.fuzz import REQUESTS, fuzz

SEQUENCES = 50  # about 7 s of CPU; `python -m tests.campaign` plays thousands


def fuzz_all(seeds: range) -> None:
    for seed in seeds:
        assert fuzz(seed)["requests"] > REQUESTS / 2


@pytest.mark.parametrize("first", range(1, 1 + SEQUENCES, 10))
def test_random_valid_requests_break_no_promise(first: int) -> None:
    fuzz_all(range(first, first + 10))


def test_a_seed_plays_the_same_sequence_again() -> None:
    assert fuzz(3) == fuzz(3)


def test_a_failure_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setitem(router.HANDLERS, "DescribeGroups", fail)
    with pytest.raises(Broken, match="no internal error"):
        fuzz_all(range(10))


def test_a_record_that_is_not_written_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offsets of a commit are in memory and not in the log."""
    monkeypatch.setattr("coordinator.runtime.partition.write_records", lambda *_: (b"", 0))
    with pytest.raises(Broken, match="seed"):
        fuzz_all(range(10))
