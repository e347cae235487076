"""Compact copies of logs, and prove that they say the same. The input is only ever read.

Like Kafka's cleaner: batches keep their offsets, of every key the last record that counts stays, tombstones stay too, a
transaction's marker stays while data of it does, data of aborted transactions goes. Neither the newest segment nor
anything from the first open transaction on is touched; they are copied as they are. Nothing is compacted that has
problems.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.decode import replay
from pipeline.decode.headers import Headers
from pipeline.decode.latest import Reduction
from pipeline.decode.layout import hold, log_dirs, logs_at, spans
from pipeline.decode.logs import LogDir, Segment, Span
from pipeline.decode.records import Records, find_unread_markers, read_markers, read_records
from pipeline.decode.spans import Chunk, SpanReader
from pipeline.decode.strings import byte_strings
from pipeline.errors import CompactionRefusedError
from protocol import record_batch
from protocol.compression import Meter

KEYED = pa.schema(
    [
        ("key", pa.binary()),
        ("log_offset", pa.int64()),
        ("record_ts", pa.int64()),
        ("producer_id", pa.int64()),
        ("is_txn", pa.bool_()),
        ("is_tombstone", pa.bool_()),
        ("leader_epoch_of_log", pa.int32()),
        ("log_dir", pa.string()),
    ]
)


class CompactionReport(msgspec.Struct, frozen=True):
    """One log before and after, in bytes and records."""

    log: str
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int
    equal: bool  # whether replay of both gives the same


def compact(source: str, target: Path, drop_tombstones_before_ms: int | None = None) -> Iterator[CompactionReport]:
    """Compact every log below `source` into a directory of the same name below `target`.

    The copies are made beside `target`, which appears when all of them are whole and proved; a failure leaves nothing.
    Raises FileNotFoundError without any log, FileExistsError for a target that is there, CompactionRefusedError.
    """
    logs = [hold(log) for log in logs_at([source])]
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{target} is there already: expected a directory that is new or empty")
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.absolute().parent))
    are_equal = True
    try:
        for log in logs:
            result = _compact(log, unfinished / (log.path or log.name), drop_tombstones_before_ms)
            are_equal &= result.equal
            yield result
        if are_equal:
            unfinished.chmod(0o755)
            unfinished.replace(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _compact(log: LogDir, directory: Path, drop_before_ms: int | None) -> CompactionReport:
    whole = spans(log, 1 << 62)  # whole segments
    keep, limit, before = _survivors(whole, drop_before_ms)
    directory.mkdir(parents=True)
    after = _write_segments(log, whole, directory, keep, limit)
    bytes_before = sum(span.segment.size for span in whole)
    bytes_after = sum(file.stat().st_size for file in directory.glob("*.log"))
    return CompactionReport(log.name, bytes_before, bytes_after, before, after, same(log, directory))


def _write_segments(log: LogDir, found: list[Span], directory: Path, keep: np.ndarray, limit: int) -> int:
    """Write the segments of the copy; how many records it has."""
    after = 0
    owed: set[int] = set()  # producers of whose running transaction data was kept: their marker stays
    for span in found:
        if span.active or (span.ceiling or 0) > limit:
            kept = sum(len(_read(chunk)) for chunk in SpanReader(span))
            _put(directory, span.segment, log.store.read(span.segment.path, 0, span.segment.size))
        else:
            data, kept = _rewritten(span, keep, owed)
            if data:
                _put(directory, span.segment, data)
        after += kept
    return after


def _put(directory: Path, segment: Segment, data: bytes) -> None:
    """Write a segment, under another name first: a copy that was cut short is no segment."""
    name = segment.path.rsplit("/", 1)[-1]
    unfinished = directory / f"{name}.cleaned"
    unfinished.write_bytes(data)
    unfinished.rename(directory / name)


def _survivors(found: list[Span], drop_before_ms: int | None) -> tuple[np.ndarray, int, int]:
    """Return the offsets of the records that stay, in order; the first of an open transaction; how many were seen."""
    reduction, seen = Reduction(["key"], KEYED), 0
    started: dict[int, int] = {}  # producer id -> first offset of its running transaction
    end = 0
    for span in found:
        reader = SpanReader(span)
        for chunk in reader:
            _transactions(chunk, started)
            read = _read(chunk)
            seen += len(read)
            ends = read_markers(chunk)
            producers = dict(zip(chunk.headers.base_offset.tolist(), chunk.headers.producer_id.tolist(), strict=True))
            reduction.mark((producers[base], base, kind) for base, (kind, _) in ends.items())
            reduction.add(_with_keys(read))
        if hurt := [problem for problem in reader.problems if problem.severity == "problem"]:
            raise CompactionRefusedError(f"{span.segment.path}: {hurt[0].kind} at byte {hurt[0].pos}, {hurt[0].detail}")
        end = max(end, reader.next_offset)
    reduction.settle()
    settled = reduction.settled
    if drop_before_ms is not None:
        old = settled["is_tombstone"].to_numpy() & (settled["record_ts"].to_numpy() < drop_before_ms)
        settled = settled.filter(pa.array(~old))
    offsets = np.concatenate([settled["log_offset"].to_numpy(), reduction.pending["log_offset"].to_numpy()])
    return np.sort(offsets), min(started.values(), default=end), seen


def _transactions(chunk: Chunk, started: dict[int, int]) -> None:
    headers = chunk.headers.take(chunk.headers.is_txn)
    rows = zip(headers.producer_id.tolist(), headers.base_offset.tolist(), headers.is_control.tolist(), strict=True)
    for producer, base, control in rows:
        if control:
            started.pop(producer, None)
        else:
            started.setdefault(producer, base)


def _read(chunk: Chunk) -> Records:
    read, problems = read_records(chunk)
    if problems := problems + find_unread_markers(chunk, read_markers(chunk)):
        raise CompactionRefusedError(f"{problems[0].kind} at offset {problems[0].from_offset}: {problems[0].detail}")
    return read


def _with_keys(read: Records) -> pa.Table:
    null = read.key_length < 0
    h, of = read.headers, read.batch
    columns = {
        "key": byte_strings(read.data, read.key, read.key_length),
        "log_offset": read.offset,
        "record_ts": read.ts,
        "producer_id": h.producer_id[of],
        "is_txn": h.is_txn[of],
        "is_tombstone": read.value_length < 0,
        "leader_epoch_of_log": h.leader_epoch[of],
        "log_dir": pa.nulls(len(read), pa.string()),
    }
    arrays = [pa.array(columns[f.name], f.type) for f in KEYED]
    return pa.Table.from_arrays(arrays, schema=KEYED).filter(pa.array(~null))  # a record without a key says nothing


def _rewritten(span: Span, keep: np.ndarray, owed: set[int]) -> tuple[bytes, int]:
    """Return a closed segment with only the records that stay, and how many those are. `owed` goes on from the one
    before."""
    parts: list[bytes] = []
    total = 0
    for chunk in SpanReader(span):
        h = chunk.headers
        stays = np.searchsorted(keep, h.last_offset, side="right") - np.searchsorted(keep, h.base_offset, side="left")
        for i, count in enumerate(stays.tolist()):
            producer = int(h.producer_id[i])
            if h.is_control[i]:
                count = 1 if producer in owed else 0
                owed.discard(producer)
                if count:
                    parts.append(chunk.data[int(h.pos[i]) : int(h.end[i])])
                continue
            if count:
                total += count
                parts.append(_batch(chunk, h, i, count, keep))
                if h.is_txn[i]:
                    owed.add(producer)
    return b"".join(parts), total


def _batch(chunk: Chunk, headers: Headers, i: int, count: int, keep: np.ndarray) -> bytes:
    start, end = int(headers.pos[i]), int(headers.end[i])
    if count == int(headers.count[i]):
        return chunk.data[start:end]
    header = record_batch.header_at(chunk.data, start)
    offsets = keep[np.searchsorted(keep, header.base_offset) : np.searchsorted(keep, header.last_offset, side="right")]
    wanted = set(offsets.tolist())
    found = record_batch.read(chunk.data, start, header, Meter())
    return record_batch.rewrite(header, [record for record in found if record.offset in wanted])


def same(log: LogDir, directory: Path) -> bool:
    """Return whether sequential replay of the log and of its copy ends in the same state."""
    (copy,) = log_dirs([str(directory)])
    return settle(log) == settle(copy)


def settle(log: LogDir) -> replay.State:
    """Return the state after all of a log; transactions without any commit left waiting are no difference."""
    state = replay.replay(replay.read(log), replay.State(offsets={}, pending={}, group_records={}))
    state.pending = {producer: waiting for producer, waiting in state.pending.items() if waiting}
    return state
