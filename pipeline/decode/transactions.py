"""Find the transactional commits that count: their producer's next marker in the same log is COMMIT.

A marker may lie in a later span than the commits that it ends, so reading looks ahead for it, over headers only.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.decode.cluster import ClusterLog, relist
from pipeline.decode.headers import Array
from pipeline.decode.logs import Position, Span
from pipeline.decode.positions import between
from pipeline.decode.records import ABORT, COMMIT
from pipeline.decode.rows import Options, SpanDecoder
from pipeline.decode.schema import OFFSET_COMMITS

NONE, COMMITTED, ABORTED, OPEN = "none", "committed", "aborted", "open"
EFFECTIVE_COMMITS = OFFSET_COMMITS.append(pa.field("txn_state", pa.string())).append(pa.field("effective", pa.bool_()))
HEADERS = frozenset({"batches"})
Markers = dict[int, dict[int, bool]]  # producer id -> offset -> whether it commits


def read_commits(spans: Iterable[Span], options: Options) -> Iterator[pa.RecordBatch]:
    """Yield the offset commits of some spans with `txn_state` and `effective`; those in transactions come last."""
    for _, of_log in groupby(spans, key=lambda span: span.log.name):
        yield from _read_log(list(of_log), options)


def _read_log(spans: list[Span], options: Options) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    markers: Markers = {}
    position = Position()
    for span in spans:
        decoder = SpanDecoder(span, msgspec.structs.replace(options, tables=HEADERS | {"offset_commits"}))
        for rows in decoder:
            if rows.table == "batches":
                note_markers(markers, rows.batch)
                continue
            is_txn = rows.batch["is_txn"]
            if not is_txn.true_count:  # mostly: no row need be copied
                yield _with_state(rows.batch, None, None)
                continue
            yield _with_state(rows.batch.filter(pc.invert(is_txn)), None, None)
            waiting.append(rows.batch.filter(is_txn))
        position = Position(decoder.next_offset, span.segment.base_offset, decoder.end_pos)
    rest = pa.Table.from_batches(waiting, OFFSET_COMMITS).combine_chunks()
    if len(rest):
        _look_ahead(rest, markers, spans[-1], position, options)
        for batch in rest.to_batches():
            yield _with_state(batch, *verdicts(batch, markers))


def note_markers(markers: Markers, batches: pa.RecordBatch | pa.Table) -> None:
    """Add the ends of transactions among some batches."""
    ends = batches.filter(batches["is_control"]).select(["producer_id", "base_offset", "control_type"])
    for row in ends.to_pylist():
        if row["control_type"] in (ABORT, COMMIT):
            markers.setdefault(row["producer_id"], {})[row["base_offset"]] = row["control_type"] == COMMIT


def verdicts(rows: pa.RecordBatch | pa.Table, markers: Markers) -> tuple[Array, Array]:
    """Return which rows lie before a marker of their producer, and for which of them the next one commits."""
    producers, offsets = rows["producer_id"].to_numpy(), rows["log_offset"].to_numpy()
    ended, committed = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    for producer, marks in markers.items():
        at = np.array(sorted(marks), np.int64)
        commits = np.array([marks[one] for one in at.tolist()] + [False], bool)
        mine = producers == producer
        following = np.searchsorted(at, offsets[mine], side="right")
        ended[mine], committed[mine] = following < len(at), commits[following]
    return ended, committed


def _look_ahead(rows: pa.Table, markers: Markers, last: Span, position: Position, options: Options) -> None:
    """Read headers behind the last span until each transaction that is open there has its marker, or the log ends."""
    newest = rows.group_by("producer_id").aggregate([("log_offset", "max")]).to_pylist()
    open_at: dict[int, int] = {row["producer_id"]: row["log_offset_max"] for row in newest}
    headers = msgspec.structs.replace(options, tables=HEADERS, since_ms=None, until_ms=None, groups=None)

    def is_open(producer: int) -> bool:
        return max(markers.get(producer, {}), default=-1) < open_at[producer]

    log = relist(last.log) if isinstance(last.log, ClusterLog) else last.log
    for span in between(log, position):
        for rows_ahead in SpanDecoder(span, headers):
            if not any(map(is_open, open_at)):
                return
            note_markers(markers, rows_ahead.batch)


def _with_state(rows: pa.RecordBatch, ended: Array | None, committed: Array | None) -> pa.RecordBatch:
    if ended is None or committed is None:
        state = pa.repeat(pa.scalar(NONE), len(rows))
        effective = pa.repeat(pa.scalar(True), len(rows))
    else:
        which = np.where(committed, 0, np.where(ended, 1, 2))
        state = pa.array([COMMITTED, ABORTED, OPEN], pa.string()).take(pa.array(which))
        effective = pc.or_(pa.array(committed), rows["is_tombstone"])
    return pa.RecordBatch.from_arrays([*rows.columns, state, effective], schema=EFFECTIVE_COMMITS)
