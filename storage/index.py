"""Where an offset or a time is to be found in a segment: sparse, in memory, learnt from the batches themselves.

```
#   .index      relative offset i32 | position i32        the last offset of a batch, and where that batch begins
#   .timeindex  timestamp i64 | relative offset i32       the greatest timestamp so far, and the offset that bears it
#   .txnindex   version i16 = 0 | producer id i64 | first offset i64 | last offset i64 | last stable offset i64
```
The files are Kafka's, written when a segment is rolled or closed, for its tools and for a broker that takes the
directory over. Muster never reads them: a start looks at every batch's checksum anyway, so an index that is lost or
wrong cannot mislead.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right

RELATIVE_MAX = 2**31 - 1
"""How far offsets and positions can be from the start of their segment, in Kafka's index files and in a batch."""
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class Index:
    """The sparse entries of one segment."""

    __slots__ = ("_every", "_next_at", "_offsets", "_positions", "_time_offsets", "_times", "base_offset")

    def __init__(self, base_offset: int, every_bytes: int) -> None:
        self.base_offset = base_offset
        self._every = every_bytes
        self._next_at = every_bytes  # the first batch is found without an entry
        self._offsets = array("q")
        self._positions = array("q")
        self._times = array("q")
        self._time_offsets = array("q")

    def learn(self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Take note of a batch; `max_timestamp` is the segment's greatest so far. Most batches leave no entry."""
        if position < self._next_at:
            return
        self._next_at = position + self._every
        self._offsets.append(last_offset)
        self._positions.append(position)
        if not self._times or max_timestamp > self._times[-1]:
            self._times.append(max_timestamp)
            self._time_offsets.append(max_timestamp_offset)

    def position(self, offset: int) -> int:
        """Return a position at or before the batch that holds `offset`, some `every_bytes` away at most."""
        at = bisect_right(self._offsets, offset)
        return self._positions[at - 1] if at else 0

    def offset_before(self, timestamp: int) -> int:
        """Return an offset up to which no record is as late as `timestamp`; the base offset when nothing nearer is
        known."""
        at = bisect_right(self._times, timestamp - 1)
        return self._time_offsets[at - 1] if at else self.base_offset

    def offset_file(self) -> bytes:
        base = self.base_offset
        entries = zip(self._offsets, self._positions, strict=True)
        return b"".join([_OFFSET_ENTRY.pack(o - base, p) for o, p in entries if self._is_near(o) and p <= RELATIVE_MAX])

    def time_file(self, max_timestamp: int, max_timestamp_offset: int) -> bytes:
        """With the segment's greatest timestamp as the last entry, as Kafka closes a segment's time index."""
        entries = list(zip(self._times, self._time_offsets, strict=True))
        if max_timestamp >= 0 and (not entries or max_timestamp > entries[-1][0]):
            entries.append((max_timestamp, max_timestamp_offset))
        return b"".join([_TIME_ENTRY.pack(t, o - self.base_offset) for t, o in entries if self._is_near(o)])

    def _is_near(self, offset: int) -> bool:
        """Return whether Kafka's format can tell the offset: no segment of Muster spans more, one that was repaired
        may."""
        return offset - self.base_offset <= RELATIVE_MAX
