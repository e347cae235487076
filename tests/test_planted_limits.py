"""The mistakes that `python -m tests.mutation.limits` plants are of lines that are there, and of tests that are."""

import pytest

from tests.mutation.all_parts import FIFTH, SIXTH
from tests.mutation.drawn_modules import EIGHTH, ELEVENTH, NINTH, TENTH, THIRTEENTH, TWELFTH
from tests.mutation.limits import MISTAKES, ROOT, Mistake, choose_tests, find_place
from tests.mutation.new_code import FAULTS
from tests.mutation.siblings import SIBLINGS
from tests.mutation.where_features_meet import SEVENTH

OF_ALL_PARTS = (*FIFTH, *SIXTH, *SEVENTH, *EIGHTH, *NINTH, *TENTH, *ELEVENTH, *TWELFTH, *THIRTEENTH)
ALL = (
    *MISTAKES,
    *(Mistake(*fault[:5]) for fault in (*FAULTS, *SIBLINGS)),
    *(choose_tests(fault, "now") for fault in OF_ALL_PARTS),
)


@pytest.mark.parametrize("mistake", ALL, ids=[mistake.what for mistake in ALL])
def test_a_planted_mistake_has_its_line_and_its_tests(mistake: Mistake) -> None:
    text = find_place(mistake)
    assert text.replace(mistake.line, mistake.instead) != text
    assert all((ROOT / test).is_file() for test in mistake.tests)


def test_mistakes_are_many_and_different() -> None:
    assert len({mistake.what for mistake in ALL}) == len(ALL) >= 40


def test_selections_are_there_and_what_the_nearest_tests_have_found_they_find_now() -> None:
    for fault in OF_ALL_PARTS:
        assert all((ROOT / test).exists() for test in (*fault.nearest, *fault.default))
        assert not fault.was_found or fault.tests == fault.nearest, fault.what
