"""Read the records of valid batches as columns: where their keys and values are, and what a marker decides.

The loop over records is compiled (`kernels`). `plain` reads the same records one after the other, as the reference.
"""

import struct

import numpy as np

from pipeline.decode import kernels
from pipeline.decode.bytes import PADDING
from pipeline.decode.codecs import INFLATED_MAX, InflateError, inflate
from pipeline.decode.headers import HEADER_BYTES, Array, Headers
from pipeline.decode.spans import Chunk, Problem

ABORT, COMMIT = 0, 1  # types of control records that end a transaction; there are others, which Kafka's groups ignore
LEAST_RECORD = 7  # bytes: length, attributes, two deltas, two lengths, headers
CHUNK_INFLATED_MAX = 1 << 30  # bytes of one chunk with all its batches inflated; Arrow counts in int32


class Records:
    """Records as columns: `batch` (index into `headers`), `offset`, `ts`, and starts and lengths in `data`.

    `data` is followed by padding, as `kernels.copy_strings` wants it; a length of -1 means null.
    """

    def __init__(self, data: bytes, headers: Headers, batch: Array, fields: Array) -> None:
        self.data = data
        self.headers = headers
        self.batch = batch
        self.fields = fields  # as `kernels.boundaries` writes them
        self.offset = headers.base_offset[batch] + fields[:, 0]
        logged = (headers.attributes[batch] & 8) != 0  # log append time: one time for the whole batch
        self.ts = np.where(logged, headers.max_ts[batch], headers.base_ts[batch] + fields[:, 1])
        self.key, self.key_length = fields[:, 2], fields[:, 3]
        self.value, self.value_length = fields[:, 4], fields[:, 5]

    def __len__(self) -> int:
        return len(self.batch)


def read_records(chunk: Chunk) -> tuple[Records, list[Problem]]:
    """Return the records of a chunk's data batches, in order, and a problem for each batch that cannot be read."""
    headers = chunk.headers.take(~chunk.headers.is_control)
    data, starts, ends, problems = _inflate_all(chunk, headers)
    counts = headers.count.astype(np.int64)
    sane = (counts >= 0) & (counts <= (ends - starts) // LEAST_RECORD)
    counts = np.where(sane, counts, np.clip((ends - starts) // LEAST_RECORD, 0, None))
    first = np.concatenate(([0], np.cumsum(counts)[:-1])) if len(counts) else np.zeros(0, np.int64)
    fields = np.zeros((int(counts.sum()), 6), np.int64)
    good = np.zeros(len(counts), np.int64)
    kernels.boundaries(np.frombuffer(data, np.uint8), starts, ends, first, counts, fields, good)
    batch = np.repeat(np.arange(len(counts)), counts)
    wrong = good < headers.count
    if wrong.any():
        within = np.arange(len(batch)) - first[batch]
        batch, fields = batch[within < good[batch]], fields[within < good[batch]]
    result = Records(data, headers, batch, fields)
    outside = _find_outside(result)
    if outside.any():
        lost = np.unique(batch[outside])
        wrong[lost] = True
        keep = ~outside
        result = Records(data, headers, batch[keep], fields[keep])
    failed = {problem.from_offset for problem in problems}
    for b in np.flatnonzero(wrong).tolist():
        if int(headers.base_offset[b]) not in failed:
            problems.append(_describe_malformed_batch(chunk, headers, b, int(good[b])))
    return result, problems


def _find_outside(found: Records) -> Array:
    """Return for each record whether its offset is outside of its batch."""
    base = found.headers.base_offset[found.batch]
    last = found.headers.last_offset[found.batch]
    outside: Array = (found.offset < base) | (found.offset > last)
    return outside


def _describe_malformed_batch(chunk: Chunk, headers: Headers, b: int, good: int) -> Problem:
    first, last = int(headers.base_offset[b]), int(headers.last_offset[b])
    detail = f"{good} of {headers.count[b]} records could be read"
    size = int(headers.length[b]) + 12
    return Problem("malformed_record", chunk.file_pos + int(headers.pos[b]), size, detail, first, last)


def _inflate_all(chunk: Chunk, headers: Headers) -> tuple[bytes, Array, Array, list[Problem]]:
    """Return data with all records uncompressed, start and end of each batch's records in it, and problems.

    Inflated records stand behind the chunk's own bytes.
    """
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
    return b"".join([*parts, bytes(PADDING)]), starts, ends, problems


def read_markers(chunk: Chunk) -> dict[int, tuple[int, int]]:
    """Return (type, coordinator epoch) of each readable control record by its base offset."""
    known = {}
    headers = chunk.headers.take(chunk.headers.is_control)
    fields, good = np.zeros((len(headers), 6), np.int64), np.zeros(len(headers), np.int64)
    first, counts = np.arange(len(headers)), np.ones(len(headers), np.int64)
    buffer = np.frombuffer(chunk.data, np.uint8)
    kernels.boundaries(buffer, headers.pos + HEADER_BYTES, headers.end, first, counts, fields, good)
    rows = zip(headers.base_offset.tolist(), good.tolist(), fields.tolist(), strict=True)
    for base, is_read, (_, _, key, key_length, value, value_length) in rows:
        if is_read and key_length >= 4 and value_length >= 6:
            (kind,) = struct.unpack_from(">h", chunk.data, key + 2)
            (epoch,) = struct.unpack_from(">i", chunk.data, value + 2)
            known[base] = (kind, epoch)
    return known


def find_unread_markers(chunk: Chunk, known: dict[int, tuple[int, int]]) -> list[Problem]:
    """Return a problem for each control batch that `read_markers` could not read: its transaction seems open."""
    headers = chunk.headers.take(chunk.headers.is_control)
    rows = zip(
        headers.base_offset.tolist(), headers.last_offset.tolist(), headers.pos.tolist(), headers.length.tolist(),
        strict=True,
    )  # fmt: skip
    return [
        Problem(
            "malformed_record",
            chunk.file_pos + pos,
            length + 12,
            "a transaction's marker that cannot be read",
            base,
            last,
        )
        for base, last, pos, length in rows
        if base not in known
    ]
