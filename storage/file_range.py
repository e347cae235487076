"""Whole batches of a segment that are sent as they lie on the disk, without being read into memory (`sendfile`)."""

from __future__ import annotations

import errno
import os
import socket
from typing import ClassVar, Final, final

RANGES_MAX: Final = 256  # at a time, each with a descriptor: beyond that, batches are read into memory


@final
class FileRange:
    """A range of a file that stays readable when the file is closed, renamed or removed: it has its own descriptor.

    The descriptor is closed with the last reference to the range, whether its bytes were sent or not.
    """

    __slots__ = ("_descriptor", "count", "end_offset", "path", "position", "size")

    open_ranges: ClassVar[int] = 0

    def __init__(self, path: str, descriptor: int, position: int, size: int, count: int, end_offset: int) -> None:
        """The batches there have `count` records, the last of them before `end_offset`. Raises OSError."""
        self._descriptor = -1
        self._descriptor = os.dup(descriptor)
        self.path, self.position, self.size = path, position, size
        self.count, self.end_offset = count, end_offset
        FileRange.open_ranges += 1

    def __len__(self) -> int:
        return self.size

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            FileRange.open_ranges -= 1

    def read(self, start: int = 0, most: int | None = None) -> bytes:
        """Return the bytes from `start` on, at most so many. Raises OSError."""
        wanted = self.size - start if most is None else min(most, self.size - start)
        data = os.pread(self._descriptor, wanted, self.position + start)
        if len(data) < wanted:
            raise self._describe_change()
        return data

    def send(self, sock: socket.socket, start: int, most: int) -> int:
        """Send bytes from `start` on. Return how many the socket has taken. Raises OSError."""
        sent = os.sendfile(sock.fileno(), self._descriptor, self.position + start, min(most, self.size - start))
        if not sent:
            raise self._describe_change()
        return sent

    def _describe_change(self) -> OSError:
        return OSError(errno.EIO, "the file is shorter than it was", self.path)
