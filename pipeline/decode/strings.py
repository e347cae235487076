"""Byte strings of a buffer as Arrow columns, without a Python object each."""

import numpy as np
import pyarrow as pa

from pipeline.decode import kernels
from pipeline.decode.bytes import PADDING, Array


def byte_strings(data: bytes, starts: Array, lengths: Array) -> pa.Array:
    """Return the byte strings at some places of the data, which has padding; a length below 0 means null."""
    return _copy(data, starts, lengths)[0]


def text(data: bytes, starts: Array, lengths: Array) -> tuple[pa.Array, Array]:
    """Return the same as UTF-8, and which entries were no UTF-8 and have replacement characters now."""
    column, is_ascii = _copy(data, starts, lengths)
    good = np.zeros(len(starts), bool)
    if is_ascii:
        return column.view(pa.string()), good
    try:
        return column.cast(pa.string()), good
    except pa.ArrowInvalid:
        values = column.to_pylist()
        fixed = [None if value is None else value.decode("utf-8", "replace") for value in values]
        bad = [f is not None and f.encode() != v for f, v in zip(fixed, values, strict=True)]
        return pa.array(fixed, pa.string()), np.array(bad, bool)


def _copy(data: bytes, starts: Array, lengths: Array) -> tuple[pa.Array, bool]:
    """Return the column, and whether all of it is ASCII."""
    valid = lengths >= 0
    offsets = np.empty(len(starts) + 1, np.int32)
    copied = np.empty(int(lengths[valid].sum()) + PADDING, np.uint8)
    kernels.copy_strings(np.frombuffer(data, np.uint8), starts, lengths, offsets, copied)
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(copied)]
    is_ascii = copied[: offsets[-1]].max(initial=0) < 0x80
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers), bool(is_ascii)
