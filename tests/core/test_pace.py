"""Between two checkpoints lies as much work as may, and no more."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.decision import Steps
from coordinator.core.pace import CHARACTERS_A_UNIT, UNITS, chain_steps, map_in_steps, name_units
from tests.steps import count_steps


@given(units=st.lists(st.integers(1, 2 * UNITS), max_size=200), is_counted=st.booleans())
def test_between_two_checkpoints_there_are_so_many_units(units: list[int], is_counted: bool) -> None:
    """However the work is spread over the entries: the last one alone may exceed them."""
    parts: list[list[int]] = [[]]

    def do(at: int) -> int:
        parts[-1].append(units[at] if is_counted else 1)
        return at

    def run() -> Steps[Any]:
        steps = map_in_steps(range(len(units)), do, (lambda at: units[at]) if is_counted else None)
        found = yield from note_checkpoints(steps, parts)
        assert found == list(range(len(units))), "each once, in order"

    count_steps(run())
    assert all(sum(part[1:]) < UNITS for part in parts)
    assert all(sum(part) + following[0] >= UNITS for part, following in pairwise(parts))


def note_checkpoints(steps: Steps[Any], parts: list[list[int]]) -> Steps[Any]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        parts.append([])
        yield


@pytest.mark.parametrize("entries", [0, 1, UNITS - 1, UNITS, 10 * UNITS])
def test_entries_with_checkpoints_of_their_own_have_some_between_them(entries: int) -> None:
    def do(number: int) -> Steps[int]:
        yield
        return number

    steps, found = count_steps(chain_steps(range(entries), do))
    assert (steps, found) == (1 + entries + entries // UNITS, list(range(entries)))


def test_a_long_name_is_more_work() -> None:
    assert [name_units(name) for name in (None, "", "a", "a" * CHARACTERS_A_UNIT)] == [1, 1, 1, 2]
