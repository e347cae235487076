"""Read logs in two ways and compare the results: by columns, and one record after the other."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from pipeline import published
from pipeline.decode.copies import describe_conflict
from pipeline.decode.files import Place
from pipeline.decode.latest import latest_and_problems
from pipeline.decode.layout import TOPIC, hold, logs_at, spans
from pipeline.decode.logs import LogDir
from pipeline.decode.plain import PlainBatch, PlainCommit, PlainRecord
from pipeline.decode.replay import State, merge_copies, replay
from pipeline.decode.rows import Options

SHOWN = 10
Report = Callable[[str], None]
Key = tuple[int, str, str, int]  # partition of the log, group, topic, partition
COLUMNS = ("log_offset", "committed_offset", "leader_epoch", "metadata", "commit_ts", "expire_ts", "topic_id")
Row = tuple[Any, ...]  # by COLUMNS


class VerifyReport(msgspec.Struct, frozen=True):
    """The result of a comparison.

    `differences` describes keys whose rows differ; `unexplained` counts those in logs without damage. `unread_bytes`
    are the bytes that cannot be read, including an unfinished batch at the end of a log that is being written.
    `problems` are the rows of `log_problems` with the severity `problem`. `behind` are logs that have grown since the
    tables were made of them.
    """

    logs: int
    keys: int
    equal: bool
    unexplained: int
    differences: list[str]
    problems: list[str]
    behind: list[str]
    unread_bytes: int


def verify(paths: list[str], tables: Place | None = None, report: Report = lambda _line: None) -> VerifyReport:
    """Replay every log, reduce it by columns, and compare the rows, also with `latest_offsets` of `tables` if given.

    Copies of a log are read as one log, each as it is now: it may be written to meanwhile. Raises FileNotFoundError if
    there is no log.
    """
    found = [hold(log) for log in logs_at(paths)]
    replayed: dict[Key, Row] = {}
    reduced: dict[Key, Row] = {}
    problems: list[dict[str, Any]] = []
    ends: dict[int, int] = {}
    for partition, group in groupby(found, key=_partition):
        copies = list(group)
        conflicts: dict[str, int] = {}  # copy -> first offset at which it contradicts another one

        def note(log: LogDir, offset: int, conflicts: dict[str, int] = conflicts) -> None:
            conflicts.setdefault(log.name, offset)

        entries = _note_end(merge_copies(copies, note), ends, partition)
        state = replay(entries, State(offsets={}, pending={}, group_records={}))
        replayed |= {(partition, *key): _make_row(at, value) for key, (at, value) in state.offsets.items()}
        rows, unread = latest_and_problems([span for log in copies for span in spans(log)], Options())
        reduced |= _by_key(rows.to_pylist())
        problems += unread + [describe_conflict(partition, log, offset) for log, offset in conflicts.items()]
        report(f"{', '.join(log.name for log in copies)}: {len(state.offsets)} offsets")
    published_rows, behind = ({}, {}) if tables is None else _read_published_offsets(tables, ends)
    ways = {"columns": reduced} if tables is None else {"columns": reduced, "tables": published_rows}
    strays = _find_in_several_logs(replayed)
    keys = sorted(set(replayed).union(*ways.values()), key=str)
    differing = [
        key
        for key in keys
        if reduced.get(key) != replayed.get(key)
        or (tables is not None and _contradicts(published_rows.get(key), replayed.get(key), is_behind=key[0] in behind))
    ]
    hurt = [one for one in problems if one["severity"] == "problem"]
    damaged = {one["log_partition"] for one in hurt}
    unexplained = [key for key in differing if key[0] not in damaged and key[1] not in strays]
    return VerifyReport(
        logs=len(found),
        keys=len(replayed),
        equal=not differing,
        unexplained=len(unexplained),
        differences=[
            _describe_difference(key, {"replay": replayed, **ways}) for key in (unexplained or differing)[:SHOWN]
        ],
        problems=[_describe_problem(one) for one in hurt]
        + [f"group {group} is in several logs" for group in sorted(strays)],
        behind=[behind[partition] for partition in sorted(behind)],
        unread_bytes=sum({_place(one): one["length"] for one in problems}.values()),
    )


def _partition(log: LogDir) -> int:
    return log.partition


def _make_row(at: int, value: PlainCommit) -> Row:
    metadata = None if value.undecodable else value.metadata or ""
    return at, value.offset, value.leader_epoch, metadata, value.commit_ts, value.expire_ts, value.topic_id


def _by_key(rows: list[dict[str, Any]]) -> dict[Key, Row]:
    """Return rows of `latest_offsets` by key. Null metadata become empty, unless they are undecodable."""
    for row in rows:
        row["metadata"] = None if row["undecodable"] else row["metadata"] or ""
    return {
        (row["log_partition"], row["group"], row["topic"], row["partition"]): tuple(row[name] for name in COLUMNS)
        for row in rows
    }


def _note_end(
    entries: Iterator[tuple[PlainBatch, PlainRecord]], ends: dict[int, int], partition: int
) -> Iterator[tuple[PlainBatch, PlainRecord]]:
    """Pass entries on, and note the offset of the last one."""
    for batch, record in entries:
        ends[partition] = record.offset
        yield batch, record


def _read_published_offsets(tables: Place, ends: dict[int, int]) -> tuple[dict[Key, Row], dict[int, str]]:
    """Return the rows of tables, and of each log that goes on behind what they were made of that it does."""
    snapshot = published.load(tables)
    rows, health = (
        published.dataset(tables, snapshot, name).to_table().to_pylist() for name in ("latest_offsets", "log_health")
    )
    made_of: dict[int, int] = {}
    for log in health:
        partition, last = log["log_partition"], log["last_offset"]
        made_of[partition] = max(made_of.get(partition, -1), -1 if last is None else last)
    behind = {
        partition: f"{TOPIC}-{partition}: made of offsets up to {made_of.get(partition, -1)}, the log has up to {end}"
        for partition, end in ends.items()
        if end > made_of.get(partition, -1)
    }
    return _by_key(rows), behind


def _contradicts(was: Row | None, now: Row | None, *, is_behind: bool) -> bool:
    """Return whether a row of tables is not what the log says. What a log has taken in since may supersede and remove
    rows, also by the end of a transaction, but brings none back."""
    if is_behind and (was is None or now is None or was[0] < now[0]):
        return False
    return was != now


def _find_in_several_logs(replayed: dict[Key, Row]) -> set[str]:
    homes: dict[str, set[int]] = {}
    for partition, group, _, _ in replayed:
        homes.setdefault(group, set()).add(partition)
    return {group for group, partitions in homes.items() if len(partitions) > 1}


def _describe_difference(key: Key, ways: dict[str, dict[Key, Row]]) -> str:
    """Return the row of each way, with only the columns that differ."""
    rows = [way.get(key) for way in ways.values()]
    if None in rows:
        return f"{key}: " + ", ".join(f"{name} {way.get(key)}" for name, way in ways.items())
    columns = [i for i in range(len(COLUMNS)) if len({row[i] for row in rows if row is not None}) > 1]
    return f"{key}: " + ", ".join(
        f"{name} " + " ".join(f"{COLUMNS[i]}={way[key][i]}" for i in columns) for name, way in ways.items()
    )


def _place(one: dict[str, Any]) -> tuple[str, int, int]:
    """Return where the bytes lie of which a problem tells: two may tell of the same."""
    return one["log_dir"], one["segment_base"], one["pos"]


def _describe_problem(one: dict[str, Any]) -> str:
    to = "the end" if one["to_offset"] is None else one["to_offset"]
    place = f"{one['log_dir']} at byte {one['pos']}"
    return f"{place}: {one['kind']}, offsets {one['from_offset']} to {to}, {one['detail']}"
