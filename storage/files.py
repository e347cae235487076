"""The seam to the disk: the few calls that a log needs, and the real ones. Its twin for tests is `CrashingDisk`.

Every call that fails raises `StorageError`, and nothing is ever tried again: after a failed fsync the kernel may have
dropped the very pages that it could not write, so a second fsync that succeeds proves nothing. What has failed is known
from the disk, at the next start.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from storage.ring import Ring

SYNCS_AT_ONCE: Final = 32
SYNCS_SECONDS: Final = 0.002  # that the syncs of many files are to take: as many at once as that needs, and no more
SPARES = 4


class StorageError(Exception):
    """The disk has refused a call. Nothing that hung on it may be acknowledged; the process ends and start-up
    recovers."""

    def __init__(self, operation: str, path: str, number: int, text: str) -> None:
        self.operation, self.path, self.errno, self.text = operation, path, number, text
        super().__init__(f"{operation} {path}: {text} ({errno.errorcode.get(number, number)})")

    @property
    def is_full(self) -> bool:
        """Whether room on the disk is all that is missing."""
        return self.errno in (errno.ENOSPC, errno.EDQUOT)


class DirectoryLocked(Exception):  # noqa: N818 - as above
    """Another process holds the data directory; `pid` is what it wrote into the lock file, 0 if that is not
    readable."""

    def __init__(self, path: str, pid: int) -> None:
        self.path, self.pid = path, pid
        super().__init__(f"{path} is held by process {pid or 'unknown'}")


class File(Protocol):
    """An open file. It stays readable when its name is changed or removed."""

    @property
    def path(self) -> str: ...
    def append(self, data: bytes) -> None:
        """Write all of `data` at the end, in one call to the system."""

    def pread(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end of the file."""

    def size(self) -> int: ...
    def truncate(self, size: int) -> None: ...
    def sync(self) -> None:
        """Return when all that was written is on the disk. Waits for a sync that is under way, and fails as that
        does."""

    def start_writing_back(self, position: int, size: int) -> None:
        """Ask the system to begin writing this range out, so that a later sync has less to wait for."""

    def close(self) -> None:
        """Close the file, once no sync of it is under way."""


class Syncing(Protocol):
    """Syncs of some files that go on while their owner does something else."""

    @property
    def is_over(self) -> bool:
        """Whether all of them have ended."""

    @property
    def failures(self) -> Mapping[str, StorageError]:
        """The syncs that have failed, by the path of the file. Whole when they are over."""

    def wait(self) -> None:
        """Return when all of them have ended."""


class Waker(Protocol):
    """Is told when syncs have ended."""

    def wake(self) -> None:
        """Some have ended. Any thread may call this."""

    def eventfd(self) -> int:
        """Return a descriptor to which the system writes instead, -1 where there is none."""


class NobodyWaits:
    """Nobody waits for syncs to end but by `Syncing.wait`."""

    def wake(self) -> None:
        """Nobody is told."""

    def eventfd(self) -> int:
        """Nobody is told."""
        return -1


class Files(Protocol):
    """Names are `/`-separated strings. Names that change are durable only after `sync_directory` of their directory."""

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> File: ...
    def exists(self, path: str) -> bool: ...
    def list(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none when there is no such directory."""

    def make_directory(self, path: str) -> None:
        """Make it and what is missing above it; each new name is made durable."""

    def rename(self, old: str, new: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def remove_directory(self, path: str) -> None: ...
    def sync_directory(self, path: str) -> None: ...
    def absolute(self, path: str) -> str:
        """Return the same path from the root on."""

    def space(self, path: str) -> tuple[int, int]:
        """Return bytes of the volume that holds `path`, and those that are free; -1 where that is unknown."""

    def begin_syncs(self, files: Sequence[File], waker: Waker) -> Syncing:
        """Begin to sync these files, all that was written to them by now, and return at once.

        `waker` is told when some have ended, and when all have; not if they are over when this returns. What is written
        to the files meanwhile may or may not be on the disk then.
        """

    def lock(self, path: str, also: Sequence[str] = ()) -> Lock:
        """Hold the directory of `path`, a file that tells who does, and `also` these, until the process ends.

        What symbolic links in the directory lead to is held as well. Raises `DirectoryLocked`.
        """


class Lock(Protocol):
    def release(self) -> None: ...


def _wrap_error(operation: str, path: str, error: OSError) -> StorageError:
    return StorageError(operation, path, error.errno or 0, error.strerror or str(error))


# fdatasync writes the data and the size, which is all that a log needs; where it is missing, fsync does more.
_sync = getattr(os, "fdatasync", os.fsync)
_SYNC_FILE_RANGE_WRITE: Final = 2
_SYNC_DISK = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone leaves the data in the disk's own cache


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return the system's call that begins to write a file out, None where there is none. Python does not have it."""
    import ctypes  # a server that does not sync does without

    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return found


class RealFile:
    """A file of the operating system."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._syncing: Syncing | None = None  # that has this file

    def append(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):  # a second call tells why the first has written less: no room, a limit of size
                written += os.write(self._descriptor, data[written:] if written else data)
        except OSError as error:
            raise _wrap_error("append to", self.path, error) from error

    def pread(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, position)
        except OSError as error:
            raise _wrap_error("read", self.path, error) from error

    def size(self) -> int:
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise _wrap_error("look at", self.path, error) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise _wrap_error("truncate", self.path, error) from error

    def sync(self) -> None:
        # The system tells of a failed write once: to the sync under way, and a second one would know nothing of it.
        if (failure := self._wait()) is not None:
            raise failure
        self.sync_now()

    def begin_sync(self, syncing: Syncing) -> int:
        """The file is about to be synced by others, who get its descriptor."""
        self._wait()
        self._syncing = syncing
        return self._descriptor

    def _wait(self) -> StorageError | None:
        """Wait for a sync of the file that is under way. Returns how it failed, None if it did not."""
        if self._syncing is None:
            return None
        self._syncing.wait()
        return self._syncing.failures.get(self.path)

    def start_writing(self) -> None:
        """Ask the system to begin writing out what is to be synced. If it cannot, the sync does it."""
        start = _sync_file_range()
        if start is not None:
            start(self._descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE)

    def sync_now(self) -> None:
        """Sync the file, whatever is under way. For the threads that make syncs."""
        try:
            if _SYNC_DISK is not None:
                fcntl.fcntl(self._descriptor, _SYNC_DISK)
            else:
                _sync(self._descriptor)
        except OSError as error:
            raise _wrap_error("sync", self.path, error) from error

    def start_writing_back(self, position: int, size: int) -> None:
        # Linux starts to write dirty pages of a range that it is told to drop, and keeps those that are still on
        # their way.
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, position, size, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        self._wait()  # else the thread would sync whatever has the descriptor next
        try:
            os.close(self._descriptor)
        except OSError as error:
            raise _wrap_error("close", self.path, error) from error


class ThreadSyncing:
    """Syncs that threads make, each of its share of the files."""

    def __init__(self, files: Sequence[RealFile], threads: int, waker: Waker) -> None:
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

    def make(self, share: Sequence[RealFile]) -> None:
        """Sync a share of the files, in a thread of its own.

        A file system writes all that is on its way to the disk with one commit of its journal. So each file is on its
        way before the first is waited for, and the syncs behind the first one find that most of their work is done:
        half the time of one sync after the other, and half the processor time of a thread for each.
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


class RingSyncing:
    """Syncs that the kernel makes, of each share of the files one after the other."""

    def __init__(self, ring: Ring, files: Sequence[RealFile], shares: int, eventfd: int) -> None:
        from storage.ring import NEXT_AFTERWARDS  # as `RealFiles._find_ring`

        self.failures: dict[str, StorageError] = {}
        self.file_seconds = 0.0  # that the sync of one file took
        self._ring = ring
        self._left = len(files)
        self._files = files
        self._began_s = perf_counter()
        self._shares = shares
        for first in range(shares):
            share = [(number, files[number].begin_sync(self)) for number in range(first, len(files), shares)]
            for _, descriptor in share if len(share) > 1 else ():  # as `ThreadSyncing.make` does
                ring.start_writing(descriptor)
            last, _ = share[-1]
            for number, descriptor in share:
                ring.sync(descriptor, number, 0 if number == last and eventfd < 0 else NEXT_AFTERWARDS)
            if eventfd >= 0:
                ring.notify(eventfd)
        ring.submit()

    @property
    def is_over(self) -> bool:
        """Whether all of them have ended."""
        if self._left:
            self._ring.reap(self._take)
        return not self._left

    def _take(self, number: int, result: int) -> None:
        self._left -= 1
        if not self._left:
            self.file_seconds = (perf_counter() - self._began_s) * self._shares / len(self._files)
        if result < 0:
            path = self._files[number].path
            self.failures[path] = StorageError("sync", path, -result, os.strerror(-result))

    def wait(self) -> None:
        """Return when all of them have ended."""
        while not self.is_over:
            self._ring.wait()


class RealFiles:
    """The operating system's files."""

    def __init__(self, *, may_use_ring: bool = True) -> None:
        """Without `may_use_ring`, syncs that go on beside their owner are made by threads on every system."""
        self._may_use_ring = may_use_ring and _SYNC_DISK is None
        self._ring: Ring | None = None  # once something was synced with it
        self._ring_syncs_max = 0
        self._in_ring: RingSyncing | None = None  # the latest
        self._threads = 0  # that make syncs: a server that does not sync has none
        self._shares: SimpleQueue[tuple[ThreadSyncing, Sequence[RealFile]]] = SimpleQueue()
        self._latest: ThreadSyncing | None = None  # which tells how long a sync takes
        self._spares: list[int] = []
        """Descriptors kept for when there is no other: to sync a directory or to roll a log takes one for a moment."""

    def _descriptor(self, path: str, flags: int) -> int:
        """Open a file, in place of a spare descriptor if there is no other. Raises OSError."""
        while True:
            try:
                descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
                break
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._spares:
                    raise
                os.close(self._spares.pop())
        with suppress(OSError):
            while len(self._spares) < SPARES:
                self._spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        return descriptor

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> File:
        flags = os.O_RDONLY if readonly else os.O_RDWR | os.O_APPEND
        try:
            descriptor = self._descriptor(path, flags | (os.O_CREAT if create else 0))
        except OSError as error:
            raise _wrap_error("open", path, error) from error
        return RealFile(path, descriptor)

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208 - names, not a Path object each
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _wrap_error("list", directory, error) from error

    def make_directory(self, path: str) -> None:
        missing = [p for p in (Path(path), *Path(path).parents) if not p.exists()]
        for directory in reversed(missing):
            try:
                directory.mkdir(exist_ok=True)
            except OSError as error:
                raise _wrap_error("make directory", path, error) from error
            self.sync_directory(str(directory.parent))

    def rename(self, old: str, new: str) -> None:
        try:
            Path(old).replace(new)
        except OSError as error:
            raise _wrap_error("rename", old, error) from error

    def remove(self, path: str) -> None:
        try:
            Path(path).unlink()
        except OSError as error:
            raise _wrap_error("remove", path, error) from error

    def remove_directory(self, path: str) -> None:
        try:
            Path(path).rmdir()
        except OSError as error:
            raise _wrap_error("remove directory", path, error) from error

    def sync_directory(self, path: str) -> None:
        try:
            descriptor = self._descriptor(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _wrap_error("sync directory", path, error) from error

    def absolute(self, path: str) -> str:
        return str(Path(path).absolute())

    def space(self, path: str) -> tuple[int, int]:
        try:
            usage = shutil.disk_usage(path)
        except OSError:
            return -1, -1
        return usage.total, usage.free

    def begin_syncs(self, files: Sequence[File], waker: Waker) -> Syncing:
        real = [file for file in files if isinstance(file, RealFile)]
        assert len(real) == len(files), "these files are of another disk"
        ring = self._find_ring() if self._may_use_ring else None
        if ring is None or len(real) > self._ring_syncs_max:
            return self._begin_in_threads(real, waker)
        if self._in_ring is not None:
            self._in_ring.wait()
        shares = self._shares_for(len(real), 0.0 if self._in_ring is None else self._in_ring.file_seconds)
        self._in_ring = RingSyncing(ring, real, shares, waker.eventfd())
        return self._in_ring

    @staticmethod
    def _shares_for(files: int, file_seconds: float) -> int:
        """Return in how many shares files are synced at the same time, if one of them takes so long.

        A file system commits its journal once for all who wait for it at the same time, so on a slow disk many syncs
        take little longer than one. On a fast disk, each that is made beside others costs more processor time.
        """
        return max(1, min(1 + int(files * file_seconds / SYNCS_SECONDS), files, SYNCS_AT_ONCE))

    def _find_ring(self) -> Ring | None:
        if self._ring is None:
            from storage.ring import SYNCS_MAX, Ring  # a server that does not sync does without

            self._ring_syncs_max = SYNCS_MAX
            try:
                self._ring = Ring()
            except OSError:
                self._may_use_ring = False
        return self._ring

    def _begin_in_threads(self, files: Sequence[RealFile], waker: Waker) -> Syncing:
        latest = self._latest
        is_known = latest is not None and latest.is_over and latest.count
        threads = self._shares_for(len(files), latest.seconds / latest.count if latest and is_known else 0.0)
        self._latest = syncing = ThreadSyncing(files, threads, waker)
        while self._threads < threads:
            self._threads += 1
            threading.Thread(target=self._make_syncs, name=f"sync-{self._threads}", daemon=True).start()
        for share in syncing.shares:
            self._shares.put((syncing, share))
        return syncing

    def _make_syncs(self) -> None:
        while True:
            syncing, share = self._shares.get()
            syncing.make(share)

    def lock(self, path: str, also: Sequence[str] = ()) -> Lock:
        return RealLock(path, [*_linked_directories(str(Path(path).parent)), *also])


class RealLock:
    """Advisory locks on directories' own descriptors, which nobody can delete. The system releases them with the
    process, however it ends.

    A file at `path` tells the pid of the holder to the second process; that is all that it is for.
    """

    def __init__(self, path: str, also: Sequence[str] = ()) -> None:
        self.path = path
        self._descriptors: list[int] = []
        try:
            for directory in (str(Path(path).parent), *also):
                self._lock(directory)
        except BaseException:
            self.release()
            raise
        self._tell_pid()

    def _lock(self, directory: str) -> None:
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _wrap_error("open", directory, error) from error
        self._descriptors.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise _wrap_error("lock", directory, error) from error
            raise DirectoryLocked(directory, self._holder()) from None

    def _holder(self) -> int:
        try:
            text = Path(self.path).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return 0
        return int(text) if text.isdigit() else 0

    def _tell_pid(self) -> None:
        """On a full disk the locks hold without it."""
        try:
            Path(self.path).write_text(f"{os.getpid()}\n", "ascii")
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise _wrap_error("write", self.path, error) from error

    def release(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())


def _linked_directories(directory: str) -> list[str]:
    """Return the directories that symbolic links in this one lead to: a log may be kept on another disk."""
    try:
        linked = {path.resolve() for path in Path(directory).iterdir() if path.is_symlink() and path.is_dir()}
        return sorted(str(path) for path in linked - {Path(directory).resolve()})
    except OSError as error:
        raise _wrap_error("list", directory, error) from error
