"""Transactions' verdicts against sequential replay, lag status against Burrow's own rules."""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pytest

from pipeline.decode import replay
from pipeline.decode.plain import PlainBatch, PlainCommit
from pipeline.decode.schema import BATCHES, OFFSET_COMMITS
from pipeline.tables.commits import LARGEST, commit_velocity, latest_offsets, offset_commits
from pipeline.tables.lag import evaluate_windows, group_status, lag_history, lag_status
from tests.pipeline import burrow
from tests.pipeline.commit_rows import commit_row, frame

pytestmark = pytest.mark.xdist_group("spark")


def random_log(dice: random.Random, number: int, rows: dict[str, list[dict[str, Any]]]) -> replay.State:
    """Append a log of some twenty batches of one record each to the tables; what replay makes of it."""
    state = replay.State(offsets={}, pending={})
    for offset in range(dice.randrange(5, 22)):
        producer = dice.choice([-1, -1, 1, 2, 3])
        kind = dice.random()
        control = kind < 0.25 and producer >= 0
        batch = PlainBatch(0, offset, 0, 0, 2, 0, (16 if producer >= 0 else 0) | (32 if control else 0), 0, 0, 0, producer, 0, 0, 1, True)  # fmt: skip
        place = {"log_dir": "d", "log_partition": number}
        row = {**place, "base_offset": offset, "last_offset": offset, "producer_id": producer, "is_txn": producer >= 0, "is_control": control, "control_type": None}  # fmt: skip
        rows["batches"].append(row)
        if control:
            commits = dice.random() < 0.6
            row["control_type"] = int(commits)
            if dice.random() < 0.1:
                row["control_type"] = 2  # of a leader that changed, say: no transaction ends
                continue
            replay.end(state, producer, commits=commits)
            continue
        value = PlainCommit(f"g{number}", "t", dice.randrange(3), None if kind > 0.9 else offset * 10)
        replay.apply(state, batch, offset, value)
        rows["commits"].append(
            {**place, "log_offset": offset, "batch_base": offset, "leader_epoch_of_log": 0, "record_ts": offset, "producer_id": producer,
             "is_txn": producer >= 0, "group": value.group, "topic": "t", "partition": value.partition, "is_tombstone": value.offset is None,
             "undecodable": False, "committed_offset": value.offset, "commit_ts": offset}
        )  # fmt: skip
    return state


@pytest.mark.parametrize("logs", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_verdicts_equal_sequential_replay_on_many_logs(spark: Any, logs: int) -> None:
    dice = random.Random(20_000)
    rows: dict[str, list[dict[str, Any]]] = {"batches": [], "commits": []}
    want = {}
    for number in range(logs):
        state = random_log(dice, number, rows)
        want |= {key: (at, value.offset) for key, (at, value) in state.offsets.items()}
    commits = offset_commits(
        frame(spark, rows["commits"], OFFSET_COMMITS), frame(spark, rows["batches"], BATCHES)
    ).cache()
    latest = latest_offsets(commits, now_ms=0).select("group", "topic", "partition", "log_offset", "committed_offset")
    got = {tuple(row[:3]): tuple(row[3:]) for row in latest.collect()}
    assert len(want) > logs
    assert got == want
    states = dict(commits.groupBy("txn_state").count().collect())
    commits.unpersist()
    assert states.keys() == {"none", "committed", "aborted", "open"}


def random_window(dice: random.Random) -> tuple[burrow.Window, int]:
    """A window that lies near the rules' edges: flat stretches, steps back, gaps in what is known of the lag."""
    size = dice.choice([1, 2, 3, 10, 10, 10])
    offset, ts, step = dice.randrange(100), 1_000_000, dice.choice([0, 0, 1, 5])
    offsets, times = [], []
    for _ in range(size):
        offset = max(0, offset + (dice.choice([-3, -1]) if dice.random() < 0.1 else dice.choice([0, step, step])))
        ts += dice.choice([0, 500, 1000, 7000])
        offsets.append(offset)
        times.append(ts)
    ends = [offset + dice.choice([-5, 0, 1, 3, 10, 50]) for _ in range(dice.randrange(0, 10))]
    ends.append(offset + dice.choice([0, 1, 3, 30]))
    base = dice.choice([0, 1, 4])
    lags = [None if dice.random() < 0.15 else base + (i if dice.random() < 0.8 else 0) for i in range(size)]
    now = ts + dice.choice([0, 400, 1000, 5000, 20_000, 100_000])
    return (offsets, times, lags, ends), now


def test_lag_status_equals_burrows_rules_on_random_windows(spark: Any) -> None:
    dice = random.Random(4000)
    cases = [random_window(dice) for _ in range(2500)]
    seen: Counter[str] = Counter()
    rows, want = [], []
    now_ms = 50_000_999  # the clock is an argument of the table, so the windows are moved to it
    for number, (window, now) in enumerate(cases):
        offsets, times, lags, ends = window
        moved = [ts + now_ms - now for ts in times]
        lag = max(0, ends[-1] - offsets[-1])
        rows.append({"id": number, "offsets": offsets, "times": moved, "lags": lags, "leos": ends, "lag": lag})
        want.append([burrow.status((offsets, moved, lags, ends), lag, now_ms, allowed) for allowed in (0, 2)])
    table = spark.createDataFrame(rows, "id int, offsets array<bigint>, times array<bigint>, lags array<bigint>, leos array<bigint>, lag bigint").cache()  # fmt: skip
    for column, allowed in enumerate((0, 2)):
        got = dict(evaluate_windows(table, now_ms, allowed).select("id", "status").collect())
        assert [got[i] for i in range(len(rows))] == [statuses[column] for statuses in want]
        seen.update(got.values())
    table.unpersist()
    assert seen.keys() == {"OK", "WARN", "STALL", "STOP", "REWIND"}
    assert min(seen.values()) > 20


def commits_of(spark: Any, values: list[tuple[int, int, int | None]], group: str = "g") -> Any:
    """Effective commits of one key: (log offset, time, offset or None for a tombstone)."""
    rows = [commit_row(at, ts, offset, group) for at, ts, offset in values]
    return offset_commits(frame(spark, rows, OFFSET_COMMITS), frame(spark, [], BATCHES))


ENDS = "topic string, partition int, ts bigint, leo bigint, source string"


def test_lag_in_seconds_is_interpolated_and_never_beyond_what_was_seen(spark: Any) -> None:
    commits = commits_of(spark, [(0, 10_000, 100), (1, 20_000, 150)])
    ends = spark.createDataFrame([("t", 0, 10_000, 100, "list_offsets"), ("t", 0, 30_000, 200, "list_offsets")], ENDS)
    (row,) = lag_status(commits, ends, now_ms=30_000).collect()
    assert (row.lag, row.lag_seconds, row.window_commits) == (50, 10.0, 2)
    (late,) = lag_status(commits, ends.where("ts > 20000"), now_ms=30_000).collect()
    assert (late.lag, late.lag_seconds) == (50, None)


def test_velocity_counts_steps_back_and_commits_that_stay(spark: Any) -> None:
    commits = commits_of(spark, [(at, at * 1000, offset) for at, offset in enumerate((5, 5, 9, 7, 7))])
    (row,) = commit_velocity(commits).collect()
    assert (row.commits, row.advance, row.rewinds, row.max_rewind, row.flat_commits) == (5, 2, 1, 2, 2)


def test_no_number_that_a_client_commits_ends_a_query(spark: Any) -> None:
    """Of differences that 64 bits cannot hold: Spark has no null for them, but an error."""
    ends_of_int64 = [(1 << 63) - 1, -(1 << 63)]
    rows = [
        commit_row(at, 1000 * at, offset, partition=partition, commit_ts=offset)
        for partition in range(5)
        for at, offset in enumerate(ends_of_int64 * 2)
    ]
    commits = offset_commits(frame(spark, rows, OFFSET_COMMITS), frame(spark, [], BATCHES)).cache()
    ends = spark.createDataFrame([("t", n, 5000, ends_of_int64[0], "list_offsets") for n in range(5)], ENDS)
    status = lag_status(commits, ends, now_ms=5000).cache()
    assert {(row.current_offset, row.lag) for row in status.collect()} == {(-LARGEST, 2 * LARGEST)}
    (group,) = group_status(status).collect()
    assert (group.total_lag, group.max_lag) == (None, 2 * LARGEST), "the sum is beyond 64 bits"
    assert [row.lag for row in lag_history(commits, ends).collect()] == [2 * LARGEST] * 5
    latest = latest_offsets(commits, now_ms=5000).collect()
    assert {(row.committed_offset, row.age_ms) for row in latest} == {(ends_of_int64[1], LARGEST + 5000)}
    assert sum(row.commits for row in commit_velocity(commits).collect()) == 20
    commits.unpersist()
    status.unpersist()


def test_a_bound_is_not_called_lag(spark: Any) -> None:
    from pipeline.tables.lag import log_end_offsets

    commits = commits_of(spark, [(0, 1000, 5)]).unionByName(commits_of(spark, [(1, 1000, 9)], "ahead"))
    rows = {row.group: row for row in lag_status(commits, log_end_offsets(None, commits), now_ms=1000).collect()}
    assert (rows["g"].lag, rows["g"].lag_at_least, rows["g"].leo_source) == (None, 4, "max_committed")
    assert {row.beyond_end for row in rows.values()} == {None}
    assert {row.status for row in rows.values()} == {"UNKNOWN"}, "nothing is judged by a bound"


def test_a_topic_that_was_made_anew_has_the_lag_of_its_present_life(spark: Any) -> None:
    commits = commits_of(spark, [(0, 10_000, 500), (1, 60_000, 10)])
    samples = [(10_000, 600), (50_000, 0), (60_000, 10), (100_000, 50)]
    other = ("t", 1, 70_000, 1, "list_offsets")  # a partition of its own
    ends = spark.createDataFrame([*(("t", 0, ts, leo, "list_offsets") for ts, leo in samples), other], ENDS)
    (row,) = lag_status(commits, ends, now_ms=100_000).collect()
    assert (row.lag, row.lag_seconds) == (40, 40.0)


BEYOND: Final[Mapping[str, tuple[list[tuple[int, int, str]], int | None]]] = {
    "cut": ([(5_000, 500, "list_offsets"), (70_000, 30, "list_offsets")], 470),
    "cut in the same moment": ([(60_000, 30, "checkpoint")], 470),
    "its log ends": ([(50_000, 30, "log")], 470),
    "it is empty": ([(0, 0, "log")], 500),
    "it may have grown since": ([(50_000, 30, "list_offsets")], None),
    "it is there": ([(70_000, 500, "list_offsets")], 0),
    "lag": ([(70_000, 600, "list_offsets")], 0),
}
"""Topics: log ends as (time, end, source), and how far the last commit, 500 at 60,000, lies beyond them."""


def test_an_offset_that_lies_beyond_the_end_of_its_log_is_told(spark: Any) -> None:
    rows = [
        commit_row(2 * number + at, ts, offset, topic=topic)
        for number, topic in enumerate(BEYOND)
        for at, (ts, offset) in enumerate(((10_000, 400), (60_000, 500)))
    ]
    commits = offset_commits(frame(spark, rows, OFFSET_COMMITS), frame(spark, [], BATCHES))
    given = spark.createDataFrame([(topic, 0, *one) for topic, (ends, _) in BEYOND.items() for one in ends], ENDS)
    found = {row.topic: (row.beyond_end, row.lag) for row in lag_status(commits, given, now_ms=100_000).collect()}
    assert found == {topic: (beyond, max(0, ends[-1][1] - 500)) for topic, (ends, beyond) in BEYOND.items()}


def test_the_trend_is_a_slope_that_one_decrease_does_not_hide(spark: Any) -> None:
    lags = [10, 20, 30, 40, 50, 60, 70, 80, 90, 10]
    commits = commits_of(spark, [(n, n * 1000, (n + 1) * 1000 - lag) for n, lag in enumerate(lags)])
    ends = spark.createDataFrame([("t", 0, n * 1000, (n + 1) * 1000, "list_offsets") for n in range(10)], ENDS)
    (row,) = lag_status(commits, ends, now_ms=9000).collect()
    assert (row.lag, row.lag_trend) == (10, pytest.approx(5.09, abs=0.01))


def test_groups_are_as_bad_as_their_worst_partition(spark: Any) -> None:
    rows = [
        ("a", "OK", 0, 1.0),
        ("b", "WARN", 3, 1.0),
        ("b", "OK", 1, 0.5),
        ("c", "REWIND", 2, 1.0),
        ("c", "WARN", 2, 1.0),
        ("d", "OK", 0, 1.0),
        ("d", "UNKNOWN", None, 1.0),
    ]
    got = group_status(
        spark.createDataFrame(rows, "group string, status string, lag bigint, complete double")
    ).collect()
    assert {row.group: (row.status, row.total_lag) for row in got} == {
        "a": ("OK", 0),
        "b": ("WARN", 4),
        "c": ("ERR", 4),
        "d": ("UNKNOWN", 0),
    }
