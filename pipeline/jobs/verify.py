"""Two ways of reading a log that share no code must say the same: columns, and one record after the other."""

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from pipeline.decode.latest import latest
from pipeline.decode.layout import LogDir, logs_at, spans
from pipeline.decode.replay import Key, State, merged, replay
from pipeline.decode.rows import Options

SHOWN = 10
Report = Callable[[str], None]


class Verified(msgspec.Struct, frozen=True):
    """How many keys have an offset, and the first that differ: (key, replayed, columns, tables)."""

    logs: int
    keys: int
    equal: bool
    differences: list[str]


def verify(paths: list[str], tables: Path | None = None, report: Report = lambda _line: None) -> Verified:
    """Replay every log sequentially, reduce it by columns, and compare; with `latest_offsets` too if it is given.

    Copies of a log are read as one log. Raises FileNotFoundError when there is none to read.
    """
    found = logs_at(paths)
    replayed: dict[Key, int | None] = {}
    reduced: dict[Key, int | None] = {}
    for _, group in groupby(found, key=_partition):
        copies = list(group)
        state = replay(merged(copies), State(offsets={}, pending={}, group_records={}))
        replayed |= {key: value.offset for key, (_, value) in state.offsets.items()}
        rows = latest([span for log in copies for span in spans(log)], Options()).to_pylist()
        reduced |= {(row["group"], row["topic"], row["partition"]): row["committed_offset"] for row in rows}
        report(f"{', '.join(log.name for log in copies)}: {len(state.offsets)} offsets")
    ways = [reduced] if tables is None else [reduced, _built(tables)]
    keys = sorted(set(replayed).union(*ways), key=str)
    none = object()
    off = [key for key in keys if any(way.get(key, none) != replayed.get(key, none) for way in ways)]
    said = [
        f"{key}: replay {replayed.get(key)}, " + ", ".join(str(way.get(key)) for way in ways) for key in off[:SHOWN]
    ]
    return Verified(len(found), len(replayed), not off, said)


def _partition(log: LogDir) -> int:
    return log.partition


def _built(tables: Path) -> dict[Key, int | None]:
    rows = pq.read_table(tables / "tables" / "latest_offsets").to_pylist()
    return {(row["group"], row["topic"], row["partition"]): row["committed_offset"] for row in rows}
