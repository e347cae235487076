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
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from storage.syncing import Syncer, Syncing, Waker

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
        """Ask the system to begin writing this range out, so that a later sync has less to wait for.

        The one call that never fails.
        """

    def close(self) -> None:
        """Close the file, once no sync of it is under way."""


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

        `waker` wakes the owner when some have ended, and when all have; not if they are over when this returns. What is
        written to the files meanwhile may or may not be on the disk when they have ended.
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
        self._syncing: Syncing | None = None  # the latest one of which this file is a part

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
        """Return the descriptor for a sync that goes on beside the owner, as one of `syncing`.

        Waits for such a sync that is under way.
        """
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
        """Ask the system to begin writing the file out. If it cannot, the sync does it."""
        start = _sync_file_range()
        if start is not None:
            start(self._descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE)

    def sync_now(self) -> None:
        """Sync the file, without waiting for a sync that is under way. For the threads that make syncs."""
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
            with suppress(OSError):  # it is advice: a file system that does not take it has the data all the same
                os.posix_fadvise(self._descriptor, position, size, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        self._wait()  # else the thread would sync whatever has the descriptor next
        try:
            os.close(self._descriptor)
        except OSError as error:
            raise _wrap_error("close", self.path, error) from error


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class RealFiles:
    """The operating system's files."""

    def __init__(self, *, may_use_ring: bool = True) -> None:
        """Without `may_use_ring`, threads make the syncs that go on beside their owner, on every system."""
        self._may_use_ring = may_use_ring and _SYNC_DISK is None
        self._syncer: Syncer | None = None  # once there was such a sync
        self._spares: list[int] = []
        """Descriptors kept for when there is no other: to sync a directory or to roll a log takes one for a moment."""
        weakref.finalize(self, _close_all, self._spares)

    def _descriptor(self, path: str, flags: int) -> int:
        """Open a file, in place of a spare descriptor if there is no other. Raises OSError."""
        while True:
            try:
                descriptor = os.open(path, flags, 0o644)
                break
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._spares:
                    raise
                os.close(self._spares.pop())
        with suppress(OSError):
            while len(self._spares) < SPARES:
                self._spares.append(os.open(os.devnull, os.O_RDONLY))
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
        if self._syncer is None:
            from storage.syncing import Syncer  # which imports this module

            self._syncer = Syncer(may_use_ring=self._may_use_ring)
        return self._syncer.begin(real, waker)

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
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
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
