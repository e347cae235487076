"""What the campaigns have found, a line for each part of a run, and which of it the page shows."""

import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

RESULTS: Final = Path(__file__).parent / "results.jsonl"
FULL: Final = {
    "histories": 600,
    "applications": 300,
    "share groups": 300,
    "fuzz": 20_000,
    "crashes": 10,
    "kills": 1_000,
    "restarts": 200,
    "operations": 200,
}
"""How much of each part a long campaign is: 200 simulated hours, and so on."""
UNITS: Final = {
    "histories": "histories",
    "applications": "histories",
    "share groups": "histories",
    "fuzz": "sequences",
    "crashes": "logs",
    "kills": "rounds",
    "restarts": "rounds",
    "operations": "rounds",
}


class Result(Struct, frozen=True):
    """One part of a campaign. `broken` has a line for each seed that broke a promise; `note` says what was mended before
    such a seed was played again."""

    date: str
    commit: str
    what: str
    seeds: tuple[int, int]
    seconds: float
    counts: dict[str, int]
    broken: dict[int, str] = {}
    note: str = ""

    @property
    def size(self) -> int:
        """How much of the part it is, in its own unit."""
        return self.counts.get(UNITS[self.what], 0)


def read() -> list[Result]:
    return [msgspec.json.decode(line, type=Result) for line in RESULTS.read_bytes().splitlines()]


def add(result: Result) -> None:
    """Append one line in one write, so that processes may share the file."""
    with RESULTS.open("ab", buffering=0) as file:
        file.write(msgspec.json.encode(result) + b"\n")


def current_commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def shown(results: Iterable[Result]) -> dict[str, Result]:
    """Choose what the page shows of each part: the latest campaign that is a long one, or else the longest one.

    A campaign is all that one commit has of a part, whichever processes did it; no seed counts twice.
    """
    parts: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        parts.setdefault(result.what, {}).setdefault(result.commit, []).append(result)
    chosen: dict[str, Result] = {}
    for what, commits in parts.items():
        campaigns = [_whole(one) for one in commits.values()]
        long = [one for one in campaigns if one.size >= FULL[what]]
        chosen[what] = long[-1] if long else max(reversed(campaigns), key=lambda one: one.size)
    return chosen


def _whole(results: list[Result]) -> Result:
    """Add up the results of one part and commit, without those whose seeds are in another one."""
    whole, *others = sorted(results, key=lambda one: (one.seeds[0], -one.seeds[1]))
    for other in others:
        if other.seeds[0] > whole.seeds[1]:
            whole = replace(
                other,
                seeds=(whole.seeds[0], other.seeds[1]),
                seconds=whole.seconds + other.seconds,
                counts=dict(Counter(whole.counts) + Counter(other.counts)),
                broken=whole.broken | other.broken,
            )
    return whole


def kept_since(broken: Result, seed: int, results: Iterable[Result]) -> Result | None:
    """Return the latest run in which a seed that broke a promise kept all of them, if it was not broken again since."""
    again = [one for one in results if one.what == broken.what and one.seeds[0] <= seed <= one.seeds[1]]
    last = again[-1]
    return None if seed in last.broken else last
