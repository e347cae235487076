"""Commits of a group, gathered by the step that they fall into: the plain way, for logs that fit into memory.

`pipeline.tables.history` does the same with Spark.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pipeline.history.departures import follow
from pipeline.history.group import GroupHistory
from pipeline.history.ownership import Partition
from pipeline.history.records import (
    STEPS,
    Activity,
    Record,
    Row,
)

Steps = dict[Partition, Activity]


def read_histories(records: Iterable[Mapping[str, Any]], commits: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield all rows of all groups, from rows of `group_records` and of effective `offset_commits`."""
    of_group: dict[str, list[Record]] = defaultdict(list)
    for row in records:
        of_group[row["group"]].append(msgspec.convert(dict(row), Record, strict=False))
    committed: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in commits:
        if not row["is_tombstone"]:
            committed[row["group"]].append(row)
    for group, own in sorted(of_group.items()):
        own.sort(key=lambda record: record.log_offset)
        yield from _history(group, own, gather_activity(own, committed[group]))


def _history(group: str, records: list[Record], activity: Mapping[int, Steps]) -> Iterator[Row]:
    history = GroupHistory(group)
    _observe(history, activity.get(-1, {}))
    for record in records:
        yield from history.apply(record)
        if record.key_version in STEPS:
            _observe(history, activity.get(record.log_offset, {}))
    yield from history.end()


def _observe(history: GroupHistory, step: Steps) -> None:
    for (topic, partition), activity in step.items():
        history.observe(topic, partition, activity)


def gather_activity(records: list[Record], commits: Iterable[Mapping[str, Any]]) -> dict[int, Steps]:
    """Gather the commits of each step, by the offset of the record that began it (-1: before the first)."""
    steps = [record for record in records if record.key_version in STEPS]
    offsets = [record.log_offset for record in steps]
    found: dict[int, Steps] = defaultdict(dict)
    for row in commits:
        at = bisect_left(offsets, row["log_offset"])  # steps before the commit
        step = found[offsets[at - 1] if at else -1]
        key = (row["topic"], row["partition"])
        one = activity_of(row["record_ts"], is_txn=row["is_txn"])
        step[key] = follow(step[key], one) if key in step else one
    return found


def activity_of(ts: int, *, is_txn: bool) -> Activity:
    """Return the activity that is one commit."""
    return Activity(ts, ts, None if is_txn else ts)
