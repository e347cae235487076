"""The operating system's files."""

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
from typing import TYPE_CHECKING, Final

from storage.file_range import RANGES_MAX, FileRange
from storage.files import DirectoryLocked, File, Lock, StorageError, Syncing, Waker
from storage.syncing import Syncer

if TYPE_CHECKING:
    from protocol.record_batch import Buffer

SPARES = 4  # descriptors


def _wrap_error(operation: str, path: str, error: OSError) -> StorageError:
    return StorageError(operation, path, error.errno or 0, error.strerror or str(error))


_PARTS_MAX: Final = 512  # in one call; systems allow 1,024
# fdatasync writes the data and the size, which is all that a log needs. Systems without it have fsync.
_sync = getattr(os, "fdatasync", os.fsync)
_SYNC_FILE_RANGE_WRITE: Final = 2
_SYNC_DISK = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone leaves the data in the disk's own cache


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return Linux's sync_file_range, which Python lacks; None on other systems."""
    import ctypes  # only servers with --fsync need it

    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return found


class RealFile:
    """A file of the operating system."""

    def __init__(self, path: str, descriptor: int, *, may_share: bool = False) -> None:
        self.path = path
        self._may_share = may_share
        self._descriptor = descriptor
        self._syncing: Syncing | None = None  # the latest background sync of this file

    def append(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):  # after a short write, the next call fails with the reason, such as a full disk
                written += os.write(self._descriptor, data[written:] if written else data)
        except OSError as error:
            raise _wrap_error("append to", self.path, error) from error

    def append_parts(self, parts: Sequence[Buffer]) -> None:
        if len(parts) > _PARTS_MAX:
            self.append(b"".join(parts))
            return
        try:
            written = os.writev(self._descriptor, parts)
        except OSError as error:
            raise _wrap_error("append to", self.path, error) from error
        if written < sum([len(memoryview(part)) for part in parts]):
            self.append(b"".join(parts)[written:])  # as above: the next call fails with the reason

    def pread(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, position)
        except OSError as error:
            raise _wrap_error("read", self.path, error) from error

    def share(self, position: int, size: int, count: int, end_offset: int) -> FileRange | None:
        if not self._may_share or FileRange.open_ranges >= RANGES_MAX:
            return None
        try:
            return FileRange(self.path, self._descriptor, position, size, count, end_offset)
        except OSError:  # no descriptor is left
            return None

    def size(self) -> int:
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise _wrap_error("look at", self.path, error) from error

    def modified_ms(self) -> int:
        try:
            return os.fstat(self._descriptor).st_mtime_ns // 1_000_000
        except OSError as error:
            raise _wrap_error("look at", self.path, error) from error

    def set_modified_ms(self, at_ms: int) -> None:
        try:
            os.utime(self._descriptor, ns=(at_ms * 1_000_000, at_ms * 1_000_000))
        except OSError as error:
            raise _wrap_error("set the time of", self.path, error) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise _wrap_error("truncate", self.path, error) from error

    def sync(self) -> None:
        # The system reports a failed write only once, here to the sync under way; a second sync would succeed.
        if (failure := self._wait()) is not None:
            raise failure
        self.sync_now()

    def begin_sync(self, syncing: Syncing) -> None:
        """Wait for a background sync that is under way; the next one is a part of `syncing`."""
        self._wait()
        self._syncing = syncing

    def _wait(self) -> StorageError | None:
        """Wait for a background sync that is under way. Return its failure, None if it succeeded."""
        if self._syncing is None:
            return None
        self._syncing.wait()
        return self._syncing.failures.get(self.path)

    def start_writing(self) -> None:
        """Ask the system to begin writing the file out. Where it cannot, the sync does all of it."""
        start = _sync_file_range()
        if start is not None:
            start(self._descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE)

    def sync_now(self) -> None:
        """Sync the file without waiting for a background sync. For the threads that make these."""
        try:
            if _SYNC_DISK is not None:
                fcntl.fcntl(self._descriptor, _SYNC_DISK)
            else:
                _sync(self._descriptor)
        except OSError as error:
            raise _wrap_error("sync", self.path, error) from error

    def start_writing_back(self, position: int, size: int) -> None:
        # When Linux is told to drop a range, it begins to write the dirty pages, and keeps them until they are written.
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):  # it is advice: a file system that does not take it has the data all the same
                os.posix_fadvise(self._descriptor, position, size, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        self._wait()  # otherwise the thread might sync another file that gets this descriptor
        try:
            os.close(self._descriptor)
        except OSError as error:
            raise _wrap_error("close", self.path, error) from error


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class RealFiles:
    """The operating system's files."""

    def __init__(self, *, may_share: bool = False) -> None:
        """With `may_share`, files give ranges of themselves to whoever can send them."""
        self._may_share = may_share
        self._syncer: Syncer | None = None  # made with the first background sync
        self._spares: list[int] = []
        """Descriptors in reserve: to sync a directory or to roll a log takes one for a moment."""
        weakref.finalize(self, _close_all, self._spares)

    def _descriptor(self, path: str, flags: int) -> int:
        """Open a file, and close a spare descriptor for it if there is no other. Raises OSError."""
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
        return RealFile(path, descriptor, may_share=self._may_share)

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
                directory.mkdir(0o700, exist_ok=True)  # records and credentials are for the server's user alone
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
        assert len(real) == len(files), "files of another disk"
        if self._syncer is None:
            self._syncer = Syncer()
        return self._syncer.begin(real, waker)

    def lock(self, path: str, also: Sequence[str] = ()) -> Lock:
        return RealLock(path, [*_find_linked_directories(str(Path(path).parent)), *also])


class RealLock:
    """Advisory locks on the directories themselves, which the system releases when the process ends in any way.

    The file at `path` only has the pid of the holder, for the error message of a second process.
    """

    def __init__(self, path: str, also: Sequence[str] = ()) -> None:
        self.path = path
        self._descriptors: list[int] = []
        try:
            for directory in (str(Path(path).parent), *also):
                self._lock(directory)
            self._write_pid()
        except BaseException:
            self.release()
            raise

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
            raise DirectoryLocked(directory, self._read_holder()) from None

    def _read_holder(self) -> int:
        """Return the pid of the process that holds the lock, 0 if it cannot be read."""
        try:
            text = Path(self.path).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return 0
        return int(text) if text.isdigit() else 0

    def _write_pid(self) -> None:
        """Write the pid for other processes, unless the disk is full: the locks hold without it."""
        try:
            Path(self.path).write_text(f"{os.getpid()}\n", "ascii")
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise _wrap_error("write", self.path, error) from error

    def release(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())


def _find_linked_directories(directory: str) -> list[str]:
    """Return the directories that symbolic links in `directory` lead to: a log may be on another disk."""
    try:
        linked = {path.resolve() for path in Path(directory).iterdir() if path.is_symlink() and path.is_dir()}
        return sorted(str(path) for path in linked - {Path(directory).resolve()})
    except OSError as error:
        raise _wrap_error("list", directory, error) from error
