"""Campaigns that take minutes run when they are asked for, and not because something else is."""

import pytest

from tests.conftest import asks_for_long


@pytest.mark.parametrize("expression", ["long", "long and not other", "other or long", "(long)"])
def test_long_tests_are_asked_for(expression: str) -> None:
    assert asks_for_long(expression)


@pytest.mark.parametrize("expression", ["", "not other", "other", "not long", "other and not  long", "longer"])
def test_other_expressions_do_not_ask_for_them(expression: str) -> None:
    assert not asks_for_long(expression)
