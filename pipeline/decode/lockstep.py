"""Record boundaries with numpy alone: step k reads record k of every batch that has one, all at once.

Fast when there are many batches; a few large batches are read by the plain loop in `records` instead.
"""

import numpy as np

from pipeline.decode.headers import Array

PADDING = 16  # bytes that must follow the data, so that a read of a dozen bytes at its end stays inside


def varints(data: Array, pos: Array) -> tuple[Array, Array]:
    """(zigzag varints at the positions, positions after them). One that is too long ends beyond everything."""
    byte = data[pos]
    value = (byte & 0x7F).astype(np.uint64)
    after = pos + 1
    more = np.flatnonzero(byte & 0x80)
    shift = 7
    while more.size and shift < 70:
        byte = data[after[more]]
        value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[more] += 1
        more = more[(byte & 0x80) != 0]
        shift += 7
    after[more] = np.iinfo(np.int64).max // 2
    signed: Array = (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)
    return signed, after


def boundaries(data: Array, starts: Array, ends: Array, first: Array, counts: Array, out: Array, good: Array) -> None:
    """The same contract as `kernels.boundaries`; the data is followed by `PADDING` more bytes."""
    order = np.argsort(-counts, kind="stable")
    most = int(counts.max(initial=0))
    good[:] = 0
    pos, end_of, row = starts[order].copy(), ends[order], first[order]
    count = counts[order]
    at = np.arange(len(order))
    for k in range(most):
        live = int(np.searchsorted(-count, -k, side="left"))  # batches with more than k records come first
        if live < len(at):
            at, pos, end_of, row, count = at[:live], pos[:live], end_of[:live], row[:live], count[:live]
        if not len(at):
            return
        fields, ok, end = _step(data, pos, end_of)
        if not ok.all():
            at, end_of, row, count, end = at[ok], end_of[ok], row[ok], count[ok], end[ok]
            fields = [field[ok] for field in fields]
        rows = row + k
        for column, field in enumerate(fields):
            out[rows, column] = field
        good[order[at]] += 1
        pos = end


def _step(data: Array, pos: Array, batch_end: Array) -> tuple[list[Array], Array, Array]:
    """(fields of one record a batch, which of them are sound, where the records end)."""
    sound = pos < batch_end
    limit = len(data) - PADDING

    def read(where: Array) -> tuple[Array, Array]:
        return varints(data, np.minimum(where, limit))

    length, pos = read(pos)
    sound &= (pos <= batch_end) & (length >= 1) & (length <= batch_end - pos)
    end = pos + np.where(sound, length, 0)
    ts_delta, pos = read(np.where(sound, pos + 1, limit))
    sound &= pos <= end
    offset_delta, pos = read(np.where(sound, pos, limit))
    sound &= pos <= end
    key_length, key = read(np.where(sound, pos, limit))
    sound &= (key <= end) & (key_length >= -1) & (key_length <= end - key)
    after = np.where(sound, key + np.maximum(key_length, 0), limit)
    value_length, value = read(after)
    sound &= (value <= end) & (value_length >= -1) & (value_length <= end - value)
    return [offset_delta, ts_delta, key, key_length, value, value_length], sound, end
