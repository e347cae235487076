"""Lag, its history, and how groups advance: random commits and log ends, against the same in plain Python."""

from collections import defaultdict
from random import Random
from statistics import linear_regression
from typing import Any

import numpy as np
import pytest

from pipeline.decode.transactions import EFFECTIVE_COMMITS
from pipeline.tables.commits import commit_velocity
from pipeline.tables.lag import group_status, lag_history, lag_status, log_end_offsets
from tests.pipeline import burrow
from tests.pipeline.commit_rows import commit_row, frame

pytestmark = pytest.mark.xdist_group("spark")

Row = dict[str, Any]
Key = tuple[str, str, int]
Partition = tuple[str, int]
WINDOW = 10
NOW_MS = 1_000_000
ENDS = "topic string, partition int, ts bigint, leo bigint, source string"
KEY = ("group", "topic", "partition")


class Made:
    """Commits of some groups to the partitions of a topic each, and what is known of the ends of some of these."""

    def __init__(self, dice: Random, groups: int) -> None:
        self.dice = dice
        self.commits: list[Row] = []
        self.ends: dict[Partition, list[tuple[int, int, str]]] = {}
        for number in range(groups):
            for partition in range(dice.randrange(1, 4)):
                self._live((f"g{number}", f"t{number // 2}", partition), number % 3)

    def _live(self, key: Key, log: int) -> None:
        """Commit forwards and, now and then, backwards or at once; some commits do not count, or cannot be read."""
        dice = self.dice
        ts, offset, step, pause = (
            NOW_MS - 400_000,
            dice.randrange(100),
            dice.choice([0, 1, 10]),
            dice.choice([500, 20_000]),
        )
        path = []
        for _ in range(dice.choice([1, 2, 5, 12, 18])):
            ts += dice.choice([0, pause, pause, 2 * pause])
            offset = max(0, offset + dice.choice([step, step, step, 5 * step, -3]))
            kind = dice.choices(["plain", "tombstone", "aborted", "unread", "elsewhere"], [20, 1, 2, 1, 1])[0]
            value = None if kind in ("tombstone", "unread", "elsewhere") else offset
            told = {"is_tombstone": kind in ("tombstone", "elsewhere"), "undecodable": kind == "unread"}
            told |= {"topic": key[1], "partition": key[2], "log_partition": log, "log_dir": f"log-{log}"}
            told |= {
                "txn_state": "aborted" if kind == "aborted" else "none",
                "effective": kind not in ("aborted", "elsewhere"),
            }
            row = commit_row(len(self.commits), ts + dice.choice([0, 0, 7]), value, key[0], **told)
            self.commits.append(row | {"commit_ts": None if value is None else ts})
            path.append((ts, offset))
        place = key[1:]
        if place in self.ends or dice.random() < 0.2:
            return
        source = dice.choice(["list_offsets", "log", "checkpoint"])
        behind, more = dice.choice([0, 0, 3, 40]), dice.choice([0, 0, 2])
        ends = [
            (ts + dice.choice([-9, 0, 0, 300]), offset + behind + more * n, source)
            for n, (ts, offset) in enumerate(path)
            if dice.random() < 0.6
        ]
        if dice.random() < 0.2:  # the topic was made anew
            ends += [(path[-1][0] + 400 * n, n, source) for n in range(3)]
        self.ends[place] = ends or [
            (path[-1][0] + dice.choice([-1, 0, 1]), path[-1][1] + dice.choice([-2, 0, 9]), source)
        ]

    def by_key(self) -> dict[Key, list[Row]]:
        """The effective commits of each key, in log order."""
        found: dict[Key, list[Row]] = defaultdict(list)
        for row in self.commits:
            if row["effective"]:
                found[row["group"], row["topic"], row["partition"]].append(row)
        return found

    def ends_of(self, place: Partition) -> list[tuple[int, int, str]]:
        """The known ends in order of time; else the highest commit to the partition, which is a lower bound."""
        rows = [
            row
            for (_, *at), commits in self.by_key().items()
            for row in commits
            if tuple(at) == place and row["committed_offset"] is not None
        ]
        if place in self.ends or not rows:
            return sorted(self.ends.get(place, []))
        ts, leo = (max(row[name] for row in rows) for name in ("record_ts", "committed_offset"))
        return [(ts, leo, "max_committed")]


def expect_status(made: Made, key: Key, commits: list[Row]) -> tuple[Any, ...] | None:
    """The row of a key: (offset, end, source, lag, at least, beyond, seconds, commits, status, rewind, trend, quiet, s)"""
    dead = max((n for n, row in enumerate(commits) if row["is_tombstone"]), default=-1)
    alive = [row for row in commits[dead + 1 :] if row["committed_offset"] is not None][-WINDOW:]
    if not alive:
        return None
    life: list[tuple[int, int, str]] = []
    for end in made.ends_of(key[1:]):
        life = [*life, end] if not life or end[1] >= life[-1][1] else [end]
    offsets, times = [row["committed_offset"] for row in alive], [row["commit_ts"] for row in alive]
    lags: list[int | None] = []
    for offset, ts in zip(offsets, times, strict=True):
        seen = [leo for at, leo, _ in life if at <= ts]
        lags.append(max(0, seen[-1] - offset) if seen else None)
    at, last = offsets[-1], times[-1]
    newest, leo, source = life[-1]
    lag, is_known = max(0, leo - at), source != "max_committed"
    seconds = None
    below, above = [end for end in life if end[1] <= at], [end for end in life if end[1] > at]
    if not above:
        seconds = 0.0
    elif below:
        (ts, start, _), (later, end, _) = below[-1], above[0]
        seconds = (NOW_MS - float(np.interp(at, [start, end], [ts, later]))) / 1000
    points = [(n, one) for n, one in enumerate(lags) if one is not None]
    trend = linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else None
    usual = max([times[-1] - times[0], *(3 * step for step in np.diff(times).tolist())])
    status = burrow.status((offsets, times, lags, [end[1] for end in life[-WINDOW:]]), lag, NOW_MS)
    return (
        at, leo, source, lag if is_known else None, lag,
        max(0, at - leo) if is_known and (source == "log" or newest >= last) else None,
        pytest.approx(seconds) if is_known and seconds is not None else None,
        len(alive), status if is_known else "UNKNOWN", max([0, *(-np.diff(offsets)).tolist()]),
        None if trend is None else pytest.approx(trend, abs=1e-6), NOW_MS - last > usual, (NOW_MS - last) / 1000,
    )  # fmt: skip


STATUS = (
    "current_offset", "log_end_offset", "leo_source", "lag", "lag_at_least", "beyond_end", "lag_seconds",
    "window_commits", "status", "worst_rewind", "lag_trend", "quiet_too_long", "quiet_s",
)  # fmt: skip


def expect_history(made: Made, key: Key, commits: list[Row]) -> list[tuple[int, int]]:
    """The lag at each known end of the log, by what the group had committed until then."""
    found = []
    for ts, leo, source in made.ends_of(key[1:]):
        until_then = [row for row in commits if row["record_ts"] <= ts]
        stood = max(
            until_then, key=lambda row: (row["record_ts"], row["log_offset"]), default={"committed_offset": None}
        )
        if source != "max_committed" and stood["committed_offset"] is not None:
            found.append((ts, max(0, leo - stood["committed_offset"])))
    return sorted(found)


def expect_velocity(commits: list[Row]) -> dict[int, tuple[Any, ...]]:
    """By the minute: commits, the first and the last offset, how far, intervals, steps back, the largest, no steps."""
    windows: dict[int, list[tuple[int, int | None, int | None]]] = defaultdict(list)
    before: Row | None = None
    for row in commits:
        offset, ts = row["committed_offset"], row["commit_ts"]
        if offset is not None:
            step = None if before is None else offset - before["committed_offset"]
            pause = None if before is None else ts - before["commit_ts"]
            windows[ts // 60_000 * 60_000].append((offset, step, pause))
        if offset is not None or row["is_tombstone"]:
            before = row if offset is not None else None
    found: dict[int, tuple[Any, ...]] = {}
    for start, rows in windows.items():
        steps = [step for _, step, _ in rows if step is not None]
        pauses = [pause for _, _, pause in rows if pause is not None]
        half, most = (pytest.approx(np.percentile(pauses, share)) if pauses else None for share in (50, 99))
        found[start] = (
            len(rows), rows[0][0], rows[-1][0], sum(steps), half, most,
            sum(step < 0 for step in steps) if steps else None, max([0, *(-step for step in steps)]),
            sum(step == 0 for step in steps) if steps else None, pytest.approx(sum(steps) / 60),
        )  # fmt: skip
    return found


VELOCITY = (
    "commits", "first_offset", "last_offset", "advance", "interval_p50_ms", "interval_p99_ms", "rewinds", "max_rewind",
    "flat_commits", "per_s",
)  # fmt: skip


def test_lag_and_velocity_are_what_the_commits_and_the_ends_say(spark: Any) -> None:
    made = Made(Random(7), groups=60)
    commits = frame(spark, made.commits, EFFECTIVE_COMMITS).cache()
    given = spark.createDataFrame([(*place, *end) for place, ends in made.ends.items() for end in ends], ENDS)
    ends = log_end_offsets(given, commits).cache()
    status = lag_status(commits, ends, NOW_MS).cache()

    rows = {tuple(row[name] for name in KEY): row for row in status.collect()}
    want = {key: expect_status(made, key, of_key) for key, of_key in made.by_key().items()}
    assert {key: tuple(row[name] for name in STATUS) for key, row in rows.items()} == {
        key: one for key, one in want.items() if one is not None
    }
    assert {row.status for row in rows.values()} >= {"OK", "UNKNOWN", "WARN", "STALL", "STOP", "REWIND"}

    history: dict[Key, list[tuple[int, int]]] = {key: [] for key in want}
    for row in lag_history(commits, ends).collect():
        history[row.group, row.topic, row.partition].append((row.ts, row.lag))
    assert {key: sorted(found) for key, found in history.items()} == {
        key: expect_history(made, key, of_key) for key, of_key in made.by_key().items()
    }

    velocity: dict[Key, dict[int, tuple[Any, ...]]] = {key: {} for key in want}
    for row in commit_velocity(commits).collect():
        velocity[row.group, row.topic, row.partition][row.window_start] = tuple(row[name] for name in VELOCITY)
    assert velocity == {key: expect_velocity(of_key) for key, of_key in made.by_key().items()}

    order = ("OK", "UNKNOWN", "WARN")
    by_group: dict[str, list[Any]] = defaultdict(list)
    for (group, _, _), row in rows.items():
        by_group[group].append(row)
    for row in group_status(status).collect():
        parts = by_group.pop(row.group)
        lags = [part.lag for part in parts if part.lag is not None]
        worst = max(order.index(part.status) if part.status in order else 3 for part in parts)
        assert (row.status, row.total_lag, row.max_lag, row.partitions, row.complete) == (
            (*order, "ERR")[worst],
            sum(lags) if lags else None,
            max(lags, default=None),
            len(parts),
            pytest.approx(sum(part.window_commits == WINDOW for part in parts) / len(parts)),
        )
    assert not by_group
    for one in (commits, ends, status):
        one.unpersist()
