"""One loop over bytes, compiled by numba when it is installed.

numba checks no bounds, so every read here is behind a comparison with the end of the batch: a batch with a right
checksum may still hold lengths that lead anywhere.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.decode.headers import Array

try:
    import numba

    compiled: Callable[[Any], Any] = numba.njit(cache=True, nogil=True)
    HAS_NUMBA = True
except ImportError:
    HAS_NUMBA = False

    def compiled(function: Any) -> Any:
        """Leave the function as it is."""
        return function


@compiled
def varint(data: Array, pos: int, end: int) -> tuple[Any, int]:
    """(zigzag varint of up to 64 bits, position after it); position -1 when it does not end in time."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while pos < end and shift < 70:
        byte = data[pos]
        pos += 1
        value |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), pos
        shift += np.uint64(7)
    return np.int64(0), -1


@compiled
def boundaries(data: Array, starts: Array, ends: Array, first: Array, counts: Array, out: Array, good: Array) -> None:
    """Where the records of some batches lie.

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
