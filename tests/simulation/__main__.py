"""`python -m tests.simulation --seed 7 --histories 5`: one history a seed, a line a history."""

import argparse
import sys
import time

from tests.simulation.broken import Broken
from tests.simulation.history import ROUND_MS
from tests.simulation.history import play as play_groups
from tests.simulation.share_history import play as play_share_groups
from tests.simulation.streams_history import play as play_streams


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, default=7, help="of the first history; the next ones have the next ones")
    parser.add_argument("--histories", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1, help=f"of {ROUND_MS // 60_000} simulated minutes each")
    parser.add_argument("--streams", action="store_true", help="with members of Kafka Streams applications")
    parser.add_argument("--share-groups", action="store_true", help="of share groups, one round without --moves")
    parser.add_argument("--moves", action="store_true", help="coordinators are loaded again now and then")
    arguments = parser.parse_args()
    play = play_streams if arguments.streams else play_groups
    broken = 0
    for seed in range(arguments.seed, arguments.seed + arguments.histories):
        began = time.monotonic()
        try:
            report = (
                play_share_groups(seed)
                if arguments.share_groups
                else play(seed, arguments.rounds, has_moves=arguments.moves)
            )
        except Broken as error:
            broken += 1
            print(error)
            continue
        print(f"{report} in {time.monotonic() - began:.1f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
