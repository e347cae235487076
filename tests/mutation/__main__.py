"""Plant a sample of faults and print how many the tests find, with every fault that they miss.

    python -m tests.mutation core storage --sample 200 --seeds 7 8
    python -m tests.mutation core --operators slips --sample 200

mutmut's operators change a name, a number or a sign; slips (`tests/mutation/slips.py`) are what a reviewer looks for.
Areas are the keys of `tests.mutation.areas.AREAS`; without any, all of them. The area's tests run once to record which
of them reach which line; against each mutant those run that reach it, until one fails. The figures are kept in
`results.jsonl`, from which `python -m tests.campaign --page` writes docs/RELIABILITY.md. Exit code 1 when an area
misses its goal.
"""

import argparse
import random
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from tests.campaign.results import current_commit
from tests.mutation.areas import AREAS
from tests.mutation.figures import RESULTS, Figures, Mutant
from tests.mutation.mutants import draw, find_candidates, find_slips
from tests.mutation.trials import Trials

OPERATORS: Final = {"mutmut": find_candidates, "slips": find_slips}


def measure(name: str, operators: str, sample: int, seeds: Iterable[int], results: Path) -> bool:
    """Try a sample of an area's mutants for each seed, and append the figures to a file. Return whether they suffice."""
    area, commit = AREAS[name], current_commit()
    shares: list[float] = []

    def try_mutants(trials: Trials) -> None:
        candidates = list(OPERATORS[operators](area.folders))
        samples = {seed: draw(candidates, sample, seed) for seed in seeds}
        trials.record([*chain.from_iterable(samples.values())])
        for seed, tried in samples.items():
            survivors = [report(one.mutant) for one in tried if not trials.is_found(one)]
            figures = Figures(
                area=name if operators == "mutmut" else f"{name}, {operators}",
                date=datetime.now(UTC).date().isoformat(),
                commit=commit,
                seed=seed,
                mutants=len(candidates),
                tried=len(tried),
                found=len(tried) - len(survivors),
                goal=area.goal,
                survivors=tuple(survivors),
            )
            print(f"{name}: seed {seed}: found {figures.found} of {figures.tried}", flush=True)
            with results.open("ab") as file:
                file.write(msgspec.json.encode(figures) + b"\n")

            shares.append(figures.found / figures.tried)

    Trials(area, try_mutants)
    return min(shares) >= area.goal


def report(survivor: Mutant) -> Mutant:
    print(f"  not found: {survivor}", flush=True)
    return survivor


def main() -> int:
    """Measure the areas that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.partition("\n")[0])
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"one of {', '.join(AREAS)}; all of them by default")
    parser.add_argument(
        "--operators", choices=OPERATORS, default="mutmut", help="mutmut's, or slips of a programmer (default: mutmut)"
    )
    parser.add_argument("--sample", type=int, default=200, help="mutants to try for each area and seed (default: 200)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[random.SystemRandom().randrange(1 << 32)])
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        help=f"append the figures to this file, as lines of JSON (default: {RESULTS.name} beside this program)",
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.areas) - set(AREAS):
        parser.error(f"invalid AREA {', '.join(sorted(unknown))}: expected {', '.join(AREAS)}")
    names = arguments.areas or AREAS
    reached = [
        measure(name, arguments.operators, arguments.sample, arguments.seeds, arguments.results) for name in names
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
