"""`docs/RELIABILITY.md`, written from the results and nothing else."""

from collections.abc import Iterable
from typing import Final

from tests.campaign.results import FULL, UNITS, Result, kept_since, shown
from tests.mutation.figures import Figures

HEAD: Final = (
    """# Reliability

<!-- Written by `python -m tests.campaign`; do not edit the figures. -->

## What is promised
- **Acknowledged means written.** No response leaves before its records are in the log. A killed process (SIGKILL, out of memory) loses nothing that was acknowledged.
- **With `--fsync` a power cut loses nothing either.** Without it, a power cut may lose what the operating system had not written yet.
- **A restart changes nothing.** The server reads its logs and has the same groups, offsets, topics and transactions as before.
- **No partition has two owners in one generation,** and every partition of a stable group has one.
- **Every request is answered once, or its connection is closed.** A request that fails inside the server is answered UNKNOWN_SERVER_ERROR, and changes nothing.
- **Damage is reported, and never repaired without being asked.** If the log of a topic's partition is damaged, that partition is closed; if the log of groups is damaged, the server does not start, and names the file and the byte.

## How it is tested
| what | how | command |
|---|---|---|
| histories | A whole node (frontend, codec, node, logs, janitor) in memory, over a disk that crashes. Members of both protocols, static and dynamic, restart and migrate; producers with transactions; an operator changes topics, settings and groups. Faults: kills at any disk call, power cuts, failing and full disks, stalls, stopped and shifted clocks, lost, half, repeated and unread requests. Promises are checked after each turn. | `python -m tests.simulation --seed 1 --histories 100` |
| mutants | Mistakes planted by hand in the node, its step, ledger, timers and recovery, and in the logs; each must break a promise. | `pytest -m long tests/simulation tests/storage -k "mistake or found_for"` |
| fuzz | Sequences of 200 random valid requests: every API and version, hostile strings and limits, values of earlier responses, clock advances, starts from the same files. Every request is answered, parked, or its connection closed; nothing fails inside; the files replay. | `python -m tests.simulation.fuzz --seed 1 --sequences 20000` |
| crashes | One log: a crash after each storage call, torn writes at each byte, flipped bits, each call failing. | `python -m tests.storage.campaign --histories 50` |
| kills | A server process is killed under load by released clients. | `python -m tests.compat.kills --rounds 1000` |
| mutation | Small faults planted anywhere by mutmut, a sample by a seed; the tests of that part must find them. | `python -m tests.mutation --sample 200` |

After a power cut, each changed name and each file has a fate of its own: synced bytes only, half of the rest, zeros, or all.

## Last figures
"""
    + f"""Of each part, the latest campaign that is a long one ({", ".join(f"{size:,} {UNITS[what]}" for what, size in FULL.items())}), or else the longest one. All runs of
one commit are one campaign; `python -m tests.campaign --full --seed 1` is a whole one, and `--only kills --count 1000` one part.

"""
)


def page(results: Iterable[Result], mutation: Iterable[Figures] = ()) -> str:
    """The whole page: what `shown` chooses of each part, each seed that has broken a promise since, and of mutation
    testing the latest results of each area."""
    results = list(results)
    chosen = sorted(shown(results).items())
    lines = [HEAD + "| what | date | commit | seeds | seconds | figures | broken |", "|---|---|---|---|---|---|---|"]
    for what, one in chosen:
        counts = ", ".join(f"{count:,} {name}" for name, count in one.counts.items())
        seeds = f"{one.seeds[0]} to {one.seeds[1]}"
        lines.append(
            f"| {what} | {one.date} | {one.commit} | {seeds} | {one.seconds:,.0f} | {counts} | {len(one.broken)} |"
        )
    broken = [line for what, one in chosen for line in _broken(one, [other for other in results if other.what == what])]
    if broken:
        lines += [
            "",
            "### Broken promises",
            "In the runs above, and in all later ones. A change of what the server writes may lead a seed another way.",
            "",
            *broken,
        ]
    figures = latest_figures(mutation)
    if figures:
        lines += [
            *("", "## Planted faults that the tests find", ""),
            "*At first*: before tests were written for what that sample had missed; the survivors alone were tried again.",
            "",
            "| part | date | commit | seed | mutants | tried | found | at first | goal |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {one.area} | {one.date} | {one.commit} | {one.seed} | {one.mutants:,} | {one.tried:,} | "
            f"{one.found:,} ({one.found / one.tried:.0%}) | {_at_first(one)} | {one.goal:.0%} |"
            for one in figures
        ]
        survivors = [f"- {survivor}" for one in figures for survivor in one.survivors]
        if survivors:
            lines += [
                "",
                "### Survivors",
                "What no test of that part notices, within 15 seconds of tests for each and without processes of their own:",
                "",
                *survivors,
            ]
    return "\n".join(lines) + "\n"


def latest_figures(mutation: Iterable[Figures]) -> list[Figures]:
    """Return the figures of each area's latest commit, one for each seed."""
    everything = list(mutation)
    commits = {one.area: one.commit for one in everything}
    latest = {(one.area, one.seed): one for one in everything if one.commit == commits[one.area]}
    return [one for _, one in sorted(latest.items())]


def _at_first(figures: Figures) -> str:
    if figures.at_first is None:
        return ""
    found, tried = figures.at_first
    return f"{found:,} of {tried:,} ({found / tried:.0%})"


def _broken(campaign: Result, results: list[Result]) -> list[str]:
    """A line for each seed of a campaign, and of all later runs of this part, that broke a promise."""
    first = next(number for number, one in enumerate(results) if one.commit == campaign.commit)
    found = {(one.commit, seed): line for one in results[first:] for seed, line in one.broken.items()}
    lines = []
    for (commit, seed), line in found.items():
        since = kept_since(campaign, seed, results)
        lines.append(
            f"- {campaign.what}, seed {seed} at {commit}: {line} "
            + (f"**Mended** ({since.note}); the seed keeps all promises at {since.commit}." if since else "**Open.**")
        )
    return lines
