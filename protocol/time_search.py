"""Find the first record of a batch at or after a time, in chunks of its plain bytes, of which only one is held.

A log knows from the header of a batch that it has such a record, not which one it is. Keys and values are passed over.
The layout is drawn in `protocol/records.py`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from protocol import compression
from protocol.compression import Meter
from protocol.errors import ProtocolError
from protocol.record_batch import HEADER_BYTES, BatchHeader
from protocol.records import read_varlong

_HEAD_BYTES = 32
"""More than what comes before the key: length, attributes, and the differences of time and offset."""
_RECORD_PRICE = 256
"""To look at a record costs as much as to unpack so many bytes."""


def find_time(
    chunk: bytes, at: int, header: BatchHeader, timestamp: int, start_offset: int, meter: Meter
) -> Generator[None, None, tuple[int, int] | None]:
    """Return offset and time of the first record from `start_offset` on that is not before `timestamp`, None if there
    is none. Yields where the meter's step is over. Raises `ProtocolError` for records that cannot be told apart.
    """
    reader = _Reader(chunk[at + HEADER_BYTES : at + header.size], header, meter)
    for _ in range(header.count):
        offset, time_ms = yield from reader.next_record()
        if time_ms >= timestamp and offset >= start_offset:
            return offset, time_ms
        meter.charge(0, _RECORD_PRICE)
        if meter.end_step():
            yield
    return None


class _Reader:
    """Where the search is: `data` is the part of the records that is at hand, and `position` may be beyond it."""

    def __init__(self, packed: bytes, header: BatchHeader, meter: Meter) -> None:
        limit = compression.DECOMPRESSED_BYTES_MAX
        self._chunks: Iterator[bytes] = compression.unpack(header.compression, packed, limit, meter)
        self._header, self._meter = header, meter
        self._data, self._position = b"", 0

    def next_record(self) -> Generator[None, None, tuple[int, int]]:
        """Return offset and time of the next record, and pass over it."""
        while len(self._data) - self._position < _HEAD_BYTES:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            rest = self._data[self._position :]
            self._position -= len(self._data) - len(rest)
            self._data = rest + chunk
            if self._meter.end_step():
                yield
        header = self._header
        try:
            length, position = read_varlong(self._data, self._position)
            end = position + length
            time_ms, position = read_varlong(self._data, position + 1)  # after the attributes
            delta, position = read_varlong(self._data, position)
        except IndexError:
            raise ProtocolError("a record is cut off", path="records") from None
        if position > end:
            raise ProtocolError("a record's length is not that of its fields", path="records")
        self._position = end
        append_time = header.append_time_ms
        return header.base_offset + delta, header.base_timestamp + time_ms if append_time is None else append_time
