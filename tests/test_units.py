"""Tests that share what a module or a group sets up are run by one worker."""

from pathlib import Path

import pytest

from tests.units import LONGEST, WAITING, choose, rank, unit_of

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


def test_of_three_workers_one_takes_what_waits_as_long_as_there_is_any() -> None:
    units = ["spark", "tests/compat/test_a.py", "tests/core/test_b.py", "security"]
    dealt = {worker: [] for worker in ("gw0", "gw1", "gw2", "gw3")}
    left = list(units)
    for worker in ("gw2", "gw0", "gw2", "gw1"):
        dealt[worker].append(choose(left, worker, 3))
        left.remove(dealt[worker][-1])
    assert dealt["gw2"] == ["tests/compat/test_a.py", "security"]
    assert dealt["gw0"] + dealt["gw1"] == ["spark", "tests/core/test_b.py"]


def test_a_worker_without_units_of_its_kind_takes_the_first() -> None:
    assert choose(["tests/compat/test_a.py", "security"], "gw0", 3) == "tests/compat/test_a.py"
    assert choose(["spark", "tests/core/test_b.py"], "gw5", 6) == "spark"


def test_two_workers_take_units_in_their_order() -> None:
    assert choose(["tests/compat/test_a.py", "spark"], "gw0", 2) == "tests/compat/test_a.py"


def test_what_waits_is_there() -> None:
    """A folder or file that was renamed would be dealt as if it did not wait."""
    for name in WAITING:
        assert name == "security" or (ROOT / name).exists(), name
