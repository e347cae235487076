"""A copy of the tree in which mutmut plants its mutants, so that the checkout stays as it is."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.mutation.areas import Area
from tests.mutation.figures import Survivor

PACKAGES = ("coordinator", "protocol", "storage", "pipeline")
ROOT = Path(__file__).parents[2]
TEST_TIMEOUT_S = (
    3600  # a busy machine may be slow; a mutant that loops for ever is found by mutmut, which knows each test's time
)
HOURS_AT_MOST = 4
MUTMUT = (sys.executable, "-c", "import sys; sys.argv[0] = 'mutmut'; from mutmut.__main__ import cli; cli()")

# The exit codes that mutmut stores for a mutant.
SURVIVED, NO_TESTS = 0, 33


def copy_tree(target: Path) -> None:
    """Copy every file that git tracks, as it is in the working tree."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in map(os.fsdecode, filter(None, names)):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def configure(target: Path, area: Area) -> None:
    """Write mutmut's settings into the copy's pyproject.toml."""
    arguments = ["-n", "0", "-m", "not long", "-p", "no:cacheprovider", f"--timeout={TEST_TIMEOUT_S}"]
    settings: dict[str, object] = {
        "source_paths": list(PACKAGES),
        "only_mutate": list(area.only_mutate),
        "also_copy": ["docs", "benchmarks", "deploy", "README.md", "CHANGELOG.md", "Dockerfile"],
        "pytest_add_cli_args": [*arguments, *(f"--ignore={path}" for path in area.ignored)],
        "pytest_add_cli_args_test_selection": list(area.tests),
        "timeout_multiplier": 3.0,  # a test that loops for ever is found when it takes that many times as long
        "timeout_constant": 60.0,
        "track_dependencies": False,
        "use_git_change_detection": False,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    with (target / "pyproject.toml").open("a") as file:
        file.write("\n[tool.mutmut]\n" + "\n".join(lines) + "\n")


def plant_mutants(target: Path, children: int) -> list[str]:
    """Make all mutants of the copy, and let mutmut note which tests reach which function. Return their names.

    mutmut has no command for this alone: it is what `run` does before it looks for the mutants that it was asked for.
    """
    run_mutmut(target, ["no.such.mutant"], children, check=False)
    if not (target / "mutants" / "mutmut-stats.json").exists():
        raise SystemExit("the tests fail without any mutant:\n" + (target / "mutmut.log").read_text()[-3000:])
    return sorted(read_results(target))


def run_mutmut(target: Path, mutants: Iterable[str], children: int, *, check: bool = True) -> None:
    """Run mutmut on some mutants of the copy. Raises CalledProcessError when the tests fail without any mutant."""
    command = [*MUTMUT, "run", "--max-children", str(children), *mutants]
    with (target / "mutmut.log").open("ab") as output:
        subprocess.run(command, cwd=target, stdout=output, stderr=output, check=check, timeout=HOURS_AT_MOST * 3600)


def read_results(target: Path) -> Mapping[str, int | None]:
    """Return the exit code of each mutant that exists, None for one that was not tried."""
    results: dict[str, int | None] = {}
    for path in sorted((target / "mutants").rglob("*.meta")):
        results |= json.loads(path.read_text())["exit_code_by_key"]
    return results


def show_mutant(target: Path, mutant: str) -> Survivor:
    """Return what a mutant changes. mutmut shows it as a diff."""
    command = [*MUTMUT, "show", mutant]
    diff = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False).stdout.splitlines()
    before, after = (
        " ".join(line[1:].strip() for line in diff if line.startswith(sign) and not line.startswith(sign * 3))
        for sign in "-+"
    )
    return Survivor(mutant, before, after)
