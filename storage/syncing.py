"""Syncs that threads make while the owner of the files does something else.

A file system writes all that is on its way to the disk with one commit of its journal. So the syncs of many files are
made in shares: those of a share one after the other, and the shares at the same time. Of a share each file is on its
way before the first is waited for, and the syncs behind the first one find that most of their work is done.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import SimpleQueue
from time import perf_counter
from typing import Final, Protocol

from storage.files import StorageError, Syncing, Waker

SYNCS_AT_ONCE: Final = 32
SYNCS_SECONDS: Final = 0.002  # that the syncs of many files are to take: as many at once as that needs, and no more


class Syncable(Protocol):
    """A file that threads can sync."""

    @property
    def path(self) -> str: ...
    def begin_sync(self, syncing: Syncing) -> None:
        """Wait for a background sync that is under way; the next one is a part of `syncing`."""

    def start_writing(self) -> None:
        """Ask the system to begin writing the file out."""

    def sync_now(self) -> None:
        """Sync the file, without waiting for a background sync. Raises StorageError."""


class NoWaker:
    """Wakes nobody, for an owner that calls `Syncing.wait` or looks at `Syncing.is_over`."""

    def wake(self) -> None:
        """Do nothing."""


def count_shares(files: int, file_seconds: float) -> int:
    """Return in how many shares files are synced at the same time, if the sync of one takes `file_seconds`.

    A file system commits its journal once for all who wait for it at the same time, so on a slow disk many syncs take
    little longer than one. On a fast disk, each that is made beside others costs more processor time.
    """
    return max(1, min(1 + int(files * file_seconds / SYNCS_SECONDS), files, SYNCS_AT_ONCE))


class ThreadSyncing:
    """Syncs that threads make, each of them one share of the files."""

    def __init__(self, files: Sequence[Syncable], threads: int, waker: Waker) -> None:
        self.is_over = False
        self.failures: dict[str, StorageError] = {}
        self.seconds = 0.0  # of all syncs, one after the other
        self.shares = [files[number::threads] for number in range(threads)]
        self.count = len(files)
        self._left = threads
        self._waker = waker
        self._lock = threading.Lock()
        self._over = threading.Lock()
        self._over.acquire()
        for file in files:
            file.begin_sync(self)

    def sync_share(self, share: Sequence[Syncable]) -> None:
        """Sync a share of the files, in a thread of its own.

        One sync after the other without `start_writing` takes twice as long, and a thread for each file twice the
        processor time.
        """
        began_s = perf_counter()
        failures: dict[str, StorageError] = {}
        if len(share) > 1:
            for file in share:
                file.start_writing()
        for file in share:
            try:
                file.sync_now()
            except StorageError as failure:
                failures[file.path] = failure
        with self._lock:
            self.failures.update(failures)
            self.seconds += perf_counter() - began_s
            self._left -= 1
            if self._left:
                return
        self.shares = []
        self.is_over = True
        self._over.release()
        self._waker.wake()

    def wait(self) -> None:
        """Return when all of them have ended."""
        with self._over:
            pass


class Syncer:
    """Syncs files by threads, as many as the disk was slow the last time. They are started when they are needed."""

    def __init__(self) -> None:
        self._threads = 0  # how many have been started
        self._shares: SimpleQueue[tuple[ThreadSyncing, Sequence[Syncable]]] = SimpleQueue()  # for the threads
        self._latest: ThreadSyncing | None = None

    def begin(self, files: Sequence[Syncable], waker: Waker) -> Syncing:
        """Begin to sync these files, and return at once. `Files.begin_syncs` says when `waker` wakes the owner."""
        latest = self._latest
        is_known = latest is not None and latest.is_over and latest.count
        threads = count_shares(len(files), latest.seconds / latest.count if latest and is_known else 0.0)
        self._latest = syncing = ThreadSyncing(files, threads, waker)
        while self._threads < threads:
            self._threads += 1
            threading.Thread(target=self._sync_shares, name=f"sync-{self._threads}", daemon=True).start()
        for share in syncing.shares:
            self._shares.put((syncing, share))
        return syncing

    def _sync_shares(self) -> None:
        while True:
            syncing, share = self._shares.get()
            syncing.sync_share(share)
