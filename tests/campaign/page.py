"""`docs/RELIABILITY.md`, written from the results and nothing else."""

from collections.abc import Iterable
from itertools import chain
from typing import Final

from tests.campaign.results import FULL, UNITS, Result, kept_since, shown
from tests.mutation.all_parts import FIFTH, SIXTH
from tests.mutation.drawn_modules import EIGHTH, ELEVENTH, FIFTEENTH, FOURTEENTH, NINTH, TENTH, THIRTEENTH, TWELFTH
from tests.mutation.figures import Figures, choose_samples, format_share
from tests.mutation.limits import MISTAKES
from tests.mutation.new_code import FIRST, FOURTH, OPEN, SECOND, THIRD
from tests.mutation.siblings import SIBLINGS
from tests.mutation.where_features_meet import SEVENTH
from tests.simulation.streams_mutants import MUTANTS

LISTS: Final = {
    "a first list": FIRST,
    "a second one": SECOND,
    "a third one": THIRD,
    "siblings of the faults that another list has shown to be missed, three of each": SIBLINGS,
    "a fourth one: share groups, streams groups, the cluster's reader, budgets, restored logs, the outbox": FOURTH,
}
OF_ALL_PARTS: Final = {
    "a fifth one, of all parts": FIFTH,
    "a sixth one, of the same and of other modules, after what the fifth had shown": SIXTH,
    "a seventh one: where two features meet, the edges of the operator's calls, and the kinds of groups": SEVENTH,
    "an eighth one, in modules drawn by chance, after the situations that no test had seen were looked for": EIGHTH,
    "a ninth one, in other modules drawn by chance": NINTH,
    "a tenth one, again in others": TENTH,
    "an eleventh one, again in others; of each the nearest tests and a part of the others were run": ELEVENTH,
    "a twelfth one, again in others; of each the nearest tests and a part of the others were run": TWELFTH,
    "a thirteenth one, likewise, a few of whose modules had been drawn before": THIRTEENTH,
    "a fourteenth one, again in others; of each the nearest tests and a part of the others were run": FOURTEENTH,
    "a fifteenth one, likewise": FIFTEENTH,
}

HEAD: Final = (
    """# Reliability

<!-- Written by `python -m tests.campaign`; do not edit the figures. -->

## What is promised
- **Acknowledged means written.** No response leaves before its records are in the log. A killed process (SIGKILL, out of memory) loses nothing that was acknowledged.
- **With `--fsync` a power cut loses nothing either.** Without it, a power cut may lose what the operating system had not written yet.
- **A restart changes nothing.** The server reads its logs and has the same groups, offsets, topics and transactions as before.
- **No partition has two owners in one generation,** and every partition of a stable group has one.
- **Every request is answered once, or its connection is closed.** A request that fails inside the server is answered UNKNOWN_SERVER_ERROR, and changes nothing; of one that is decided in steps, the steps before stay. What no record can hold is refused before it is decided, each resource for itself.
- **Damage is reported, and never repaired without being asked.** If the log of a topic's partition is damaged, that partition is closed; if the log of groups is damaged, the server does not start, and names the file and the byte.

## How it is tested
| what | how | command |
|---|---|---|
| histories | A whole node (frontend, codec, node, logs, janitor) in memory, over a disk that crashes. Members of both protocols, static and dynamic, restart and migrate; producers with transactions; an operator changes topics, settings and groups. Faults: kills at any disk call, power cuts, failing and full disks, stalls, stopped and shifted clocks, lost, half, repeated and unread requests. Promises are checked after each turn. | `python -m tests.simulation --seed 1 --histories 100` |
| applications | The same with two applications of Kafka Streams: their processes are stopped, killed, stuck, or never give up a task; versions with other topologies are deployed, standbys asked for, topics grow and vanish, coordinators move. No active task has two owners in an epoch, in the group, in what members are told, or in what they run; none is without one when the group has settled; no standby is beside its task. | `python -m tests.simulation --streams --seed 1 --histories 100` |
| histories of share groups | The same server and faults, members of share groups that accept, release, reject, renew or forget what they get, a coordinator of their states that is loaded again, and a topic whose oldest records are deleted, go by retention, or are compacted. An accepted record is never delivered again, another one is until the limit, no record is acquired by two at once, and delivery counts never go back, but for what a power cut without `--fsync` takes. | `python -m tests.simulation --share-groups --seed 1 --histories 100` |
| mutants | Mistakes planted by hand in the node, its step, ledger, timers and recovery, and in the logs; each must break a promise. | `pytest -m long tests/simulation tests/storage -k "mistake or found_for"` |
| fuzz | Sequences of 200 random valid requests: every API and version, hostile strings and limits, settings at their limits, records of any time, values of earlier responses, clock advances, rounds of the janitor, starts from the same files. Every request is answered, parked, or its connection closed; nothing fails inside; the files replay. | `python -m tests.simulation.fuzz --seed 1 --sequences 20000` |
| drawn stories | Members, producers, administrators and pauses drawn by a seed, in all versions, now and then with somebody else's identity, are played against a real Apache Kafka 4.3.1 and against Muster, whose answers are compared field by field. Chapters: classic groups, consumer groups, moves between the two, share groups and their records, streams groups, transactions, records, administrators and rights; and of groups shorter ones in which offsets expire or the broker is restarted. Four to forty-five of each, with what Kafka said, are in the default run; after each of them, and after each story that was written, what the logs say is compared with memory. | `python -m tests.conformance.drawn classic --seed 1 --count 100` |
| crashes | One log: a crash after each storage call, torn writes at each byte, flipped bits, each call failing. | `python -m tests.storage.campaign --histories 50` |
| kills | A server process is killed under load by released clients. | `python -m tests.compat.kills --rounds 1000` |
| restarts | A server process is killed while it resets or restores a snapshot: it starts, with the old state or the new one. The same at each call to a disk in memory is in the default run (`tests/storage/test_replacement.py`, `tests/control/test_restarts.py`). | `python -m tests.admin.restart_kills --rounds 200` |
| operations | A server process is killed while an operator resets a prefix, deletes topics, seeds a state, imports offsets, restarts brokers, or moves groups and loses commits: it starts, and each group, topic and offset is as it was or as it was to be; of an import each group has all of its new offsets, or the old ones. | `python -m tests.admin.operation_kills --rounds 200` |
| mutation | Small faults planted anywhere by mutmut, a sample by a seed; the tests of that part must find them. | `python -m tests.mutation --sample 200` |
| slips | The same with what a programmer might do: forget a statement or a guard, drop an operand or a filter, take a field for its neighbour, or a bound off by one. Of the first samples, from all parts but the tables on Spark, 878 of 1,215 were found at first by a part's own tests, which had 10 or 15 seconds; about half of the others change nothing that anybody could see. | `python -m tests.mutation --operators slips --sample 200` |
| limits | Mistakes planted by hand in the meters of what is unpacked, in the prices of what is kept, and in the replacement of a data directory. | `python -m tests.mutation.limits` |
| outcomes | Every condition, comparison of order and loop of the product notes how it comes out while the tests run: those that never came out in one of their ways are listed, as no test can find what is wrong there: 3,375 of 18,027 places at ad691047, of which some 1,500 are loops that were never empty. | `python -m tests.outcomes` |

After a power cut, each changed name and each file has a fate of its own: synced bytes only, half of the rest, zeros, or all.

## Last figures
"""
    + f"""Of each part, the latest campaign that is a long one ({", ".join(f"{size:,} {UNITS[what]}" for what, size in FULL.items())}), or else the longest one. All runs of
one commit are one campaign; `python -m tests.campaign --full --seed 1` is a whole one, and `--only kills --count 1000` one part.

"""
)


def page(results: Iterable[Result], mutation: Iterable[Figures] = ()) -> str:
    """The whole page: what `shown` chooses of each part, each seed that has broken a promise since, and the
    latest samples of mutation testing in each area."""
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
    samples = choose_samples(mutation)
    if samples:
        lines += [
            *("", "## Planted faults that the tests find", ""),
            "*Unseen*: the first run of a sample, before anybody had read what it plants. *Again*: its last run, after tests were",
            "written for what it had missed.",
            "",
            "| part | date | commit | seed | mutants | unseen | again | at | goal |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {first.area} | {first.date} | {first.commit} | {first.seed} | {first.mutants:,} | {first.unseen} | "
            + (
                f"{format_share(last.found, last.tried)} | {last.commit}"
                if last is not first or last.at_first
                else " | "
            )
            + f" | {last.goal:.0%} |"
            for first, last in samples
        ]
        survivors = [
            f"- {survivor}" for survivor in dict.fromkeys(chain.from_iterable(last.survivors for _, last in samples))
        ]
        if survivors:
            lines += [
                "",
                "### Survivors",
                "What no test of that part notices, within 15 seconds of tests for each and without processes of their own:",
                "",
                *survivors,
            ]
    lines += ["", "### Mistakes in limits", "Each is found by its tests (`python -m tests.mutation.limits`):", ""]
    lines += [f"- {mistake.what} (`{mistake.path}`)" for mistake in MISTAKES]
    lines += _faults_of_new_code()
    lines += [
        *("", "### Mistakes in streams groups", ""),
        "Planted in the kind, its assignor's targets and its replay; each breaks a promise (`pytest -m long tests/simulation/test_streams_simulation.py -k mistake`):",
        "",
        *(f"- {' '.join((plant.__doc__ or '').split())}" for plant in MUTANTS.values()),
    ]
    return "\n".join(lines) + "\n"


def _faults_of_new_code() -> list[str]:
    """What a reader of new code planted who had not read its tests."""
    rows = [
        f"| {name} | {format_share(sum(fault.was_found for fault in faults), len(faults))} | |"
        for name, faults in LISTS.items()
    ]
    rows += [
        f"| {name} | {format_share(sum(fault.was_found for fault in faults), len(faults))}"
        f" | {format_share(sum(fault.was_guarded for fault in faults), len(faults))} |"
        for name, faults in OF_ALL_PARTS.items()
    ]
    missed = [fault for faults in (SIBLINGS, FOURTH) for fault in faults if not fault.was_found]
    unguarded = [fault for faults in OF_ALL_PARTS.values() for fault in faults if not fault.was_guarded]
    return [
        *("", "### Faults in new code", ""),
        "Chosen by a reader who knew the code and not its tests. *At first*: what the nearest tests found before others were written,",
        "which are a file or two, chosen by their names; and from the fifth list on what the default run found, which is what guards the",
        "code: all of its parts that may touch the line. The goal is 85%. All of them are found now",
        "(`python -m tests.mutation.limits --only TEXT`, from the fifth list on also with `--selection nearest` and `default`), but for what",
        "is marked open.",
        "",
        *("| list | at first | by the default run |", "|---|---|---|", *rows),
        "",
        "The faults themselves are in `tests/mutation/new_code.py`, `siblings.py`, `all_parts.py`, `where_features_meet.py` and `drawn_modules.py`. Of the siblings and the fourth list,",
        "the nearest tests missed at first:",
        "",
        *(f"- {fault.what} (`{fault.path}`)" for fault in missed),
        *(f"- {what}: **open**" for what in OPEN),
        "",
        "Of the fifth list and those after it, the default run missed at first:",
        "",
        *(f"- {fault.what} (`{fault.path}`)" for fault in unguarded),
    ]


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
