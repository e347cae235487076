"""The last effective commit of every key, reduced while decoding: what crosses to Spark is keys, not history.

The rule, free of order and proved against sequential replay: of a key's records the one with the highest offset counts
among those that are no transaction's, tombstones (whatever their producer), and those of a transaction whose next
marker is COMMIT. A key whose winner is a tombstone has no offset.

One task reads a whole partition, since a transaction's marker may stand in any later segment of it.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.decode.copies import NEVER, Batch, find_divergence, find_epoch_ends
from pipeline.decode.logs import Span
from pipeline.decode.records import ABORT, COMMIT
from pipeline.decode.rows import Options, SpanDecoder
from pipeline.decode.schema import OFFSET_COMMITS
from pipeline.decode.transactions import note_markers, verdicts

KEY = ["group", "topic", "partition"]
TABLES = frozenset({"batches", "offset_commits", "log_problems"})
KEEP_ROWS = 1 << 18  # held back before they are reduced again


def latest(spans: Iterable[Span], options: Options) -> pa.Table:
    """Return the winners of the spans of one partition's log (or of several copies of it), tombstones left out."""
    return latest_and_problems(spans, options)[0]


def latest_and_problems(spans: Iterable[Span], options: Options) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Return the same, and what could not be read or believed: rows of `log_problems`."""
    reads = list(spans)
    copies = _copies(reads, options)
    ends = find_epoch_ends(copies)
    reduced = Reduction(KEY, OFFSET_COMMITS)
    problems = find_divergence(reads[0].log.partition, copies) if reads else []
    for span in reads:
        for rows in SpanDecoder(span, msgspec.structs.replace(options, tables=TABLES)):
            table = pa.Table.from_batches([rows.batch])
            if rows.table == "log_problems":
                problems += table.to_pylist()
            elif rows.table == "batches":
                note_markers(reduced.marks, _before(table, "leader_epoch", "base_offset", ends))
            else:
                reduced.add(_before(table, "leader_epoch_of_log", "log_offset", ends))
    return reduced.result(), problems


def _copies(spans: list[Span], options: Options) -> list[Batch]:
    """Return the batches of several copies of a log; empty for one log."""
    if len({span.log.name for span in spans}) < 2:
        return []
    read = msgspec.structs.replace(options, tables=frozenset({"batches"}), since_ms=None, until_ms=None)
    columns = ("log_dir", "leader_epoch", "base_offset", "last_offset")
    batches = [rows.batch for span in spans for rows in SpanDecoder(span, read)]
    return [row for batch in batches for row in zip(*(batch[name].to_pylist() for name in columns), strict=True)]


def _before(rows: pa.Table, epoch: str, offset: str, ends: dict[int, int]) -> pa.Table:
    """Return the rows that lie before the end of their leader epoch."""
    if not ends or not len(rows):
        return rows
    end = np.array([ends.get(one, NEVER) for one in rows[epoch].to_pylist()], np.int64)
    return rows.filter(pa.array(rows[offset].to_numpy() < end))


class Reduction:
    """The candidates for the latest row of each key: `settled` rows count, `pending` ones wait for a marker.

    `marks` are the ends of transactions, producer id -> offset -> commits. They are forgotten when what waits has been
    settled by them: rows of the same log that come later lie behind them, and another copy of it brings its own.
    """

    def __init__(self, key: list[str], schema: pa.Schema) -> None:
        self.key = key
        self.settled = schema.empty_table()
        self.pending = schema.empty_table()
        self.marks: dict[int, dict[int, bool]] = {}

    def mark(self, ends: Iterable[tuple[int, int, int]]) -> None:
        """Note control records: (producer id, offset, type). They come before the rows that lie around them."""
        for producer, at, kind in ends:
            if kind in (ABORT, COMMIT):
                self.marks.setdefault(producer, {})[at] = kind == COMMIT

    def add(self, rows: pa.Table) -> None:
        """Add rows: the key's columns, `log_offset`, `producer_id`, `is_txn`, `is_tombstone`, and where they lie."""
        certain = pc.or_(pc.invert(rows["is_txn"]), rows["is_tombstone"])
        self.settled = pa.concat_tables([self.settled, _winners(rows.filter(certain), self.key)])
        self.pending = pa.concat_tables([self.pending, rows.filter(pc.invert(certain))])
        if len(self.settled) + len(self.pending) > KEEP_ROWS:
            self.settle()

    def settle(self) -> None:
        """Decide what the marks decide: `settled` then holds one row a key, `pending` what still waits."""
        ended, committed = verdicts(self.pending, self.marks)
        self.settled = _winners(pa.concat_tables([self.settled, self.pending.filter(pa.array(committed))]), self.key)
        self.pending = _winners(self.pending.filter(pa.array(~ended)), [*self.key, "producer_id"])
        self.marks = {}

    def result(self) -> pa.Table:
        """Return the winners; what still waits does not count."""
        self.settle()
        return self.settled.filter(pc.invert(self.settled["is_tombstone"]))


def _winners(rows: pa.Table, key: list[str]) -> pa.Table:
    """Return of every key the row with the highest offset; of copies of that row the one of the highest epoch."""
    if not len(rows):
        return rows
    best = rows.group_by(key).aggregate([("log_offset", "max")])["log_offset_max"].to_numpy()
    won = rows.filter(pa.array(np.isin(rows["log_offset"].to_numpy(), best)))
    if len(won) == len(best):
        return won
    won = won.sort_by([("log_offset", "ascending"), ("leader_epoch_of_log", "descending"), ("log_dir", "ascending")])
    offsets = won["log_offset"].to_numpy()
    return won.filter(pa.array(np.concatenate(([True], offsets[1:] != offsets[:-1]))))
