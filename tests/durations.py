"""What a run of the tests takes, by folder, with the files that take most: `python -m tests.durations FILE [SECONDS]`.

FILE is what `pytest --junitxml=FILE` writes. A file is shown from SECONDS on, 8 by default.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

LEAST_SECONDS = 8.0


def items_of(report: Path) -> Iterator[tuple[str, float]]:
    """Yield the module of each test, as a path below `tests`, and its seconds with its set-up and what follows it."""
    for case in ElementTree.parse(report).iter("testcase"):
        parts = (case.get("classname") or "").split(".")
        modules = [number for number, part in enumerate(parts) if part.startswith("test_")]
        yield "/".join(parts[1 : modules[0] + 1] if modules else parts[1:]), float(case.get("time") or 0)


def table_of(items: Iterable[tuple[str, float]], least: float = LEAST_SECONDS) -> list[str]:
    """Return the lines of a table in Markdown: a line for each folder, the one that takes most first."""
    files, counts = defaultdict[str, float](float), defaultdict[str, int](int)
    for module, seconds in items:
        files[module] += seconds
        counts[_folder(module)] += 1
    folders = {folder: {one: took for one, took in files.items() if _folder(one) == folder} for folder in counts}
    lines = ["| folder | items | seconds | files that take most |", "|---|---|---|---|"]
    for folder, own in sorted(folders.items(), key=lambda one: -sum(one[1].values())):
        slow = sorted(((took, one) for one, took in own.items() if took >= least), reverse=True)
        told = ", ".join(f"`{one.rpartition('/')[2]}` {took:.0f}" for took, one in slow)
        lines.append(f"| {folder} | {counts[folder]:,} | {sum(own.values()):.0f} | {told} |")
    return [*lines, f"| all | {sum(counts.values()):,} | {sum(files.values()):.0f} | |"]


def _folder(module: str) -> str:
    return module.partition("/")[0] if "/" in module else "the top level"


if __name__ == "__main__":
    print(*table_of(items_of(Path(sys.argv[1])), *map(float, sys.argv[2:3])), sep="\n")
