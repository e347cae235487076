"""`muster` on a disk that takes longer: every sync of a file waits for so many milliseconds before it is made.

    python -m benchmarks.slow_disk MILLISECONDS [--threads] serve --fsync ...

Syncs that are made at the same time wait at the same time. With `--threads` they are made by threads, as on a system
without io_uring.
"""

from __future__ import annotations

import ctypes
import errno
import sys
import time

from coordinator.cli import main
from storage import files, ring

OP_TIMEOUT = 11
ETIME_SUCCESS = 1 << 5  # a timeout that is over is no failure, which would break the link
LINKED = 1 << 2  # what follows begins when this has ended


def slow_down(seconds: float) -> None:
    """Let each sync of a file take longer by so much, in the turn, in a thread or in the kernel's ring."""
    sync, sync_in_ring = files._sync, ring.Ring.sync
    delay = (ctypes.c_int64 * 2)(int(seconds), int(seconds % 1 * 1e9))  # struct __kernel_timespec

    def wait_and_sync(descriptor: int) -> None:
        time.sleep(seconds)
        sync(descriptor)

    def link(self: ring.Ring, fd: int, user_data: int, flags: int = 0) -> None:
        where = ctypes.addressof(delay)
        self.push(OP_TIMEOUT, -1, 0, flags=LINKED | ring.SILENT, op_flags=ETIME_SUCCESS, address=where, length=1)
        sync_in_ring(self, fd, user_data, flags)

    files._sync = wait_and_sync
    ring.Ring.sync = link  # type: ignore[method-assign]


def refuse(self: ring.Ring) -> None:
    """Do as a system without io_uring does."""
    raise OSError(errno.ENOSYS, "there is no io_uring")


if __name__ == "__main__":
    delay_ms = float(sys.argv.pop(1))
    if delay_ms:
        slow_down(delay_ms / 1000)
    if "--threads" in sys.argv:
        sys.argv.remove("--threads")
        ring.Ring.__init__ = refuse  # type: ignore[method-assign]
    sys.exit(main())
