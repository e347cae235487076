"""Wakes the poller from a thread: a descriptor that its selector watches."""

import os
from contextlib import suppress
from typing import Final

_PIPE_BYTES: Final = 65_536  # that a pipe holds


class Waker:
    """A pipe, which is readable from `wake` to `rest`."""

    def __init__(self) -> None:
        self._reads, self._writes = os.pipe()
        for descriptor in (self._reads, self._writes):
            os.set_blocking(descriptor, False)

    def fileno(self) -> int:
        """Return the descriptor that a selector watches."""
        return self._reads

    def wake(self) -> None:
        """Make the descriptor readable. Any thread may call this."""
        with suppress(BlockingIOError):  # it is full, and so readable
            os.write(self._writes, b"!")

    def rest(self) -> None:
        """Make the descriptor unreadable again."""
        with suppress(BlockingIOError):
            os.read(self._reads, _PIPE_BYTES)
