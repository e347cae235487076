"""How the tests are dealt to the workers of a run: a file at a time, or a group of files, and the longest first.

Of three workers one takes the units that wait, so that the others always have something to do.

A file's tests stay together because they share what a module sets up: a server, a Spark session, wheels. Several files
with the mark `xdist_group` are one unit, and so is one test with that mark with the files of its group. Only a worker
sees marks, and the deal is made outside of them, so that the mark is read from the source; xdist's own way, to add the
group to a test's id, has had no effect since pytest 9.2.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

LONGEST: Final = (
    "spark",
    "install",
    "tests/pipeline/test_cluster.py",
    "tests/server/test_locked_crowd.py",
    "tests/simulation/test_simulation.py",
    "tests/worst/test_worst.py",
)
"""Units that take long begin first, so that no worker is left alone with one at the end."""

WAITING: Final = (
    "security",
    "tests/compat/",
    "tests/server/test_locked_crowd.py",
    "tests/server/test_neighbours.py",
)
"""Units, or folders of them, that mostly wait: for timers of released clients, and until a server sweeps."""

WAITER: Final = 2
"""The worker, of each three, that takes what waits as long as there is any: two of them keep two cores busy."""


def rank(unit: str) -> int:
    """Return where a unit stands in the order of the run: those that are not long stay as they were found."""
    return LONGEST.index(unit) if unit in LONGEST else len(LONGEST)


class UnitScheduling(LoadScopeScheduling):
    """Deal units of tests to the workers."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # by the number of tests, which says nothing of their time

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid, self.config.rootpath)

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(choose(self.workqueue, node.gateway.id, len(self.nodes)), last=False)
        super()._assign_work_unit(node)


def choose(units: Iterable[str], worker: str, workers: int) -> str:
    """Return the unit that a worker (`gw2`) takes next: the first of its kind, or the first one.

    With one worker or two, nobody is there for what waits alone, and all units are of one kind.
    """
    units = list(units)
    takes_waiting = int(worker.removeprefix("gw")) % (WAITER + 1) == WAITER
    own = (unit for unit in units if unit.startswith(WAITING) == takes_waiting)
    return next(own, units[0]) if workers > WAITER else units[0]


def unit_of(nodeid: str, root: Path) -> str:
    """Return the group of a test, or its file."""
    path, _, rest = nodeid.partition("::")
    groups = groups_in(root / path)
    return groups.get(rest.partition("[")[0], groups.get("", path))


@cache
def groups_in(path: Path) -> Mapping[str, str]:
    """Return the groups of a file's tests by their names, and by "" that of all of them."""
    text = path.read_text("utf-8")
    return dict(_groups(ast.parse(text))) if "xdist_group" in text else {}


def _groups(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name("pytestmark")], value=marks):
                name, where = "", [marks]
            case (
                ast.FunctionDef(name=name, decorator_list=where) | ast.AsyncFunctionDef(name=name, decorator_list=where)
            ):
                pass
            case _:
                continue
        for call in (inner for one in where for inner in ast.walk(one)):
            match call:
                case ast.Call(func=ast.Attribute(attr="xdist_group"), args=[ast.Constant(str(group))]):
                    yield name, group
