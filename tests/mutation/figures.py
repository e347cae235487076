"""What mutation testing has measured, as it is kept and shown."""

from pathlib import Path

from msgspec import Struct

from tests.mutation.areas import EQUIVALENT

RESULTS = Path(__file__).parent / "results.jsonl"


class Survivor(Struct, frozen=True):
    """A mutant that no test finds: mutmut's name for it, the line that it takes out and the one that it puts in."""

    name: str
    before: str
    after: str

    @property
    def is_equivalent(self) -> bool:
        return self.after in EQUIVALENT

    def __str__(self) -> str:
        return f"{self.name}: `{self.before}` became `{self.after}`"


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
    survivors: tuple[Survivor, ...]
