"""Instrumented code does what it did, and notes what came of its conditions and loops."""

import ast
import builtins
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outcomes.__main__ import ROOT, find_modules, instrument, tell_missing, use_hook
from tests.outcomes.hook.sitecustomize import Outcomes
from tests.outcomes.instrument import Instrument

SAMPLE = '''
def choose(numbers, least, skip=None):
    """Return the sums of some numbers."""
    found = [number for number in numbers if number >= least and not number == skip]
    for number in found:
        try:
            total = 10 / number
        except ZeroDivisionError:
            return None
        match number:
            case 1:
                return "one"
            case _ if number > 5:
                return "more"
    return skip or ("none" if not found else total)

def idle(numbers):
    for number in numbers:
        while number:
            number -= 1
'''
CALLS = [([], 1), ([3, 4], 3, 4), ([0], 0), ([1, 2], 1), ([9], 1), ([2], 1), ([7, 8], 9, 7), ([3, 4], 3)]


def run_instrumented(
    monkeypatch: pytest.MonkeyPatch, calls: list[tuple[object, ...]]
) -> tuple[list[object], list[str]]:
    """Return what calls give, and what was not seen."""
    one = Instrument("sample.py", 0)
    tree = ast.fix_missing_locations(one.visit(ast.parse(SAMPLE)))
    seen = bytearray(one.next)
    with monkeypatch.context() as patch:  # no longer: pytest's plugin of ours may be instrumented as well
        patch.setattr(builtins, "muster_outcomes", Outcomes(seen), raising=False)
        names: dict[str, object] = {}
        exec(compile(tree, "sample.py", "exec"), names)
        given = [names["choose"](*call) for call in calls]
    return given, [line.partition(": ")[2] for line in tell_missing(one.points, seen)]


def test_it_gives_the_same_and_tells_what_was_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {}
    exec(SAMPLE, names)
    given, missing = run_instrumented(monkeypatch, CALLS)
    assert given == [names["choose"](*call) for call in CALLS]
    assert missing == ["never equal: number > 5", "never run: def idle"]


@pytest.mark.parametrize(
    ("left_out", "line"),
    [
        (0, "never empty: for number in numbers"),
        (1, "never true: number == skip"),
        (2, "never run: except ZeroDivisionError"),
        (3, "never run: case 1"),
        (4, "never true: number > 5"),
    ],
)
def test_what_one_call_alone_reaches_is_told_without_it(
    left_out: int, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, missing = run_instrumented(monkeypatch, [call for number, call in enumerate(CALLS) if number != left_out])
    assert line in [one.replace(", equal", "") for one in missing]


def test_every_module_can_be_instrumented_and_each_outcome_has_a_byte_of_its_own() -> None:
    first = 0
    for path in find_modules():
        one = Instrument(str(path), first)
        compile(ast.fix_missing_locations(one.visit(ast.parse(path.read_text("utf-8")))), str(path), "exec")
        for point in one.points:
            assert point.first == first
            first += len(point.outcomes)
        assert one.next == first


def test_other_processes_note_what_they_see_in_the_same_place(tmp_path: Path) -> None:
    points = instrument([ROOT / "coordinator" / "core" / "pace.py"], tmp_path)
    program = "from coordinator.core.pace import Pace; Pace().is_due()"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=use_hook(tmp_path), check=True)
    seen = (tmp_path / "seen").read_bytes()
    missing = {point.function for point in points if "run" in point.list_missing(seen)}
    assert "Pace.is_due" not in missing and "map_in_steps" in missing
