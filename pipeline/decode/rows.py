"""A span becomes rows of the raw tables, chunk by chunk: those that the topic of its log has."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from coordinator.core.catalog.names import SHARE_STATE_TOPIC
from pipeline.decode import groups, shares
from pipeline.decode.logs import Span
from pipeline.decode.offsets import Commits
from pipeline.decode.records import Records, find_unread_markers, read_markers, read_records
from pipeline.decode.schema import (
    BATCHES,
    GROUP_RECORDS,
    LOG_PROBLEMS,
    OFFSET_COMMITS,
    SHARE_RECORDS,
    TABLES,
    UNKNOWN_RECORDS,
)
from pipeline.decode.spans import CHUNK_BYTES, Chunk, Problem, SpanReader
from pipeline.errors import LogDamagedError


class Options(msgspec.Struct, frozen=True):
    """Options of decoding. `groups` and the times select rows; they never change a row's values."""

    tables: frozenset[str] = frozenset(TABLES)
    on_error: str = "record"
    chunk_bytes: int = CHUNK_BYTES
    groups: frozenset[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None  # exclusive
    is_continued: bool = False  # whether reading goes on where it ends


class Rows(msgspec.Struct, frozen=True):
    """Some rows of one of the raw tables."""

    table: str
    batch: pa.RecordBatch


def reader_of(span: Span, options: Options) -> SpanReader:
    """Return what reads the span: from its file, or from its cluster."""
    if span.log.is_on_cluster:
        from pipeline.decode.cluster import ClusterSpanReader

        return ClusterSpanReader(span, options.on_error)
    return SpanReader(span, options.on_error, options.chunk_bytes, is_continued=options.is_continued)


class SpanDecoder:
    """Iterates over the rows of a span. `end_pos` is then the byte after the last whole batch."""

    def __init__(self, span: Span, options: Options) -> None:
        self.span = span
        self.options = options
        self.reader = reader_of(span, options)
        self.problems: list[Problem] = []

    @property
    def end_pos(self) -> int:
        """Bytes up to here have been decoded."""
        return self.reader.end_pos

    @property
    def next_offset(self) -> int:
        """The offset after the last one that was believed."""
        return max(self.reader.next_offset, self.span.from_offset)

    def __iter__(self) -> Iterator[Rows]:
        for chunk in self.reader:
            for rows in map(self._within, self._chunk(chunk)):
                if rows.table in self.options.tables and rows.batch.num_rows:
                    yield rows
        first = self.span.from_offset
        found = [p for p in self.reader.problems + self.problems if p.to_offset is None or p.to_offset >= first]
        if found and "log_problems" in self.options.tables:
            yield Rows("log_problems", self._problem_rows(found))

    def _chunk(self, chunk: Chunk) -> Iterator[Rows]:
        wanted, markers = self.options.tables, read_markers(chunk)
        if "batches" in wanted:
            yield Rows("batches", self._batch_rows(chunk, markers))
        if wanted <= {"batches"}:
            return
        found, problems = read_records(chunk)
        self._report(problems + find_unread_markers(chunk, markers))
        if self.span.log.topic == SHARE_STATE_TOPIC:
            states, unread = shares.decode(found)
            yield Rows("share_records", self._keep_wanted_rows(self._rows_of(SHARE_RECORDS, found, states)))
            yield Rows("unknown_records", self._unknown_rows(found, unread))
            return
        commits = Commits(found)
        self._doubtful(chunk, found, commits)
        yield Rows("offset_commits", self._keep_wanted_rows(self._commit_rows(found, commits)))
        unknown = [self._undecoded_rows(found, commits)]
        if len(commits.others):
            decoded, undecoded = groups.decode(found, commits.others, commits.key_versions)
            yield Rows("group_records", self._keep_wanted_rows(self._rows_of(GROUP_RECORDS, found, decoded)))
            unknown.append(undecoded)
        yield Rows("unknown_records", self._unknown_rows(found, [row for rows in unknown for row in rows]))

    def _within(self, rows: Rows) -> Rows:
        """Keep only the offsets that are this span's to read."""
        first, until = self.span.from_offset, self.span.until_offset
        offsets = rows.batch.column("last_offset" if rows.table == "batches" else "log_offset").to_numpy()
        keep = offsets >= first if until is None else (offsets >= first) & (offsets < until)
        return rows if keep.all() else Rows(rows.table, rows.batch.filter(pa.array(keep)))

    def _report(self, problems: list[Problem]) -> None:
        if self.span.log.is_on_cluster:  # the place of a batch in its file is not known
            problems = [msgspec.structs.replace(one, pos=one.from_offset or 0) for one in problems]
        for problem in problems:
            if self.options.on_error == "fail" and problem.severity == "problem":
                raise LogDamagedError(
                    f"{self.span.segment.path} at byte {problem.pos}: {problem.kind}, {problem.detail}"
                )
        self.problems += problems

    def _doubtful(self, chunk: Chunk, found: Records, commits: Commits) -> None:
        """Report what was read with a doubt: text that is no UTF-8, values of versions to come."""
        headers = found.headers
        for flags, kind in ((commits.bad_utf8, "bad_utf8"), (commits.undecodable, "undecodable_value")):
            for i in commits.index[flags].tolist():
                b = found.batch[i]
                offset = int(found.offset[i])
                pos, size = chunk.file_pos + int(headers.pos[b]), int(headers.length[b]) + 12
                self._report([Problem(kind, pos, size, f"in the record at offset {offset}", offset, offset)])

    def _place(self, schema: pa.Schema, rows: int) -> dict[str, pa.Array]:
        log = self.span.log
        place = {
            "log_dir": pa.repeat(pa.scalar(log.name), rows),
            "log_partition": pa.repeat(pa.scalar(log.partition, pa.int32()), rows),
        }
        if "segment_base" in schema.names:
            place["segment_base"] = pa.repeat(pa.scalar(self.span.segment.base_offset), rows)
        return place

    def _batch(self, schema: pa.Schema, rows: int, columns: dict[str, object]) -> pa.RecordBatch:
        arrays: dict[str, object] = {**self._place(schema, rows), **columns}
        return pa.RecordBatch.from_arrays([_array(arrays[f.name], f.type) for f in schema], schema=schema)

    def _batch_rows(self, chunk: Chunk, known: dict[int, tuple[int, int]]) -> pa.RecordBatch:
        h = chunk.headers
        kinds = [
            known.get(base) if control else None
            for base, control in zip(h.base_offset.tolist(), h.is_control.tolist(), strict=True)
        ]
        return self._batch(
            BATCHES,
            len(h),
            {
                "pos": h.base_offset if self.span.log.is_on_cluster else h.pos + chunk.file_pos,
                "size": h.length + 12,
                "base_offset": h.base_offset,
                "last_offset": h.last_offset,
                "records": h.count,
                "leader_epoch": h.leader_epoch,
                "magic": h.magic,
                "codec": h.codec.astype(np.int8),
                "is_txn": h.is_txn,
                "is_control": h.is_control,
                "control_type": [None if kind is None else kind[0] for kind in kinds],
                "coordinator_epoch": [None if kind is None else kind[1] for kind in kinds],
                "producer_id": h.producer_id,
                "producer_epoch": h.producer_epoch,
                "base_sequence": h.base_sequence,
                "base_ts": h.base_ts,
                "max_ts": h.max_ts,
                "has_horizon": (h.attributes & 64) != 0,
            },
        )

    def _commit_rows(self, found: Records, commits: Commits) -> pa.RecordBatch:
        at = commits.index
        of = found.batch[at]
        h = found.headers
        return self._batch(
            OFFSET_COMMITS,
            len(at),
            {
                "log_offset": found.offset[at],
                "batch_base": h.base_offset[of],
                "leader_epoch_of_log": h.leader_epoch[of],
                "record_ts": found.ts[at],
                "producer_id": h.producer_id[of],
                "is_txn": h.is_txn[of],
                "group": commits.group,
                "topic": commits.topic,
                "partition": commits.partition,
                "key_version": commits.key_version,
                "value_version": commits.value_version,
                "is_tombstone": commits.is_tombstone,
                "undecodable": commits.undecodable,
                "committed_offset": commits.offset,
                "leader_epoch": commits.leader_epoch,
                "metadata": commits.metadata,
                "commit_ts": commits.commit_ts,
                "expire_ts": commits.expire_ts,
                "topic_id": commits.topic_id,
            },
        )

    def _rows_of(
        self, schema: pa.Schema, found: Records, decoded: Sequence[groups.GroupRecord | shares.ShareRecord]
    ) -> pa.RecordBatch:
        at = np.array([row.index for row in decoded], np.int64)
        columns: dict[str, object] = {
            "log_offset": found.offset[at],
            "leader_epoch_of_log": found.headers.leader_epoch[found.batch[at]],
            "record_ts": found.ts[at],
        }
        for name in schema.names[5:]:
            columns[name] = [getattr(row, name) for row in decoded]
        return self._batch(schema, len(decoded), columns)

    def _undecoded_rows(self, found: Records, commits: Commits) -> list[groups.UndecodedRecord]:
        """Return offset commits whose value is of a later version, or cannot be read."""
        rows = []
        for i in np.flatnonzero(commits.undecodable | commits.newer).tolist():
            reason = "value cannot be read" if commits.undecodable[i] else "value of a later version, read as version 4"
            rows.append(groups.undecoded_row(found, int(commits.index[i]), int(commits.key_version[i]), reason))
        return rows

    def _unknown_rows(self, found: Records, undecoded: list[groups.UndecodedRecord]) -> pa.RecordBatch:
        at = np.array([row.index for row in undecoded], np.int64)
        columns: dict[str, object] = {"log_offset": found.offset[at], "record_ts": found.ts[at]}
        for name in UNKNOWN_RECORDS.names[4:]:
            columns[name] = [getattr(row, name) for row in undecoded]
        return self._batch(UNKNOWN_RECORDS, len(undecoded), columns)

    def _problem_rows(self, found: list[Problem]) -> pa.RecordBatch:
        columns: dict[str, object] = {name: [getattr(p, name) for p in found] for name in LOG_PROBLEMS.names[3:]}
        return self._batch(LOG_PROBLEMS, len(found), columns)

    def _keep_wanted_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Keep only the groups and times that were asked for."""
        options = self.options
        keep = np.ones(rows.num_rows, bool)
        if options.groups is not None:
            keep &= np.isin(rows.column("group").to_numpy(zero_copy_only=False), list(options.groups))
        times = rows.column("record_ts").to_numpy()
        if options.since_ms is not None:
            keep &= times >= options.since_ms
        if options.until_ms is not None:
            keep &= times < options.until_ms
        return rows if keep.all() else rows.filter(pa.array(keep))


def _array(values: object, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values if values.type == kind else values.cast(kind)
    return pa.array(values, kind)


def read_table(spans: list[Span], table: str, options: Options | None = None) -> pa.Table:
    """Return all rows of one raw table, in memory: for small logs, tests and the commands that need no Spark."""
    options = msgspec.structs.replace(options or Options(), tables=frozenset({table}))
    batches = [rows.batch for span in spans for rows in SpanDecoder(span, options)]
    return pa.Table.from_batches(batches, TABLES[table])
