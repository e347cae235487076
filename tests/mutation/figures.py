"""What mutation testing has measured, as it is kept and shown."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

RESULTS = Path(__file__).parent / "results.jsonl"
SHOWN = 6  # samples of each area, on the page


class Mutant(Struct, frozen=True):
    """A fault: where it is, the line that it takes out and the one that it puts in."""

    path: str
    line: int
    function: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} `{self.function}`: `{self.before}` became `{self.after}`"


class Figures(Struct, frozen=True):
    """What one run has measured in one area. Mutants that change nothing are not counted as tried."""

    area: str
    date: str
    commit: str
    seed: int
    mutants: int  # of the whole area
    tried: int
    found: int
    goal: float
    survivors: tuple[Mutant, ...]
    at_first: tuple[int, int] | None = None  # found and tried by a run before, of which nothing else was kept

    @property
    def unseen(self) -> str:
        """Say what was found before tests were written for what this sample missed, if this is its first run."""
        return format_share(*(self.at_first or (self.found, self.tried)))


def format_share(found: int, tried: int) -> str:
    return f"{found:,} of {tried:,} ({found / tried:.0%})"


def choose_samples(results: Iterable[Figures]) -> list[tuple[Figures, Figures]]:
    """Return the first and the last run of each area's latest samples, a sample being what one seed draws."""
    runs: dict[tuple[str, int], list[Figures]] = {}
    for one in results:
        runs.setdefault((one.area, one.seed), []).append(one)
    areas: dict[str, list[tuple[Figures, Figures]]] = {}
    for (area, _), sample in runs.items():
        areas.setdefault(area, []).append((sample[0], sample[-1]))
    return [sample for _, samples in sorted(areas.items()) for sample in samples[-SHOWN:]]
