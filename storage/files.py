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
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

SYNCS_AT_ONCE = 32
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
        """Return when all that was written is on the disk."""

    def start_writing_back(self, position: int, size: int) -> None:
        """Ask the system to begin writing this range out, so that a later sync has less to wait for."""

    def close(self) -> None: ...


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

    def together(self, syncs: Sequence[Callable[[], None]]) -> None:
        """Make these syncs, of different files; return when all have. Raises what one of them raised."""

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
_SYNC_DISK = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone leaves the data in the disk's own cache


class RealFile:
    """A file of the operating system."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

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
        try:
            os.close(self._descriptor)
        except OSError as error:
            raise _wrap_error("close", self.path, error) from error


class RealFiles:
    """The operating system's files."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
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

    def together(self, syncs: Sequence[Callable[[], None]]) -> None:
        # A file system commits its journal once for all who wait for it at the same time, so syncs of many files
        # cost little more than one of them; asked for one after the other, each waits for a commit of its own.
        if len(syncs) < 2:
            for sync in syncs:
                sync()
            return
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor  # a server that does not sync starts none

            self._threads = ThreadPoolExecutor(SYNCS_AT_ONCE, "sync")
        for done in [self._threads.submit(sync) for sync in syncs]:
            done.result()

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
