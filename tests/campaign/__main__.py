"""`python -m tests.campaign --minutes 60 --seed 1`: run all campaigns, keep the results, write docs/RELIABILITY.md."""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.campaign.page import Result, current_commit, page
from tests.mutation.figures import RESULTS as MUTATION_RESULTS
from tests.mutation.figures import Figures
from tests.simulation.fuzz import fuzz
from tests.simulation.history import ROUND_MS, play
from tests.simulation.promises import Broken
from tests.storage import campaign as storage

HERE = Path(__file__).parent
RESULTS = HERE / "results.jsonl"
PAGE = HERE.parent.parent / "docs" / "RELIABILITY.md"
SHARES = {"histories": 0.6, "fuzz": 0.15, "crashes": 0.1, "kills": 0.15}  # of the time


def histories(seed: int, until: float) -> tuple[int, dict[str, int], list[str]]:
    """Play histories until it is time. Returns the last seed, what was done, and what was broken."""
    counts = dict.fromkeys(("histories", "simulated minutes", "requests", "faults", "starts", "replays compared"), 0)
    broken: list[str] = []
    while time.monotonic() < until:
        counts["histories"] += 1
        try:
            report = play(seed)
        except Broken as error:
            broken.append(str(error).partition("\n")[0][:200])
        else:
            counts["simulated minutes"] += ROUND_MS // 60_000
            counts["requests"] += report.requests
            counts["faults"] += report.faults
            counts["starts"] += report.starts
            counts["replays compared"] += report.replays
        seed += 1
    return seed - 1, counts, broken


def crashes(seed: int, until: float) -> tuple[int, dict[str, int], list[str]]:
    """Crash a log after each storage call, history by history."""
    counts = dict.fromkeys(("logs", "crash points", "failing calls"), 0)
    broken: list[str] = []
    while time.monotonic() < until:
        counts["logs"] += 1
        try:
            counts["crash points"] += storage.crash_points(seed, operations=120, every=16)
            counts["failing calls"] += storage.failing_calls(seed, 45)
        except AssertionError as error:
            broken.append(str(error).partition("\n")[0][:200])
        seed += 1
    return seed - 1, counts, broken


def kills(seed: int, until: float) -> tuple[int, dict[str, int], list[str]]:
    """Kill server processes under load, some rounds at a time."""
    rounds, broken = 0, []
    while time.monotonic() < until:
        command = [sys.executable, "-m", "tests.compat.kills", "--rounds", "10", "--seed", str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        rounds += 10
        if done.returncode:
            broken.append(f"seed {seed}: {done.stderr.strip().splitlines()[-1:]}")
        seed += 1
    return seed - 1, {"rounds": rounds}, broken


def sequences(seed: int, until: float) -> tuple[int, dict[str, int], list[str]]:
    """Play sequences of random valid requests until it is time."""
    counts: Counter[str] = Counter()
    broken: list[str] = []
    while time.monotonic() < until:
        counts["sequences"] += 1
        try:
            counts += fuzz(seed)
        except Broken as error:
            broken.append(str(error).partition("\n")[0][:200])
        seed += 1
    return seed - 1, dict(counts), broken


CAMPAIGNS: dict[str, Callable[[int, float], tuple[int, dict[str, int], list[str]]]] = {
    "histories": histories,
    "fuzz": sequences,
    "crashes": crashes,
    "kills": kills,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", action="store_true", help="write the page from the results that there are")
    arguments = parser.parse_args()
    logging.getLogger("muster").setLevel(logging.ERROR)
    broken = 0
    for what, campaign in () if arguments.page else CAMPAIGNS.items():
        began = time.monotonic()
        until = began + 60 * arguments.minutes * SHARES[what]
        last, counts, lines = campaign(arguments.seed, until)
        date, seconds = datetime.now(UTC).date().isoformat(), round(time.monotonic() - began, 1)
        result = Result(date, current_commit(), what, (arguments.seed, last), seconds, counts, tuple(lines))
        with RESULTS.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")
        print(f"{what}: {counts}, broken {len(lines)}", *lines, sep="\n  ", flush=True)
        broken += len(lines)
    results = [msgspec.json.decode(line, type=Result) for line in RESULTS.read_bytes().splitlines()]
    lines = MUTATION_RESULTS.read_bytes().splitlines() if MUTATION_RESULTS.exists() else ()
    PAGE.write_text(page(results, [msgspec.json.decode(line, type=Figures) for line in lines]), "utf-8")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
