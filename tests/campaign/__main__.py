"""`python -m tests.campaign --full --seed 100000`: run all campaigns, keep the results, write docs/RELIABILITY.md."""

from __future__ import annotations

import argparse
import logging
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec.structs import replace

from tests.admin import operation_kills, restart_kills
from tests.campaign.page import page
from tests.campaign.results import FULL, UNITS, Result, add, current_commit, read
from tests.compat.kills import kill_in_process
from tests.mutation.figures import RESULTS as MUTATION_RESULTS
from tests.mutation.figures import Figures
from tests.simulation import share_history, streams_history
from tests.simulation.fuzz import fuzz
from tests.simulation.history import ROUND_MS, Report, play
from tests.storage import campaign as storage

PAGE = Path(__file__).parent.parent.parent / "docs" / "RELIABILITY.md"
SHARES = {
    "histories": 0.35,
    "applications": 0.15,
    "share groups": 0.05,
    "fuzz": 0.1,
    "crashes": 0.1,
    "kills": 0.15,
    "restarts": 0.05,
    "operations": 0.05,
}  # of the time
ROUNDS = 10  # of kills, for each seed
LINE_MAX = 200


def history(seed: int) -> dict[str, int]:
    """Play one history of a whole node."""
    return _figures(play(seed))


def applications(seed: int) -> dict[str, int]:
    """Play one history of a whole node with applications of Kafka Streams; coordinators move in every third."""
    return _figures(streams_history.play(seed, has_moves=seed % 3 == 0))


def _figures(report: Report) -> dict[str, int]:
    return {
        "simulated minutes": ROUND_MS // 60_000,
        "requests": report.requests,
        "faults": report.faults,
        "starts": report.starts,
        "replays compared": report.replays,
    }


def crashes(seed: int) -> dict[str, int]:
    """Crash one log after each storage call, and let each call fail."""
    return {
        "crash points": storage.crash_points(seed, operations=120, every=16),
        "failing calls": storage.failing_calls(seed, 45),
    }


def kills(seed: int) -> dict[str, int]:
    """Kill a server under load, some rounds."""
    code, printed = kill_in_process(ROUNDS, seed)
    assert not code, printed.strip().splitlines()[-1:]
    found = re.search(r"([\d,]+) acknowledged commits", printed)
    assert found, printed
    return {"acknowledged commits": int(found[1].replace(",", ""))}


def share_groups(seed: int) -> dict[str, int]:
    """Play one history of share groups; coordinators move in some."""
    report = share_history.play(seed)
    return {
        "requests": report.requests,
        "starts": report.starts,
        "delivered": report.delivered,
        "redelivered": report.redelivered,
    }


def restarts(seed: int) -> dict[str, int]:
    """Kill a server while it resets or restores, some rounds."""
    with TemporaryDirectory() as folder:
        return dict(restart_kills.play(Path(folder), ROUNDS, seed))


def operations(seed: int) -> dict[str, int]:
    """Kill a server while an operator changes many things, some rounds."""
    with TemporaryDirectory() as folder:
        return dict(operation_kills.play(Path(folder), ROUNDS, seed))


CAMPAIGNS: dict[str, tuple[int, Callable[[int], dict[str, int]]]] = {  # how much of it one seed is, and that
    "histories": (1, history),
    "applications": (1, applications),
    "share groups": (1, share_groups),
    "fuzz": (1, fuzz),
    "crashes": (1, crashes),
    "kills": (ROUNDS, kills),
    "restarts": (ROUNDS, restarts),
    "operations": (ROUNDS, operations),
}


def run(what: str, first: int, *, seconds: float = float("inf"), count: float = float("inf")) -> Result:
    """Play one part, seed by seed, for so long or until there is so much of it, and at least one seed."""
    size, play_seed = CAMPAIGNS[what]
    began = time.monotonic()
    counts = Counter({UNITS[what]: 0})
    broken: dict[int, str] = {}
    seed = first - 1
    while seed < first or (counts[UNITS[what]] < count and time.monotonic() < began + seconds):
        seed += 1
        counts[UNITS[what]] += size
        try:
            counts.update(play_seed(seed))
        except Exception as error:  # whatever a seed ends with is a finding, and the others are still played
            broken[seed] = f"{type(error).__name__}: {error}".partition("\n")[0][:LINE_MAX]
            print(f"{what}, seed {seed}: {broken[seed]}", flush=True)
    date = datetime.now(UTC).date().isoformat()
    return Result(date, current_commit(), what, (first, seed), round(time.monotonic() - began, 1), dict(counts), broken)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first one of each part")
    parser.add_argument("--only", choices=CAMPAIGNS, help="this part alone")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--minutes", type=float, default=10, help="for all parts together (default: 10)")
    extent.add_argument("--full", action="store_true", help=", ".join(f"{FULL[what]:,} {UNITS[what]}" for what in FULL))
    extent.add_argument("--count", type=int, help="so many histories, sequences, logs or rounds of each part")
    extent.add_argument("--page", action="store_true", help="write the page from the results that there are")
    parser.add_argument("--note", default="", help="what was mended since the seed broke a promise")
    arguments = parser.parse_args()
    logging.getLogger("muster").setLevel(logging.ERROR)
    broken = 0
    for what in () if arguments.page else [arguments.only] if arguments.only else CAMPAIGNS:
        if arguments.full or arguments.count:
            result = run(what, arguments.seed, count=arguments.count or FULL[what])
        else:
            share = 1 if arguments.only else SHARES[what]
            result = run(what, arguments.seed, seconds=60 * arguments.minutes * share)
        add(replace(result, note=arguments.note))
        print(f"{what}: {result.counts}, broken {len(result.broken)}", flush=True)
        broken += len(result.broken)
    lines = MUTATION_RESULTS.read_bytes().splitlines() if MUTATION_RESULTS.exists() else ()
    PAGE.write_text(page(read(), [msgspec.json.decode(line, type=Figures) for line in lines]), "utf-8")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
