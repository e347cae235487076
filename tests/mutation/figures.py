"""What mutation testing has measured, as it is kept and shown."""

from pathlib import Path

from msgspec import Struct

from tests.mutation.mutants import Mutant

RESULTS = Path(__file__).parent / "results.jsonl"


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
    at_first: tuple[int, int] | None = None  # found and tried before tests were written for what this sample missed
