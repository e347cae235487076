"""Wakes the poller from elsewhere: a descriptor that its selector watches. A thread writes to it, or the kernel."""

import os
from contextlib import suppress


class Waker:
    """A descriptor that is readable from `wake` to `rest`: an eventfd, or a pipe where there is none."""

    def __init__(self) -> None:
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) if hasattr(os, "eventfd") else -1
        if self._eventfd >= 0:
            self._reads = self._writes = self._eventfd
        else:
            self._reads, self._writes = os.pipe()
            for descriptor in (self._reads, self._writes):
                os.set_blocking(descriptor, False)

    def fileno(self) -> int:
        """Return the descriptor that a selector watches."""
        return self._reads

    def eventfd(self) -> int:
        """Return the descriptor to which the kernel may write, -1 where it cannot."""
        return self._eventfd

    def wake(self) -> None:
        """Make the descriptor readable. Any thread may call this."""
        with suppress(BlockingIOError):  # it is full, and so readable
            os.write(self._writes, (1).to_bytes(8, "little"))

    def rest(self) -> None:
        """Make the descriptor unreadable again."""
        with suppress(BlockingIOError):
            os.read(self._reads, 4_096)
