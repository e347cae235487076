"""Chunks in, whole frames out. A frame on the wire is its size, four bytes, then so many bytes.

A size that is zero, negative or above the limit is refused as soon as its four bytes are there: nothing of such a frame
is awaited. A chunk that holds whole frames, which is nearly every chunk, is cut up where it lies; only an unfinished
frame is collected, in one growing buffer, so a frame that trickles in byte by byte costs no more than its bytes. The
buffer of a large frame has room for it, or for twice of what is there, and becomes the frame itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from struct import Struct

from protocol.errors import ProtocolError

FRAME_BYTES_MAX = 8 * 1024 * 1024
LARGE_BYTES = 128 * 1024
_ROOM_BYTES = 1024 * 1024  # that a large frame is given at once
SIZE = Struct(">i")
SIZE_BYTES = SIZE.size


class FrameBuffer:
    """The bytes of one connection that are not yet frames. `limit` bounds a frame, without its size, in bytes.

        buffer.feed(chunk)
        for frame in buffer: ...

    `limit` is looked at with each frame, so it may be changed between two of them. The server sets it once, from
    `socket.request.max.bytes`.
    """

    __slots__ = ("_data", "_large", "_position", "is_held", "limit", "unfinished_number")

    def __init__(self, limit: int = FRAME_BYTES_MAX) -> None:
        self.limit = limit
        self.unfinished_number = 0  # of the frame of which a part is held: another one for each such frame
        self._data: bytes | bytearray = b""
        self._position = 0  # what lies before it has been handed out
        self._large: _LargeFrame | None = None  # which comes before the data
        self.is_held = False  # whether there are bytes behind that; it costs less than their number

    def __len__(self) -> int:
        """Return how many bytes are held, waiting for the rest of a frame or to be looked at."""
        large = 0 if self._large is None else SIZE_BYTES + self._large.size - self._large.missing
        return large + len(self._data) - self._position

    def feed(self, chunk: bytes) -> None:
        """Take what a socket gave. Take the frames out before feeding again: that bounds what is held."""
        if self._large is None and self._position < len(self._data):
            self._large = self._begin_large_frame()
        if self._large is not None and self._large.missing:
            chunk = self._large.take(chunk)
        if self._position == len(self._data):
            self._data = chunk
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(memoryview(self._data)[self._position :])
            else:
                del self._data[: self._position]
            self._data += chunk
        self._position = 0
        self.is_held = self._large is not None or len(self._data) > 0

    def _begin_large_frame(self) -> _LargeFrame | None:
        """Take what is there of an unfinished frame out of the data, if the frame is large."""
        data, start = self._data, self._position + SIZE_BYTES
        if len(data) < start:
            return None
        (size,) = SIZE.unpack_from(data, self._position)
        if not LARGE_BYTES <= size <= self.limit or start + size <= len(data):
            return None
        self._data, self._position = b"", 0
        return _LargeFrame(size, memoryview(data)[start:])

    def __iter__(self) -> Iterator[bytes]:
        """Yield the frames that are whole, without their sizes. Raises `ProtocolError` where a size cannot be one."""
        if (large := self._large) is not None:
            if large.missing:
                return
            self._large, self.is_held = None, len(self._data) > self._position
            self.unfinished_number += 1
            yield large.join()
        data, end, read_size = self._data, self._position, SIZE.unpack_from
        held = len(data)
        while (start := end + SIZE_BYTES) <= held:
            (size,) = read_size(data, end)
            if not 0 < size <= self.limit:
                raise ProtocolError(f"a frame of {size} bytes where 1 to {self.limit} are allowed")
            end = start + size
            if end > held:
                break
            self._position, self.is_held = end, end < held  # before it is handed out: the taker may stop here
            # The slice of a bytearray would be one copy more than that of its view.
            yield data[start:end] if isinstance(data, bytes) else bytes(memoryview(data)[start:end])
        if self._position:  # frames were handed out, and what follows is of another one
            self.unfinished_number += 1
            if self._position == held:  # an idle connection holds nothing
                self._data, self._position = b"", 0


class _LargeFrame:
    """A frame of which some bytes are still to come.

    The buffer is written in place, and its value is no copy of it (CPython's BytesIO): each byte is copied once.
    """

    __slots__ = ("_buffer", "_room", "missing", "size")

    def __init__(self, size: int, begin: memoryview) -> None:
        self.size = size
        self.missing = size - len(begin)
        self._room = 0
        self._buffer = BytesIO()
        self._write(begin)

    def take(self, chunk: bytes) -> bytes:
        """Take what belongs to the frame, and return the rest."""
        if len(chunk) < self.missing:
            self.missing -= len(chunk)
            self._write(chunk)
            return b""
        missing, self.missing = self.missing, 0
        self._write(memoryview(chunk)[:missing])
        return chunk[missing:]

    def _write(self, data: bytes | memoryview) -> None:
        held = self._buffer.tell()
        if held + len(data) > self._room:
            self._room = min(self.size, max(_ROOM_BYTES, 2 * (held + len(data))))
            before, self._buffer = self._buffer, BytesIO(bytes(self._room))
            self._buffer.write(before.getbuffer()[:held])
        self._buffer.write(data)

    def join(self) -> bytes:
        """Return the whole frame."""
        return self._buffer.getvalue()
