"""`muster` on a disk that takes longer: every sync of a file waits for so many milliseconds before it is made.

    python -m benchmarks.slow_disk MILLISECONDS serve --fsync ...

Syncs that are made at the same time wait at the same time.
"""

from __future__ import annotations

import sys
import time

from coordinator.cli import main
from storage import real_files


def slow_down(seconds: float) -> None:
    """Let each sync of a file take longer by so much, in the turn or in a thread."""
    sync = real_files._sync

    def wait_and_sync(descriptor: int) -> None:
        time.sleep(seconds)
        sync(descriptor)

    real_files._sync = wait_and_sync


if __name__ == "__main__":
    delay_ms = float(sys.argv.pop(1))
    if delay_ms:
        slow_down(delay_ms / 1000)
    sys.exit(main())
