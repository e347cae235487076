"""Loops over bytes, compiled by numba.

numba checks no bounds, so every read here is behind a comparison with the end of what may be read: a batch with a right
checksum may still hold lengths that lead anywhere.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from pipeline.decode.bytes import HEADER_BYTES, LEAST_LENGTH, Array


def compile_kernel(function: Callable[..., Any]) -> Any:
    """Compile at the first call, and keep the result on disk where the source has a place beside it: not in a zip."""
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:
        return numba.njit(nogil=True)(function)


def _crc_tables() -> Array:
    """Return tables of CRC-32C for eight bytes at a time (slicing-by-8)."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        tables[0, byte] = value
    for i in range(1, 8):
        before = tables[i - 1]
        tables[i] = tables[0][before & 0xFF] ^ (before >> np.uint32(8))
    return tables


CRC_TABLES = _crc_tables()


@compile_kernel
def chain(data: Array, start: int, end: int, out: Array) -> tuple[int, int]:
    """Write the positions of whole batches that follow one another; (how many, where that stops)."""
    pos, count = start, 0
    while pos + HEADER_BYTES <= end:
        length: Any = np.int64(0)
        for i in range(8, 12):
            length = (length << 8) | np.int64(data[pos + i])
        if length >= 1 << 31:
            length -= 1 << 32
        if length < LEAST_LENGTH or pos + 12 + length > end or np.int8(data[pos + 16]) > 2:
            break
        out[count] = pos
        count += 1
        pos += 12 + length
    return count, pos


@compile_kernel
def checksums(data: Array, starts: Array, ends: Array, tables: Array, out: Array) -> None:
    """Compute CRC-32C of data[starts[i]:ends[i]], for pieces that are too short to be worth a call each."""
    for i in range(starts.shape[0]):
        crc, pos, end = np.uint32(0xFFFFFFFF), starts[i], ends[i]
        while pos + 8 <= end:
            low = crc ^ (
                np.uint32(data[pos])
                | np.uint32(data[pos + 1]) << np.uint32(8)
                | np.uint32(data[pos + 2]) << np.uint32(16)
                | np.uint32(data[pos + 3]) << np.uint32(24)
            )
            crc = (
                tables[7, low & np.uint32(0xFF)]
                ^ tables[6, (low >> np.uint32(8)) & np.uint32(0xFF)]
                ^ tables[5, (low >> np.uint32(16)) & np.uint32(0xFF)]
                ^ tables[4, low >> np.uint32(24)]
                ^ tables[3, data[pos + 4]]
                ^ tables[2, data[pos + 5]]
                ^ tables[1, data[pos + 6]]
                ^ tables[0, data[pos + 7]]
            )
            pos += 8
        while pos < end:
            crc = (crc >> np.uint32(8)) ^ tables[0, (crc ^ np.uint32(data[pos])) & np.uint32(0xFF)]
            pos += 1
        out[i] = ~crc


@compile_kernel
def uvarint(data: Array, pos: int, end: int, bits: int) -> tuple[Any, int]:
    """Read an unsigned varint of at most so many bits, 7 a byte: (value, position after it), -1 if it does not end."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while pos < end and shift < bits:
        byte = data[pos]
        pos += 1
        value |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += np.uint64(7)
    return np.uint64(0), -1


@compile_kernel
def varint(data: Array, pos: int, end: int) -> tuple[Any, int]:
    """Read a zigzag varint of up to 64 bits; (value, position after it), -1 when it does not end in time."""
    value, pos = uvarint(data, pos, end, np.uint64(70))
    if pos < 0:
        return np.int64(0), -1
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), pos


@compile_kernel
def boundaries(data: Array, starts: Array, ends: Array, first: Array, counts: Array, out: Array, good: Array) -> None:
    """Find where the records of some batches lie.

    Batch b holds counts[b] records in data[starts[b]:ends[b]]; the rows of `out` from first[b] on become (offset delta,
    timestamp delta, key start, key length, value start, value length), a length of -1 meaning null. good[b] is how many
    of them could be read; the rest of its rows is left as it was.
    """
    for b in range(starts.shape[0]):
        pos, batch_end, row = starts[b], ends[b], first[b]
        good[b] = 0
        for _ in range(counts[b]):
            length, pos = varint(data, pos, batch_end)
            if pos < 0 or length < 1 or length > batch_end - pos:
                break
            end = pos + length
            ts_delta, pos = varint(data, pos + 1, end)
            if pos < 0:
                break
            offset_delta, pos = varint(data, pos, end)
            if pos < 0:
                break
            key_length, key = varint(data, pos, end)
            if key < 0 or key_length < -1 or key_length > end - key:
                break
            after = key + max(key_length, 0)
            value_length, value = varint(data, after, end)
            if value < 0 or value_length < -1 or value_length > end - value:
                break
            out[row, 0], out[row, 1] = offset_delta, ts_delta
            out[row, 2], out[row, 3] = key, key_length
            out[row, 4], out[row, 5] = value, value_length
            row += 1
            good[b] += 1
            pos = end


@compile_kernel
def copy_strings(data: Array, starts: Array, lengths: Array, offsets: Array, out: Array) -> None:
    """Copy pieces of the data one behind the other: piece i to out[offsets[i]:offsets[i + 1]].

    One of a length below 0 is empty. Eight bytes are copied at a time, of which the next piece overwrites what is too
    much: behind the pieces in `data`, and at the end of `out`, there must be seven bytes more.
    """
    at = np.int64(0)
    for i in range(starts.shape[0]):
        offsets[i] = at
        start, length, done = starts[i], max(lengths[i], 0), 0
        while done < length:
            for k in range(8):
                out[at + done + k] = data[start + done + k]
            done += 8
        at += length
    offsets[starts.shape[0]] = at
