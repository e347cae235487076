"""Chunks in, whole frames out. A frame on the wire is its size, four bytes, then so many bytes.

A size that is zero, negative or above the limit is refused as soon as its four bytes are there: nothing of such a frame
is awaited. A chunk that holds whole frames, which is nearly every chunk, is cut up where it lies; only an unfinished
frame is collected, in one growing buffer, so a frame that trickles in byte by byte costs no more than its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

from protocol.errors import ProtocolError

FRAME_BYTES_MAX = 8 * 1024 * 1024
_SIZE = Struct(">i")
_SIZE_BYTES = _SIZE.size


class FrameBuffer:
    """The bytes of one connection that are not yet frames. `limit` bounds a frame, without its size, in bytes.

        buffer.feed(chunk)
        for frame in buffer: ...

    `limit` is looked at with each frame, so it may be changed between two of them. The server sets it once, from
    `socket.request.max.bytes`.
    """

    __slots__ = ("_data", "_position", "is_held", "limit")

    def __init__(self, limit: int = FRAME_BYTES_MAX) -> None:
        self.limit = limit
        self._data: bytes | bytearray = b""
        self._position = 0  # what lies before it has been handed out
        self.is_held = False  # whether there are bytes behind that; it costs less than their number

    def __len__(self) -> int:
        """Return how many bytes are held, waiting for the rest of a frame or to be looked at."""
        return len(self._data) - self._position

    def take(self, chunk: bytes) -> Iterable[bytes]:
        """Take what a socket gave, and return the frames that are whole now, as an iteration does."""
        size = len(chunk) - _SIZE_BYTES
        if 0 < size <= self.limit and not self.is_held and _SIZE.unpack_from(chunk)[0] == size:
            return (chunk[_SIZE_BYTES:],)  # one frame: most chunks of most clients
        self.feed(chunk)
        return self

    def feed(self, chunk: bytes) -> None:
        """Take what a socket gave. Take the frames out before feeding again: that bounds what is held."""
        if self._position == len(self._data):
            self._data = chunk
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(memoryview(self._data)[self._position :])
            else:
                del self._data[: self._position]
            self._data += chunk
        self._position = 0
        self.is_held = len(self._data) > 0

    def __iter__(self) -> Iterator[bytes]:
        """Yield the frames that are whole, without their sizes. Raises `ProtocolError` where a size cannot be one."""
        data, end, read_size = self._data, self._position, _SIZE.unpack_from
        held = len(data)
        while (start := end + _SIZE_BYTES) <= held:
            (size,) = read_size(data, end)
            if not 0 < size <= self.limit:
                raise ProtocolError(f"a frame of {size} bytes where 1 to {self.limit} are allowed")
            end = start + size
            if end > held:
                return
            self._position, self.is_held = end, end < held  # before it is handed out: the taker may stop here
            # The slice of a bytearray would be one copy more than that of its view.
            yield data[start:end] if isinstance(data, bytes) else bytes(memoryview(data)[start:end])
        if self._position == held:  # an idle connection holds nothing
            self._data, self._position = b"", 0
