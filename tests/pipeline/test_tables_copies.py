"""Copies of a log that diverged, groups in two logs, damage that is met twice: one answer, and a row that says why."""

from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pipeline.decode.layout import TOPIC, log_dirs
from pipeline.decode.replay import State, merge_copies, replay
from pipeline.decode.schema import BATCHES, GROUP_RECORDS, LOG_PROBLEMS, OFFSET_COMMITS
from pipeline.synth import Writer, commit
from pipeline.tables.commits import latest_offsets, offset_commits
from pipeline.tables.copies import Copies, log_problems, strays
from tests.pipeline.commit_rows import frame
from tests.pipeline.mishaps import diverged_copies, with_mishaps
from tests.pipeline.replicas import Replicas
from tests.pipeline.sources import load

pytestmark = pytest.mark.xdist_group("spark")


def test_the_tail_of_a_diverged_copy_does_not_count(spark: Any, tmp_path: Path) -> None:
    diverged_copies(tmp_path)
    raw = load(spark, tmp_path).cache()
    copies = Copies(load(spark, tmp_path, table="batches"))
    commits = offset_commits(copies.reduce(raw), copies.reduce_batches())
    (row,) = latest_offsets(commits, 0).collect()
    assert (row.log_offset, row.committed_offset) == (9, 709)
    assert commits.count() == 10
    assert [(one["kind"], one["log_dir"], one["from_offset"], one["to_offset"]) for one in copies.problems(raw)] == [
        ("diverged_copy", f"b/{TOPIC}-0", 4, 11)
    ]
    raw.unpersist()


def test_an_epoch_ends_where_the_next_one_begins_whatever_record_is_there(spark: Any) -> None:
    """The record at 4 in copy a is no commit: the one that copy b has there does not take its place.

    Beside it are copies of other partitions in directories of the same brokers: each has epochs of its own, and its
    records count that its leaders agreed on.
    """
    dice = Random(7)
    copies = {0: [("a", 0, 0, 3), ("a", 7, 4, 4), ("b", 0, 0, 4)]}
    kept, diverged = {(0, 3, 0, f"b/{TOPIC}-0")}, {(0, f"b/{TOPIC}-0", 4, 4)}
    records = {(0, offset, 0, f"b/{TOPIC}-0") for offset in (3, 4)}
    for partition in range(1, 30):
        replicas = Replicas(dice, dice.randrange(1, 5))
        for _ in range(dice.randrange(1, 7)):
            replicas.elect()
        copies[partition] = replicas.batches()
        held: dict[tuple[int, int], list[str]] = {}
        lost: dict[str, list[int]] = {}
        for name, epoch, base, last in copies[partition]:
            log_dir = f"{name}/{TOPIC}-{partition}"
            for at in range(base, last + 1):
                records.add((partition, at, epoch, log_dir))
                if replicas.agreed[at : at + 1] == [epoch]:
                    held.setdefault((at, epoch), []).append(log_dir)
                else:
                    lost.setdefault(log_dir, []).append(at)
        kept |= {(partition, *place, min(names)) for place, names in held.items()}
        diverged |= {(partition, log_dir, min(offsets), max(offsets)) for log_dir, offsets in lost.items()}
    batches = [
        {"log_partition": partition, "log_dir": f"{name}/{TOPIC}-{partition}", "leader_epoch": epoch,
         "base_offset": base, "last_offset": last}
        for partition, rows in copies.items() for name, epoch, base, last in rows
    ]  # fmt: skip
    names = ("log_partition", "log_offset", "leader_epoch_of_log", "log_dir")
    commits = frame(spark, [dict(zip(names, one, strict=True)) for one in sorted(records)], OFFSET_COMMITS)
    found = Copies(frame(spark, dice.sample(batches, len(batches)), BATCHES))
    assert set(map(tuple, found.reduce(commits).select(*names).collect())) == kept
    places = ("log_partition", "log_dir", "from_offset", "to_offset")
    assert {tuple(row[name] for name in places) for row in found.find_diverged()} == diverged


def test_copies_that_contradict_each_other_are_a_problem(spark: Any, tmp_path: Path) -> None:
    for broker, offset in (("a", 1), ("b", 2)):
        writer = Writer(tmp_path / broker / f"{TOPIC}-0")
        writer.append([commit(("g", "t", 0), 0, 1000)])
        writer.append([commit(("g", "t", 0), offset, 1000)])
    copies = Copies(load(spark, tmp_path, table="batches"))
    (problem,) = copies.problems(load(spark, tmp_path))
    assert (problem["kind"], problem["log_dir"], problem["from_offset"]) == ("conflicting_copy", f"b/{TOPIC}-0", 1)


def test_a_damaged_spot_that_was_read_twice_is_one_problem(spark: Any) -> None:
    spot = {"log_dir": "d", "log_partition": 0, "segment_base": 0, "pos": 5, "kind": "bad_length", "from_offset": 3}
    rows = [spot | {"to_offset": None}, spot | {"to_offset": 9}, spot | {"pos": 700}]
    empty = strays(frame(spark, [], OFFSET_COMMITS), frame(spark, [], GROUP_RECORDS))
    found = log_problems(frame(spark, rows, LOG_PROBLEMS), [], empty).orderBy("pos").collect()
    assert [(row.pos, row.to_offset) for row in found] == [(5, 9), (700, None)]


def test_a_group_counts_in_the_log_of_its_newest_record(spark: Any) -> None:
    """A commit or another record; of several logs with one as new, in the last. Elsewhere all that it has is told."""
    logs = [  # group, log, (offset, time) of its records there
        ("later", 0, [(5, 10), (9, 100)]), ("later", 7, [(3, 20), (8, 99), (4, 30)]),
        ("same", 1, [(1, 50)]), ("same", 2, [(2, 50)]), ("same", 11, [(6, 50), (7, 40)]),
        ("alone", 3, [(1, 5), (2, 6)]),
    ]  # fmt: skip
    rows = [
        {"group": group, "log_partition": log, "log_dir": f"d-{log}", "log_offset": offset, "record_ts": ts}
        for group, log, records in logs
        for offset, ts in records
    ]
    commits, records = frame(spark, rows[::2], OFFSET_COMMITS), frame(spark, rows[1::2], GROUP_RECORDS)
    found = strays(commits, records).select("group", "log_dir", "log_partition", "home", "from_offset", "to_offset")
    assert sorted(map(tuple, found.collect())) == [
        ("later", "d-7", 7, 0, 3, 8),
        ("same", "d-1", 1, 11, 1, 1),
        ("same", "d-2", 2, 11, 2, 2),
    ]


@pytest.mark.parametrize("seeds", [5, pytest.param(40, marks=pytest.mark.long)])
def test_tables_of_random_mishaps_equal_a_replay_or_a_problem_says_why_not(
    spark: Any, tmp_path: Path, seeds: int
) -> None:
    for seed in range(seeds):
        with_mishaps(tmp_path, 100 + seed, first=2 * seed)
    batches, raw = load(spark, tmp_path, table="batches").cache(), load(spark, tmp_path).cache()
    copies = Copies(batches)
    found = strays(copies.reduce(raw), frame(spark, [], GROUP_RECORDS)).cache()
    commits = offset_commits(copies.reduce(raw), copies.reduce_batches(), found)
    problems = log_problems(load(spark, tmp_path, table="log_problems"), copies.problems(raw), found).collect()
    damaged = {row.log_partition for row in problems if row.severity == "problem"}
    elsewhere = {(row.group, row.log_partition) for row in found.collect()}
    got = {
        (row.log_partition, row.group, row.topic, row.partition): (row.log_offset, row.committed_offset)
        for row in latest_offsets(commits, 0).collect()
    }
    want = {}
    for partition, logs in groupby(log_dirs([str(tmp_path)]), key=lambda log: log.partition):
        state = replay(merge_copies(list(logs)), State(offsets={}, pending={}, group_records={}))
        want |= {(partition, *key): (at, value.offset) for key, (at, value) in state.offsets.items()}
    differing = {key for key in want.keys() | got.keys() if want.get(key) != got.get(key)}
    assert {key for key in differing if key[0] not in damaged and (key[1], key[0]) not in elsewhere} == set()
    assert 0 < len(damaged) < 2 * seeds
    for kept in (batches, raw, found):
        kept.unpersist()
