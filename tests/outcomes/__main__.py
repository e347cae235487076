"""Print in which ways conditions, comparisons and loops of the product never come out while tests run.

    python -m tests.outcomes [--only PATH] [--keep FOLDER] [arguments of pytest]

An `if` that is always true, a comparison whose sides are never equal, a loop that never goes around twice: whatever is
wrong there, no test can find it. Without arguments for pytest this is the default run. All processes that tests start
are seen, but for those with an environment of their own, and Muster as it is installed from a wheel; loops that are
compiled are left out. Tests that measure may fail, as everything takes longer.
"""

import argparse
import ast
import marshal
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.outcomes.hook.sitecustomize import name_code
from tests.outcomes.instrument import RUN, Instrument, Point

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("muster", "coordinator", "protocol", "storage", "pipeline", "pytest-muster/src")
HOOK: Final = Path(__file__).parent / "hook"


def find_modules() -> list[Path]:
    """Return the product's modules."""
    return sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*.py"))


def instrument(modules: Iterable[Path], folder: Path) -> list[Point]:
    """Write the code of modules with the calls in it, and room for what is seen. Return the places."""
    (folder / "code").mkdir(parents=True, exist_ok=True)
    points: list[Point] = []
    size = 0
    for path in modules:
        one = Instrument(str(path.relative_to(ROOT)), size)
        tree = ast.fix_missing_locations(one.visit(ast.parse(path.read_text("utf-8"))))
        code = compile(tree, str(path), "exec", dont_inherit=True)
        (folder / "code" / name_code(path)).write_bytes(marshal.dumps(code))
        points += one.points
        size = one.next
    room = folder / "seen"
    if not room.exists() or room.stat().st_size != size:
        room.write_bytes(bytes(size))
    return points


def use_hook(folder: Path) -> dict[str, str]:
    """Return an environment in which processes run what was instrumented. pytest would compile its plugins anew."""
    path = os.pathsep.join(filter(None, (str(HOOK), os.environ.get("PYTHONPATH"))))
    options = " ".join(filter(None, ("--assert=plain", os.environ.get("PYTEST_ADDOPTS"))))
    return {**os.environ, "MUSTER_OUTCOMES": str(folder), "PYTHONPATH": path, "PYTEST_ADDOPTS": options}


def tell_missing(points: Iterable[Point], seen: bytes) -> Iterator[str]:
    """Yield a line for each place of which an outcome was not seen; one for a function that never ran."""
    idle = ""
    for point in points:
        missing, within = point.list_missing(seen), f"{point.path} {point.function}"
        if not missing or (idle and within.startswith(idle)):
            continue
        if point.outcomes == RUN and point.text.startswith("def "):
            idle = within
        yield f"{point.path}:{point.line} {point.function}: never {', '.join(missing)}: {point.text}"


def main() -> int:
    """Run tests with what was instrumented, and print what they did not see."""
    parser = argparse.ArgumentParser(prog="python -m tests.outcomes", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="PATH", help="tell of files only whose paths begin so")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where to note what is seen, beside what is there")
    arguments, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.keep or Path(scratch)).resolve()
        points = instrument(find_modules(), folder)
        done = subprocess.run([sys.executable, "-m", "pytest", *rest], cwd=ROOT, env=use_hook(folder))
        seen = (folder / "seen").read_bytes()
    shown = [point for point in points if point.path.startswith(arguments.only)]
    lines = [*tell_missing(shown, seen)]
    print(*lines, f"{len(lines)} of {len(shown)} places have an outcome that was not seen", sep="\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
