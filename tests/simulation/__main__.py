"""`python -m tests.simulation --seed 7 --hours 24 --days 5`: one day a seed, a line a day."""

import argparse
import sys
import time

from tests.simulation.day import Day
from tests.simulation.promises import Broken


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, default=7, help="of the first day; the next days have the next ones")
    parser.add_argument("--hours", type=int, default=24, help="of a day")
    parser.add_argument("--days", type=int, default=1)
    arguments = parser.parse_args()
    broken = 0
    for seed in range(arguments.seed, arguments.seed + arguments.days):
        began = time.monotonic()
        try:
            report = Day(seed, arguments.hours).play()
        except Broken as error:
            broken += 1
            print(f"seed {seed}: {error}")
            continue
        print(f"{report} in {time.monotonic() - began:.1f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
