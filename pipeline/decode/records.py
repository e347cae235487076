"""The records of believed batches: where their keys and values lie, and which transaction a marker ends.

Three ways give the same rows: `numba` (one compiled loop), `numpy` (lockstep over many batches, a plain loop over a
few) and `python` (that plain loop always). `auto` takes the first that is there.
"""

import struct

import numpy as np

from pipeline.decode import kernels, lockstep
from pipeline.decode.codecs import INFLATED_MAX, InflateError, inflate
from pipeline.decode.headers import HEADER_BYTES, Array, Headers
from pipeline.decode.spans import Chunk, Problem
from pipeline.errors import UsageError

FEW_BATCHES = 200  # below this many, lockstep's steps cost more than they carry
LEAST_RECORD = 7  # bytes: length, attributes, two deltas, two lengths, headers
CHUNK_INFLATED_MAX = 1 << 30  # bytes of one chunk with all its batches inflated; Arrow counts in int32
DECODERS = ("auto", "numba", "numpy", "python")


class Records:
    """Records as columns: `batch` (index into `headers`), `offset`, `ts`, and starts and lengths in `data`.

    `data` is followed by padding, so that numbers can be gathered near its end; a length of -1 means null.
    """

    def __init__(self, data: bytes, headers: Headers, batch: Array, fields: Array) -> None:
        self.data = data
        self.headers = headers
        self.batch = batch
        self.offset = headers.base_offset[batch] + fields[:, 0]
        logged = (headers.attributes[batch] & 8) != 0  # log append time: one time for the whole batch
        self.ts = np.where(logged, headers.max_ts[batch], headers.base_ts[batch] + fields[:, 1])
        self.key, self.key_length = fields[:, 2], fields[:, 3]
        self.value, self.value_length = fields[:, 4], fields[:, 5]

    def __len__(self) -> int:
        return len(self.batch)


def records(chunk: Chunk, decoder: str = "auto") -> tuple[Records, list[Problem]]:
    """The records of a chunk's data batches, in order, and the batches whose records could not be read."""
    headers = chunk.headers.take(~chunk.headers.is_control)
    data, starts, ends, problems = _areas(chunk, headers)
    counts = headers.count.astype(np.int64)
    sane = (counts >= 0) & (counts <= (ends - starts) // LEAST_RECORD)
    counts = np.where(sane, counts, np.clip((ends - starts) // LEAST_RECORD, 0, None))
    first = np.concatenate(([0], np.cumsum(counts)[:-1])) if len(counts) else np.zeros(0, np.int64)
    fields = np.zeros((int(counts.sum()), 6), np.int64)
    good = np.zeros(len(counts), np.int64)
    _read(decoder, data, starts, ends, first, counts, fields, good)
    batch = np.repeat(np.arange(len(counts)), counts)
    wrong = good < headers.count
    if wrong.any():
        within = np.arange(len(batch)) - first[batch]
        batch, fields = batch[within < good[batch]], fields[within < good[batch]]
    result = Records(data, headers, batch, fields)
    outside = _outside(result)
    if outside.any():
        lost = np.unique(batch[outside])
        wrong[lost] = True
        keep = ~outside
        result = Records(data, headers, batch[keep], fields[keep])
    failed = {problem.from_offset for problem in problems}
    for b in np.flatnonzero(wrong).tolist():
        if int(headers.base_offset[b]) not in failed:
            problems.append(_malformed(chunk, headers, b, int(good[b])))
    return result, problems


def _outside(found: Records) -> Array:
    """Records whose offset does not lie in their batch."""
    base = found.headers.base_offset[found.batch]
    last = found.headers.last_offset[found.batch]
    outside: Array = (found.offset < base) | (found.offset > last)
    return outside


def _malformed(chunk: Chunk, headers: Headers, b: int, good: int) -> Problem:
    first, last = int(headers.base_offset[b]), int(headers.last_offset[b])
    detail = f"{good} of {headers.count[b]} records could be read"
    size = int(headers.length[b]) + 12
    return Problem("malformed_record", chunk.file_pos + int(headers.pos[b]), size, detail, first, last)


def _read(
    decoder: str, data: bytes, starts: Array, ends: Array, first: Array, counts: Array, fields: Array, good: Array
) -> None:
    buffer = np.frombuffer(data, np.uint8)
    if decoder == "numba" and not kernels.HAS_NUMBA:
        raise UsageError("numba is not installed: use auto, numpy or python")
    if decoder == "numba" or (decoder == "auto" and kernels.HAS_NUMBA):
        kernels.boundaries(buffer, starts, ends, first, counts, fields, good)
    elif decoder == "python" or len(starts) < FEW_BATCHES:
        _plain(data, starts, ends, first, counts, fields, good)
    else:
        lockstep.boundaries(buffer, starts, ends, first, counts, fields, good)


def _areas(chunk: Chunk, headers: Headers) -> tuple[bytes, Array, Array, list[Problem]]:
    """(data, starts, ends) of every batch's records; compressed ones are inflated behind the chunk's own bytes."""
    starts, ends = headers.pos + HEADER_BYTES, headers.end.copy()
    parts, size, problems = [chunk.data], len(chunk.data), []
    for b in np.flatnonzero(headers.codec).tolist():
        try:
            plain = inflate(
                int(headers.codec[b]), chunk.data[starts[b] : ends[b]], min(INFLATED_MAX, CHUNK_INFLATED_MAX - size)
            )
        except InflateError as error:
            plain = b""
            first, last = int(headers.base_offset[b]), int(headers.last_offset[b])
            pos, length = chunk.file_pos + int(headers.pos[b]), int(headers.length[b]) + 12
            problems.append(Problem("decompress_failed", pos, length, str(error), first, last))
        starts[b], ends[b] = size, size + len(plain)
        parts.append(plain)
        size += len(plain)
    return b"".join([*parts, bytes(lockstep.PADDING)]), starts, ends, problems


def _plain(data: bytes, starts: Array, ends: Array, first: Array, counts: Array, out: Array, good: Array) -> None:
    """The contract of `kernels.boundaries` as a loop that CPython runs well: over bytes, one list of rows a batch."""
    for b, (start, end, row, count) in enumerate(
        zip(starts.tolist(), ends.tolist(), first.tolist(), counts.tolist(), strict=True)
    ):
        rows = _plain_batch(data, start, end, count)
        good[b] = len(rows)
        if rows:
            out[row : row + len(rows)] = rows


def _plain_batch(data: bytes, pos: int, batch_end: int, count: int) -> list[tuple[int, int, int, int, int, int]]:
    rows = []
    for _ in range(count):
        length, pos = _varint(data, pos, batch_end)
        if pos < 0 or not 1 <= length <= batch_end - pos:
            break
        end = pos + length
        ts_delta, pos = _varint(data, pos + 1, end)
        offset_delta, pos = _varint(data, pos, end) if pos >= 0 else (0, -1)
        key_length, key = _varint(data, pos, end) if pos >= 0 else (0, -1)
        if key < 0 or not -1 <= key_length <= end - key:
            break
        value_length, value = _varint(data, key + max(key_length, 0), end)
        if value < 0 or not -1 <= value_length <= end - value:
            break
        rows.append((offset_delta, ts_delta, key, key_length, value, value_length))
        pos = end
    return rows


def _varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    if pos < end and data[pos] < 0x80:
        value = data[pos]
        return (value >> 1) ^ -(value & 1), pos + 1
    value = shift = 0
    while pos < end and shift < 70:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= (1 << 64) - 1
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
    return 0, -1


def markers(chunk: Chunk) -> dict[int, tuple[int, int]]:
    """Base offset of a control batch -> (0 abort or 1 commit, coordinator epoch); an unreadable marker is left out."""
    found = {}
    headers = chunk.headers.take(chunk.headers.is_control)
    for base, pos, end in zip(headers.base_offset.tolist(), headers.pos.tolist(), headers.end.tolist(), strict=True):
        rows = _plain_batch(chunk.data, pos + HEADER_BYTES, end, 1)
        if not rows:
            continue
        _, _, key, key_length, value, value_length = rows[0]
        if key_length >= 4 and value_length >= 6:
            (kind,) = struct.unpack_from(">h", chunk.data, key + 2)
            (epoch,) = struct.unpack_from(">i", chunk.data, value + 2)
            found[base] = (kind, epoch)
    return found
