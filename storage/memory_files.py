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
    """Names and bytes. What a call takes depends on the files of its own directory, however many others there are."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}
        self._directories: set[str] = set()
        self._names: dict[str, dict[str, None]] = {}
        """By directory the names in it. One that nobody has made is there while a file is in it."""

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> File:
        content = self._files.get(path)
        if content is None:
            if not create:
                raise _no_such_file("open", path)
            content = self._files[path] = bytearray()
            self._enter(path)
        return MemoryFile(path, content)

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._directories

    def list(self, directory: str) -> list[str]:
        return sorted(self._names.get(directory, ()))

    def make_directory(self, path: str) -> None:
        if path not in self._directories:
            self._directories.add(path)
            self._enter(path)

    def rename(self, old: str, new: str) -> None:
        if old in self._directories:
            self._move_directory(old, new)
        elif old in self._files:
            self._files[new] = self._files.pop(old)
            self._leave(old)
            self._enter(new)
        else:
            raise _no_such_file("rename", old)

    def remove(self, path: str) -> None:
        if self._files.pop(path, None) is None:
            raise _no_such_file("remove", path)
        self._leave(path)

    def remove_directory(self, path: str) -> None:
        self._directories.discard(path)
        self._leave(path)

    def _move_directory(self, old: str, new: str) -> None:
        for name in self.list(old):
            inside = f"{old}/{name}"
            if inside in self._files:
                self._files[f"{new}/{name}"] = self._files.pop(inside)
                self._enter(f"{new}/{name}")
            else:
                self._move_directory(inside, f"{new}/{name}")
        self._names.pop(old, None)
        if old in self._directories:
            self._directories.remove(old)
            self.make_directory(new)
        self._leave(old)

    def _enter(self, path: str) -> None:
        """Note a name in its directory, and that of the directory in the one above, if they are new."""
        directory, slash, name = path.rpartition("/")
        while slash:
            names = self._names.setdefault(directory, {})
            if name in names:
                return
            names[name] = None
            directory, slash, name = directory.rpartition("/")

    def _leave(self, path: str) -> None:
        """Forget a name that is nobody's any more, and that of a directory that was there for it alone."""
        while not (self.exists(path) or self._names.get(path)):
            self._names.pop(path, None)
            directory, slash, name = path.rpartition("/")
            if not slash or directory not in self._names:
                return
            self._names[directory].pop(name, None)
            path = directory

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
