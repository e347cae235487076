"""Tests that share what a module or a group sets up are run by one worker."""

from pathlib import Path

import pytest

from tests.units import LONGEST, rank, unit_of

ROOT = Path(__file__).parents[1]
MARKED = """
import pytest
@pytest.mark.long
@pytest.mark.xdist_group("spark")
def test_with_spark(): ...
async def test_other(): ...
"""


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("def test_with_spark(): ...", "test_it.py"),
        (MARKED, "spark"),
        ('pytestmark = pytest.mark.xdist_group("install")', "install"),
        ('pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]', "spark"),
        (MARKED + 'pytestmark = pytest.mark.xdist_group("install")', "spark"),
    ],
)
def test_a_test_is_of_its_group_or_of_its_file(text: str, unit: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(text)
    assert unit_of("test_it.py::test_with_spark[a@b]", tmp_path) == unit
    assert unit_of("test_it.py::TestIt::test_other", tmp_path) in ("test_it.py", "install", "spark")


def test_what_is_not_marked_is_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(MARKED)
    assert unit_of("test_it.py::test_other[with_spark]", tmp_path) == "test_it.py"


def test_every_test_that_takes_the_session_is_run_where_the_session_is(request: pytest.FixtureRequest) -> None:
    """Of those that this run has found, which may be a few."""
    for item in request.session.items:
        if "shared_session" in getattr(item, "fixturenames", ()):
            assert unit_of(item.nodeid, ROOT) == "spark", item.nodeid


def test_the_longest_units_begin_first() -> None:
    assert [rank(unit) for unit in (*LONGEST, "tests/test_units.py")] == list(range(len(LONGEST) + 1))
