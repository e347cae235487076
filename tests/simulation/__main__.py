"""`python -m tests.simulation --seed 7 --histories 5`: one history a seed, a line a history."""

import argparse
import sys
import time

from tests.simulation.history import ROUND_MS, play
from tests.simulation.promises import Broken


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, default=7, help="of the first history; the next ones have the next ones")
    parser.add_argument("--histories", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1, help=f"of {ROUND_MS // 60_000} simulated minutes each")
    arguments = parser.parse_args()
    broken = 0
    for seed in range(arguments.seed, arguments.seed + arguments.histories):
        began = time.monotonic()
        try:
            report = play(seed, arguments.rounds)
        except Broken as error:
            broken += 1
            print(error)
            continue
        print(f"{report} in {time.monotonic() - began:.1f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
