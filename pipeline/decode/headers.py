"""Batch headers of a buffer, as columns.

0            8        12      16      17       21           61
┌────────────┬────────┬───────┬───────┬────────┬────────────┬─────────┐  RecordBatch v2, repeated. crc32c covers
│ baseOffset │ length │ epoch │ magic │ crc32c │ attributes…│ records │  byte 21 on: the 21 bytes before it are
└────────────┴────────┴───────┴───────┴────────┴────────────┴─────────┘  believed only as far as offsets fit.
"""

import crc32c
import numpy as np

from pipeline.decode import kernels
from pipeline.decode.bytes import HEADER_BYTES, LEAST_LENGTH, MOST_LENGTH, Array

__all__ = ["HEADER_BYTES", "MOST_LENGTH", "Array", "Headers", "chain", "crc_ok", "gather", "next_batch"]
SHORT_BATCH = 256  # bytes: up to here a compiled loop beats a call of the processor's own instruction

# name, position in the header, big-endian type
FIELDS = (
    ("base_offset", 0, ">i8"),
    ("length", 8, ">i4"),
    ("leader_epoch", 12, ">i4"),
    ("magic", 16, "i1"),
    ("crc", 17, ">u4"),
    ("attributes", 21, ">i2"),
    ("last_delta", 23, ">i4"),
    ("base_ts", 27, ">i8"),
    ("max_ts", 35, ">i8"),
    ("producer_id", 43, ">i8"),
    ("producer_epoch", 51, ">i2"),
    ("base_sequence", 53, ">i4"),
    ("count", 57, ">i4"),
)


def gather(data: bytes, positions: Array, kind: str) -> Array:
    """Read numbers of a numpy type at any (unaligned) positions, which must lie within the data; in native order."""
    size = np.dtype(kind).itemsize
    if len(data) < size:
        return np.zeros(len(positions), np.dtype(kind).newbyteorder("="))
    window = np.ndarray((len(data) - size + 1,), kind, data, strides=(1,))
    return window[positions].astype(np.dtype(kind).newbyteorder("="))


class Headers:
    """Columns of some batches: `pos` (in the buffer) and every field of the header, one array each."""

    def __init__(self, columns: dict[str, Array]) -> None:
        self.columns = columns

    @classmethod
    def at(cls, data: bytes, positions: Array) -> "Headers":
        """Read the headers that begin at the positions."""
        columns = {name: gather(data, positions + at, kind) for name, at, kind in FIELDS}
        return cls({"pos": positions, **columns})

    def __getattr__(self, name: str) -> Array:
        try:
            return self.__dict__["columns"][name]  # type: ignore[no-any-return]  # an Array by construction
        except KeyError:
            raise AttributeError(name) from None

    def __len__(self) -> int:
        return len(self.columns["pos"])

    def take(self, which: Array) -> "Headers":
        """Return some of the batches, by index or mask."""
        return Headers({name: column[which] for name, column in self.columns.items()})

    @property
    def last_offset(self) -> Array:
        """The offset of the last record (that a cleaner may have removed)."""
        return self.base_offset + self.last_delta

    @property
    def end(self) -> Array:
        """Where the batch ends in the buffer."""
        return self.pos + 12 + self.length

    @property
    def codec(self) -> Array:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & 7

    @property
    def is_txn(self) -> Array:
        """Whether the batch belongs to a transaction, or is its marker."""
        flag: Array = (self.attributes & 16) != 0
        return flag

    @property
    def is_control(self) -> Array:
        """Whether the batch is a transaction's marker."""
        flag: Array = (self.attributes & 32) != 0
        return flag


def chain(data: bytes, start: int, end: int) -> tuple[Array, int]:
    """Return the positions of whole batches that follow one another, and where that stops.

    It stops at the end, at a batch that reaches past the end, or at bytes that cannot be a header.
    """
    positions = np.empty(max(end - start, 0) // HEADER_BYTES + 1, np.int64)
    count, stop = kernels.chain(np.frombuffer(data, np.uint8), start, end, positions)
    return positions[:count].copy(), int(stop)


def crc_ok(data: bytes, headers: Headers) -> Array:
    """Return a mask of the batches with a correct checksum. Formats before v2 are not checked, and pass."""
    starts, ends = headers.pos + 21, headers.end
    actual = np.zeros(len(headers), np.uint32)
    short = ends - starts <= SHORT_BATCH
    found = np.zeros(int(short.sum()), np.uint32)
    kernels.checksums(np.frombuffer(data, np.uint8), starts[short], ends[short], kernels.CRC_TABLES, found)
    actual[short] = found
    view = memoryview(data)
    places = zip(starts[~short].tolist(), ends[~short].tolist(), strict=True)
    actual[~short] = [crc32c.crc32c(view[start:end]) for start, end in places]
    good: Array = (actual == headers.crc) | (headers.magic < 2)
    return good


def next_batch(data: bytes, start: int, above: int) -> int | None:
    """Return the next position at which a whole batch with a right checksum and an offset above `above` begins."""
    last = len(data) - HEADER_BYTES
    if start > last:
        return None
    positions = np.arange(start, last + 1, dtype=np.int64)
    positions = positions[np.frombuffer(data, np.uint8)[start + 16 : last + 17] == 2]
    lengths = gather(data, positions + 8, ">i4").astype(np.int64)
    fits = (lengths >= LEAST_LENGTH) & (positions + 12 + lengths <= len(data))
    found = Headers.at(data, positions[fits])
    found = found.take((found.base_offset > above) & (found.count >= 0) & (found.last_delta >= 0))
    view = memoryview(data)
    for pos, end, crc in zip(found.pos.tolist(), found.end.tolist(), found.crc.tolist(), strict=True):
        if crc32c.crc32c(view[pos + 21 : end]) == crc:
            return int(pos)
    return None
