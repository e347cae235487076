"""What the largest request of each shape costs: the longest thing that nothing can interrupt, and memory.

    python -m tests.worst [--only TEXT] [--sample N --seed S] [--small] [--part K/N] [--acls N] [--all] [--queues] [--verbs [--groups N]]
                          [--held]

Prints each shape that takes more than 50 ms of processor time at once, or 16 MiB, or 256 MiB in all; with --all every one.
Exit code 1 if there is any.
"""

import argparse
import random
import sys
from functools import partial

from coordinator.server.collector import keep_passes_short
from tests.worst.growth import in_a_copy
from tests.worst.queues import Queues
from tests.worst.server import SMALL, Cost, Size, WorstServer
from tests.worst.shapes import shapes

STEP_S, STEP_BYTES, ALL_BYTES = 0.050, 16 << 20, 256 << 20


def is_too_much(cost: Cost) -> bool:
    return cost.longest_s > STEP_S or cost.longest_bytes > STEP_BYTES or cost.all_bytes > ALL_BYTES


def show(cost: Cost) -> None:
    print(
        f"{cost.name:70}{cost.elements:>9,}{cost.frame_bytes / 2**20:>7.1f} MiB{cost.steps:>7,} steps"
        f"{1e3 * cost.longest_s:>8.0f} ms in {cost.what:12}"
        f"{cost.longest_bytes / 2**20:>7.0f} MiB{cost.all_bytes / 2**20:>7.0f} MiB",
        flush=True,
    )


def measure_queues(server: WorstServer) -> int:
    """Print what each case of `queues.py` costs. Return 1 if any is too much."""
    bad = 0
    for cost in Queues(server).measure():
        bad += is_too_much(cost)
        show(cost)
    print(f"{bad} are too much")
    return 1 if bad else 0


def measure_held(*, is_small: bool, only: str) -> int:
    """Print what each case of `held.py` costs. Return 1 if any is too much."""
    from tests.worst.held import FEW, Held, Many

    bad = 0
    for cost in Held(FEW if is_small else Many()).measure(only):
        bad += is_too_much(cost)
        show(cost)
    print(f"{bad} are too much")
    return 1 if bad else 0


def measure_verbs(size: Size, only: str, *, shows_all: bool) -> int:
    """Print what each call of the admin port costs. Return 1 if any is too much that does not say why."""
    from tests.worst.verb_calls import calls
    from tests.worst.verbs import LONG, PATHS, WorstControl

    server, bad = WorstControl(size), 0
    chosen = [call for call in calls(server.operations, PATHS) if only in call.name]
    print(f"{len(chosen)} calls")
    for call in chosen:
        cost, status, beats = in_a_copy(partial(server.measure, call))
        is_bad = (is_too_much(cost) and (call.method, call.operation) not in LONG) or status == 500 or not beats
        bad += is_bad
        if shows_all or is_bad or is_too_much(cost):
            show(cost)
    print(f"{bad} are too much")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="shapes whose name holds this text")
    parser.add_argument("--sample", type=int, default=0, help="so many of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="a server that holds little")
    parser.add_argument("--acls", type=int, default=0, help="so many rules, and an authorizer")
    parser.add_argument("--groups", type=int, default=0, help="so many groups, with --verbs")
    parser.add_argument("--all", action="store_true", help="print every shape")
    parser.add_argument("--newest", action="store_true", help="only the newest version of each API")
    parser.add_argument("--part", default="", help="the K-th of N parts of them: K/N")
    parser.add_argument("--queues", action="store_true", help="requests to share groups with 86,000 records in flight")
    parser.add_argument("--verbs", action="store_true", help="calls of the admin port")
    parser.add_argument("--held", action="store_true", help="what a server holds ends: groups, topics, transactions")
    options = parser.parse_args()
    keep_passes_short()  # as a server does
    if options.verbs:
        size = SMALL if options.small else Size(groups=options.groups or Size().groups)
        return measure_verbs(size, options.only, shows_all=options.all)
    if options.held:
        return measure_held(is_small=options.small, only=options.only)
    if options.queues:
        return measure_queues(WorstServer(SMALL))
    chosen = [one for one in shapes() if options.only in one.name]
    if options.newest:
        chosen = [one for one in chosen if one.version == one.api.kafka_4_3[-1]]
    if options.part:
        number, count = map(int, options.part.split("/"))
        chosen = chosen[number - 1 :: count]
    if options.sample:
        chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
    base = SMALL if options.small else Size()
    size = Size(**{name: getattr(base, name) for name in base.__struct_fields__} | {"acls": options.acls})
    server, bad = WorstServer(size), 0
    print(f"{len(chosen)} shapes")
    for shape in chosen:
        cost = in_a_copy(partial(server.measure, shape))  # so each finds all that there is
        if cost is None:
            continue
        bad += is_too_much(cost)
        if options.all or is_too_much(cost):
            show(cost)
    print(f"{bad} are too much")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
