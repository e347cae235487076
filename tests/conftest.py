"""What all tests share: one option, how properties are tried, that tests marked `long` run only on request, how they
are dealt to workers, and that what was run again is counted.

`-m long` or the test's own name requests them. Another mark expression (`-m "not other"`) does not.
"""

import contextlib
import gc
import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.units import UnitScheduling, rank, unit_of

# Some hundred servers and commands are started, each of which would compile all its modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.pop("PYTHONUNBUFFERED", None)  # commands write as they do for people, where it is not set
sys.dont_write_bytecode = False

# Thousands of servers are made, and each goes as a cycle: passes after each 700 objects took an eighth of a worker's time.
gc.set_threshold(10_000)

# A property may take any time on a busy machine, and the default run tries the same examples each time.
hypothesis.settings.register_profile(
    "muster", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("muster")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what scripts print into them, instead of comparing; then read it"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> UnitScheduling | None:
    return UnitScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection(session: pytest.Session) -> None:
    """Let the workers of a whole run compile different files first: each finds what the others have compiled already.

    To rewrite their asserts takes longer than all else of the collection, once in a fresh checkout.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        import_tests(session.config.rootpath, int(worker["workerid"].removeprefix("gw")), worker["workercount"])


def import_tests(root: Path, worker: int, workers: int) -> None:
    """Import all files of tests, beginning where this worker's share of them does. Collection says what cannot be."""
    files = sorted(root.glob("tests/**/test_*.py"))
    begin = len(files) * worker // workers
    for file in files[begin:] + files[:begin]:
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # a worker, whose order is that of the run
        items.sort(key=lambda item: rank(unit_of(item.nodeid, config.rootpath)))
    if asks_for_long(config.option.markexpr) or any("::" in argument for argument in config.args):
        return
    long = {item for item in items if item.get_closest_marker("long")}
    config.hook.pytest_deselected(items=[item for item in items if item in long])
    items[:] = [item for item in items if item not in long]


def asks_for_long(expression: str) -> bool:
    """Whether a mark expression (`-m`) names `long`, and does not say that it shall not be."""
    return bool(re.search(r"\blong\b", expression)) and not re.search(r"\bnot\s+long\b", expression)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what did not pass at the first time, so that nobody takes a run for cleaner than it was."""
    told = [f"run again: {report.nodeid}" for report in terminalreporter.stats.get("rerun", [])]
    terminalreporter.write_sep("=", f"{len(told)} did not pass at the first time" if told else "nothing was run again")
    for line in told:
        terminalreporter.write_line(line)
