"""Plant a sample of faults and print how many the tests find, with every fault that they miss.

    python -m tests.mutation core storage --sample 200 --seed 7 --results mutation.jsonl

Areas are the keys of `tests.mutation.areas.AREAS`; without any, all of them. The sample is drawn by the seed from all
mutants of the area, so the same seed on the same tree tries the same mutants. mutmut makes the mutants and runs, for
each, only those tests that reach the changed function. Exit code 1 when an area misses its goal.
"""

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.mutation.areas import AREAS
from tests.mutation.workspace import (
    NO_TESTS,
    SURVIVED,
    configure,
    copy_tree,
    plant_mutants,
    read_results,
    run_mutmut,
    show_mutant,
)


class Figures(Struct, frozen=True, tag="mutation", tag_field="kind"):
    """What one run has measured."""

    area: str
    seed: int
    mutants: int  # of the whole area
    tried: int
    found: int
    goal: float
    missed: tuple[str, ...]  # the mutants that no test finds, by mutmut's names


def measure(name: str, sample: int, seed: int, children: int) -> Figures:
    """Try a sample of an area's mutants. Return the figures, with the names of the mutants that no test finds."""
    area = AREAS[name]
    with tempfile.TemporaryDirectory(prefix="muster-mutation-") as directory:
        target = Path(directory)
        copy_tree(target)
        configure(target, area)
        everyone = plant_mutants(target, children)
        chosen = random.Random(seed).sample(everyone, min(sample, len(everyone)))
        run_mutmut(target, chosen, children)
        results = read_results(target)
        missed = sorted(mutant for mutant in chosen if results[mutant] in (SURVIVED, NO_TESTS, None))
        for mutant in missed:
            print(show_mutant(target, mutant), flush=True)
    found = len(chosen) - len(missed)
    return Figures(name, seed, len(everyone), len(chosen), found, area.goal, tuple(missed))


def main() -> int:
    """Measure the areas that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.partition("\n")[0])
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"one of {', '.join(AREAS)}; all of them by default")
    parser.add_argument("--sample", type=int, default=200, help="mutants to try in each area (default: 200)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="of the sample")
    parser.add_argument("--children", type=int, default=os.cpu_count() or 1, help="mutants to try at the same time")
    parser.add_argument("--results", type=Path, help="append the figures to this file, as lines of JSON")
    arguments = parser.parse_args()
    if unknown := set(arguments.areas) - set(AREAS):
        parser.error(f"invalid AREA {', '.join(sorted(unknown))}: expected {', '.join(AREAS)}")
    missed_goals = []
    for name in arguments.areas or AREAS:
        print(f"{name}: seed {arguments.seed}", flush=True)
        figures = measure(name, arguments.sample, arguments.seed, arguments.children)
        print(f"{name}: found {figures.found} of {figures.tried}", *figures.missed, sep="\n  ", flush=True)
        if arguments.results:
            with arguments.results.open("a") as file:
                file.write(msgspec.json.encode(figures).decode() + "\n")
        if figures.found < AREAS[name].goal * figures.tried:
            missed_goals.append(name)
    return 1 if missed_goals else 0


if __name__ == "__main__":
    sys.exit(main())
