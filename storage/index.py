"""The sparse index of a segment: positions by offset, and offsets by time, in memory.

```
#   .index      relative offset i32 | position i32        the last offset of a batch, and where that batch begins
#   .timeindex  timestamp i64 | relative offset i32       the greatest timestamp so far, and the offset that bears it
#   .txnindex   version i16 = 0 | producer id i64 | first offset i64 | last offset i64 | last stable offset i64
```
Muster writes Kafka's index files when a segment is rolled or closed, for Kafka's tools and for a broker that takes the
directory over. It never reads them: a start reads every batch to compare its checksum, and makes the index anew.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right

RELATIVE_MAX = 2**31 - 1
"""The greatest distance from the start of a segment that Kafka's index files and batches can hold."""
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class Index:
    """The sparse entries of one segment."""

    __slots__ = ("_every", "_latest", "_next_at", "_offsets", "_positions", "_time_offsets", "_times", "base_offset")

    def __init__(self, base_offset: int, every_bytes: int) -> None:
        self.base_offset = base_offset
        self._every = every_bytes
        self._next_at = every_bytes  # the first batch is found without an entry
        self._offsets = array("q")
        self._positions = array("q")
        self._latest = array("q")  # the greatest timestamp from each entry's batch on, up to the next entry's
        self._times = array("q")
        self._time_offsets = array("q")

    def learn(
        self, last_offset: int, position: int, timestamp: int, max_timestamp: int, max_timestamp_offset: int
    ) -> None:
        """Add an entry for a batch with this greatest timestamp, if the last entry is far enough back.

        `max_timestamp` is the greatest of the segment so far, `max_timestamp_offset` its offset.
        """
        if position < self._next_at:
            if self._latest and timestamp > self._latest[-1]:
                self._latest[-1] = timestamp
            return
        self._next_at = position + self._every
        self._offsets.append(last_offset)
        self._positions.append(position)
        self._latest.append(timestamp)
        if max_timestamp > (self._times[-1] if self._times else -1):  # records may have no time at all
            self._times.append(max_timestamp)
            self._time_offsets.append(max_timestamp_offset)

    def position(self, offset: int) -> int:
        """Return a position at or before the batch that holds `offset`, at most about `every_bytes` before it."""
        at = bisect_right(self._offsets, offset)
        return self._positions[at - 1] if at else 0

    def offset_before(self, timestamp: int) -> int:
        """Return an offset at or before the first record as late as `timestamp`; the base offset if none is indexed."""
        at = bisect_right(self._times, timestamp - 1)
        return self._time_offsets[at - 1] if at else self.base_offset

    def next_stop(self, offset: int, timestamp: int) -> int:
        """Return an offset from `offset` on, before which no batch is as late as `timestamp`.

        The records with the greatest timestamps may be deleted: what is behind them need not be read to tell that.
        """
        at = bisect_right(self._offsets, offset) - 1
        if at < 0 or self._latest[at] >= timestamp:
            return offset
        for later in range(at + 1, len(self._latest)):
            if self._latest[later] >= timestamp:
                return self._offsets[later]
        return self._offsets[-1]

    def offset_file(self) -> bytes:
        """Return the contents of the `.index` file."""
        base = self.base_offset
        entries = zip(self._offsets, self._positions, strict=True)
        return b"".join([_OFFSET_ENTRY.pack(o - base, p) for o, p in entries if self._is_near(o) and p <= RELATIVE_MAX])

    def time_file(self, max_timestamp: int, max_timestamp_offset: int) -> bytes:
        """Return the time index. Its last entry is the greatest timestamp of the segment, as in Kafka."""
        entries = list(zip(self._times, self._time_offsets, strict=True))
        if max_timestamp >= 0 and (not entries or max_timestamp > entries[-1][0]):
            entries.append((max_timestamp, max_timestamp_offset))
        return b"".join([_TIME_ENTRY.pack(t, o - self.base_offset) for t, o in entries if self._is_near(o)])

    def _is_near(self, offset: int) -> bool:
        """Return whether Kafka's format can hold the offset. Only in a repaired segment it may not."""
        return offset - self.base_offset <= RELATIVE_MAX
