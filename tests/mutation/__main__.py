"""Plant a sample of faults and print how many the tests find, with every fault that they miss.

    python -m tests.mutation core storage --sample 200 --seed 7

Areas are the keys of `tests.mutation.areas.AREAS`; without any, all of them. The sample is drawn by the seed from all
mutants of the area, so the same seed on the same tree tries the same mutants. mutmut makes the mutants and runs, for
each, only those tests that reach the changed function. The figures are kept in `results.jsonl`, from which
`python -m tests.campaign --page` writes docs/RELIABILITY.md. Exit code 1 when an area misses its goal.
"""

import argparse
import os
import random
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.campaign.results import current_commit
from tests.mutation.areas import AREAS, OF_OTHER_SYSTEMS
from tests.mutation.figures import RESULTS, Figures
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


def measure(name: str, sample: int, seed: int, children: int) -> Figures:
    """Try a sample of an area's mutants. Return the figures, with the mutants that no test finds."""
    area = AREAS[name]
    with tempfile.TemporaryDirectory(prefix="muster-mutation-") as directory:
        target = Path(directory)
        copy_tree(target)
        configure(target, area)
        everyone = [name for name in plant_mutants(target, children) if not name.startswith(OF_OTHER_SYSTEMS)]
        chosen = random.Random(seed).sample(everyone, min(sample, len(everyone)))
        run_mutmut(target, chosen, children)
        results = read_results(target)
        unseen = [mutant for mutant in sorted(chosen) if results[mutant] in (SURVIVED, NO_TESTS, None)]
        survivors = [survivor for mutant in unseen if not (survivor := show_mutant(target, mutant)).is_equivalent]
    tried = len(chosen) - (len(unseen) - len(survivors))
    return Figures(
        area=name,
        date=datetime.now(UTC).date().isoformat(),
        commit=current_commit(),
        seed=seed,
        mutants=len(everyone),
        tried=tried,
        found=tried - len(survivors),
        goal=area.goal,
        survivors=tuple(survivors),
    )


def main() -> int:
    """Measure the areas that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.partition("\n")[0])
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"one of {', '.join(AREAS)}; all of them by default")
    parser.add_argument("--sample", type=int, default=200, help="mutants to try in each area (default: 200)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="of the sample")
    parser.add_argument("--children", type=int, default=os.cpu_count() or 1, help="mutants to try at the same time")
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        help=f"append the figures to this file, as lines of JSON (default: {RESULTS.name} beside this program)",
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.areas) - set(AREAS):
        parser.error(f"invalid AREA {', '.join(sorted(unknown))}: expected {', '.join(AREAS)}")
    missed_goals = []
    for name in arguments.areas or AREAS:
        print(f"{name}: seed {arguments.seed}", flush=True)
        figures = measure(name, arguments.sample, arguments.seed, arguments.children)
        print(f"{name}: found {figures.found} of {figures.tried}", *figures.survivors, sep="\n  ", flush=True)
        with arguments.results.open("ab") as file:
            file.write(msgspec.json.encode(figures) + b"\n")
        if figures.found < AREAS[name].goal * figures.tried:
            missed_goals.append(name)
    return 1 if missed_goals else 0


if __name__ == "__main__":
    sys.exit(main())
