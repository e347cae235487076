"""The calls to the disk that a log needs, as protocols. `RealFiles` carries them out; tests use `CrashingDisk`.

A call that fails raises `StorageError`, and is not retried: after a failed fsync the kernel may have dropped the pages
that it could not write, so that a second fsync succeeds without them. The next start finds out what is on the disk.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from storage.file_range import FileRange

if TYPE_CHECKING:
    from protocol.record_batch import Buffer


class StorageError(Exception):
    """A call to the disk has failed. Nothing that depends on it may be acknowledged."""

    def __init__(self, operation: str, path: str, number: int, text: str) -> None:
        self.operation, self.path, self.errno, self.text = operation, path, number, text
        super().__init__(f"{operation} {path}: {text} ({errno.errorcode.get(number, number)})")

    @property
    def is_full(self) -> bool:
        """Whether the disk or the quota is full."""
        return self.errno in (errno.ENOSPC, errno.EDQUOT)


class DirectoryLocked(Exception):  # noqa: N818 - as above
    """Another process holds the data directory. `pid` is from the lock file, 0 if that cannot be read."""

    def __init__(self, path: str, pid: int) -> None:
        self.path, self.pid = path, pid
        super().__init__(f"{path} is held by process {pid or 'unknown'}")


class File(Protocol):
    """An open file. It stays readable when it is renamed or removed."""

    @property
    def path(self) -> str: ...
    def append(self, data: bytes) -> None:
        """Write all of `data` at the end."""

    def append_parts(self, parts: Sequence[Buffer]) -> None:
        """Write all of the parts, some hundred at most, at the end, without a copy that joins them."""

    def pread(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes; fewer at the end of the file."""

    def share(self, position: int, size: int, count: int, end_offset: int) -> FileRange | None:
        """Return a range of whole batches that can be sent without being read; None if it must be read.

        The batches have `count` records, the last of them before `end_offset`.
        """

    def size(self) -> int: ...
    def modified_ms(self) -> int:
        """Return when the file was last written to, in milliseconds since the epoch; -1 if nobody has noted it."""

    def set_modified_ms(self, at_ms: int) -> None:
        """Let `modified_ms` return this time, until the file is written to again."""

    def truncate(self, size: int) -> None: ...
    def sync(self) -> None:
        """Sync all that was written. Waits for a sync that is under way, and raises its failure."""

    def start_writing_back(self, position: int, size: int) -> None:
        """Ask the system to begin writing this range out, so that a later sync has less to wait for.

        The one call that never fails.
        """

    def close(self) -> None:
        """Close the file. Waits for a sync that is under way."""


class Syncing(Protocol):
    """Syncs of some files that go on while their owner does something else."""

    @property
    def is_over(self) -> bool:
        """Whether all of them have ended."""

    @property
    def failures(self) -> Mapping[str, StorageError]:
        """The syncs that have failed, by the path of the file. Complete once `is_over`."""

    def wait(self) -> None:
        """Return when all of them have ended."""


class Waker(Protocol):
    """Wakes the owner of syncs when some of them have ended."""

    def wake(self) -> None:
        """Wake the owner. Any thread may call this."""


class Files(Protocol):
    """A file system. Paths are separated by `/`. A changed name is durable only after `sync_directory`."""

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> File: ...
    def exists(self, path: str) -> bool: ...
    def list(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none if the directory does not exist."""

    def make_directory(self, path: str) -> None:
        """Make a directory and its missing parents, and sync each new name."""

    def rename(self, old: str, new: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def remove_directory(self, path: str) -> None: ...
    def sync_directory(self, path: str) -> None: ...
    def absolute(self, path: str) -> str:
        """Return the absolute path."""

    def space(self, path: str) -> tuple[int, int]:
        """Return the size of the volume that holds `path` and its free space, in bytes; -1 if unknown."""

    def begin_syncs(self, files: Sequence[File], waker: Waker) -> Syncing:
        """Begin to sync what was written to these files so far, and return at once.

        `waker` wakes the owner when some of the syncs have ended, and when all have, unless they end before this
        returns. Whether data that is written in the meantime is synced as well is not defined.
        """

    def lock(self, path: str, also: Sequence[str] = ()) -> Lock:
        """Lock the directory of `path` and the directories in `also`, until the process ends.

        The file at `path` gets the pid. Directories that symbolic links in the directory lead to are locked as well.
        Raises `DirectoryLocked`.
        """


class Lock(Protocol):
    def release(self) -> None: ...
