"""Files that live as long as the process: for a server that keeps nothing. They forget nothing, and never fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from protocol.record_batch import Buffer
from storage.files import File, Lock, StorageError, Syncing, Waker


class MemoryFile:
    """An open file: a name for bytes that others may have open too."""

    def __init__(self, path: str, content: bytearray) -> None:
        self.path = path
        self._content = content

    def append(self, data: bytes) -> None:
        self._content += data

    def append_parts(self, parts: Sequence[Buffer]) -> None:
        for part in parts:
            self._content += part

    def pread(self, position: int, size: int) -> bytes:
        return bytes(memoryview(self._content)[position : position + size])

    def share(self, position: int, size: int, count: int, end_offset: int) -> None:
        """Return None: the bytes are in memory already."""

    def size(self) -> int:
        return len(self._content)

    def modified_ms(self) -> int:
        """Return -1: no log of the process is opened a second time, so nobody needs to know."""
        return -1

    def set_modified_ms(self, at_ms: int) -> None:
        """Note nothing, as above."""

    def truncate(self, size: int) -> None:
        del self._content[size:]

    def sync(self) -> None:
        """Do nothing: nothing is more durable than the process."""

    def start_writing_back(self, position: int, size: int) -> None:
        """Do nothing: there is nowhere to write back to."""

    def close(self) -> None:
        """Do nothing: the bytes stay while the name does."""


class MemoryFiles:
    """Names and bytes."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}
        self._directories: set[str] = set()

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> File:
        if path not in self._files and not create:
            raise _no_such_file("open", path)
        return MemoryFile(path, self._files.setdefault(path, bytearray()))

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._directories

    def list(self, directory: str) -> list[str]:
        inside = directory + "/"
        every = [*self._files, *self._directories]
        return sorted({path[len(inside) :].split("/")[0] for path in every if path.startswith(inside)})

    def make_directory(self, path: str) -> None:
        self._directories.add(path)

    def rename(self, old: str, new: str) -> None:
        if old in self._directories:
            inside = {path for path in self._directories if path == old or path.startswith(f"{old}/")}
            self._directories -= inside
            self._directories |= {new + path.removeprefix(old) for path in inside}
            for path in [path for path in self._files if path.startswith(f"{old}/")]:
                self._files[new + path.removeprefix(old)] = self._files.pop(path)
            return
        if old not in self._files:
            raise _no_such_file("rename", old)
        self._files[new] = self._files.pop(old)

    def remove(self, path: str) -> None:
        if self._files.pop(path, None) is None:
            raise _no_such_file("remove", path)

    def remove_directory(self, path: str) -> None:
        self._directories.discard(path)

    def sync_directory(self, path: str) -> None:
        """Do nothing, as `MemoryFile.sync`."""

    def absolute(self, path: str) -> str:
        return f"/{path.lstrip('/')}"

    def space(self, path: str) -> tuple[int, int]:
        """Return unknown sizes: nobody has said how large the memory is."""
        return -1, -1

    def begin_syncs(self, files: Sequence[File], waker: Waker) -> Syncing:
        return _NoSyncing()

    def lock(self, path: str, also: Sequence[str] = ()) -> Lock:
        return _NoLock()


class _NoSyncing:
    """Do nothing: nothing is more durable than the process."""

    is_over = True
    failures: Mapping[str, StorageError] = MappingProxyType({})

    def wait(self) -> None:
        """Return at once: there is nothing to wait for."""


class _NoLock:
    def release(self) -> None:
        """Do nothing: nobody else can be here."""


def _no_such_file(operation: str, path: str) -> StorageError:
    return StorageError(operation, path, errno.ENOENT, os.strerror(errno.ENOENT))
