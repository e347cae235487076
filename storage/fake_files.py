"""A disk in memory that knows what was made durable, can fail any call, and can say what a crash may leave of it.

It is the twin of `files.RealFiles`, for tests and for a server that runs whole in memory. Names and contents are made
durable apart, as on a real disk: a file's bytes by `sync`, its name by `sync_directory`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence

from storage.files import DirectoryLocked, File, Lock, StorageFailed

_Names = dict[str, "_Content"]


class _Content:
    """What a name refers to: the bytes that a reader sees and those that would survive a power cut."""

    __slots__ = ("data", "durable")

    def __init__(self, data: bytes = b"", durable: bytes = b"") -> None:
        self.data = bytearray(data)
        self.durable = durable


class FakeFile:
    """A handle; it stays readable when its name is changed or removed."""

    def __init__(self, disk: FakeFiles, path: str, content: _Content) -> None:
        self.path = path
        self._disk, self._content = disk, content

    def append(self, data: bytes) -> None:
        with_error = self._disk.begin("append to", self.path)
        if with_error is not None:  # a write that fails may have written a part
            self._content.data += data[: len(data) // 2]
            raise with_error
        self._content.data += data
        self._disk.done("append to", self.path)

    def pread(self, position: int, size: int) -> bytes:
        self._disk.call("read", self.path)
        return bytes(self._content.data[position : position + size])

    def size(self) -> int:
        return len(self._content.data)

    def truncate(self, size: int) -> None:
        self._disk.call("truncate", self.path)
        del self._content.data[size:]
        self._content.data.extend(bytes(size - len(self._content.data)))
        self._disk.done("truncate", self.path)

    def sync(self) -> None:
        self._disk.call("sync", self.path)
        self._content.durable = bytes(self._content.data)
        self._disk.done("sync", self.path)

    def start_writing_back(self, position: int, size: int) -> None:
        """Says nothing of what is durable."""

    def close(self) -> None:
        """Closing makes nothing durable."""


class FakeFiles:
    """The disk. `fail` names the calls (counted from 1) that fail and with which errno; `after_call` sees each that
    succeeds."""

    def __init__(self) -> None:
        self.calls = 0
        self.fail: dict[int, int] = {}
        self.after_call: Callable[[str, str], None] | None = None
        self._directories: set[str] = {""}
        self._names: _Names = {}
        self._durable: _Names = {}
        self._pending: list[tuple[str, Callable[[_Names], object]]] = []
        """Changes of names since the last sync of their directory, in order, each with its directory."""
        self._locked: set[str] = set()

    # -- the calls -----------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> File:
        self.call("open", path)
        if path not in self._names:
            if not create:
                raise _error(errno.ENOENT, "open", path)
            if _parent(path) not in self._directories:
                raise _error(errno.ENOENT, "open", path)
            content = _Content()
            self._change(path, lambda names: names.__setitem__(path, content))
            self.done("open", path)
        return FakeFile(self, path, self._names[path])

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._directories

    def list(self, directory: str) -> list[str]:
        self.call("list", directory)
        inside = directory + "/" if directory else ""
        every = [*self._names, *self._directories]
        return sorted({p[len(inside) :].split("/")[0] for p in every if p.startswith(inside) and p != directory and p})

    def make_directory(self, path: str) -> None:
        self.call("make directory", path)
        while path not in self._directories:
            self._directories.add(path)
            path = _parent(path)

    def rename(self, old: str, new: str) -> None:
        self.call("rename", old)
        if old not in self._names:
            raise _error(errno.ENOENT, "rename", old)
        content = self._names[old]

        def renamed(names: _Names) -> None:
            names.pop(old, None)
            names[new] = content

        self._change(old, renamed)
        self.done("rename", old)

    def remove(self, path: str) -> None:
        self.call("remove", path)
        if path not in self._names:
            raise _error(errno.ENOENT, "remove", path)
        self._change(path, lambda names: names.pop(path, None))
        self.done("remove", path)

    def remove_directory(self, path: str) -> None:
        self.call("remove directory", path)
        if self.list(path):
            raise _error(errno.ENOTEMPTY, "remove directory", path)
        self._directories.discard(path)

    def sync_directory(self, path: str) -> None:
        self.call("sync directory", path)
        for where, change in self._pending:
            if where == path:
                change(self._durable)
        self._pending = [pending for pending in self._pending if pending[0] != path]
        self.done("sync directory", path)

    def together(self, syncs: Sequence[Callable[[], None]]) -> None:
        for sync in syncs:
            sync()

    def lock(self, path: str) -> Lock:
        self.call("lock", path)
        if path in self._locked:
            raise DirectoryLocked(path, os.getpid())
        self._locked.add(path)
        return _FakeLock(self._locked, path)

    # -- what a test may ask -------------------------------------------------------------------------------------------

    def contents(self) -> dict[str, bytes]:
        return {path: bytes(content.data) for path, content in self._names.items()}

    def synced_size(self, path: str) -> int:
        """How many bytes of a file are on the disk for certain."""
        return len(self._names[path].durable) if path in self._names else 0

    def put(self, path: str, data: bytes) -> None:
        """A file that has always been there."""
        self.make_directory(_parent(path))
        self._names[path] = self._durable[path] = _Content(data, data)

    def copy(self) -> FakeFiles:
        """The disk as another process would find it now, which is what a killed process leaves."""
        return self._with({path: bytes(content.data) for path, content in self._names.items()})

    def crashes(self) -> Iterator[tuple[str, FakeFiles]]:
        """What may be found after a crash at this moment, each with its name. States that are alike come once.

        The process killed: all that was written is there. The power cut: of the names any first part of the changes
        since the last sync of the directory; of the bytes those that were synced, and of the later ones none, half,
        zeros in their place, or a hole of zeros in their first half.
        """
        yield "killed", self.copy()
        seen: set[tuple[tuple[str, bytes], ...]] = set()
        names = dict(self._durable)
        for upto in range(len(self._pending) + 1):
            if upto:
                self._pending[upto - 1][1](names)
            for how, survive in _SURVIVALS.items():
                left = {path: survive(content.durable, bytes(content.data)) for path, content in names.items()}
                state = tuple(sorted(left.items()))
                if state not in seen:
                    seen.add(state)
                    yield f"power cut, {upto} of {len(self._pending)} names, {how}", self._with(left)

    def _with(self, contents: dict[str, bytes]) -> FakeFiles:
        disk = FakeFiles()
        disk._directories = set(self._directories)
        for path, data in contents.items():
            disk._names[path] = disk._durable[path] = _Content(data, data)
        return disk

    # -- how a call goes -----------------------------------------------------------------------------------------------

    def begin(self, operation: str, path: str) -> StorageFailed | None:
        self.calls += 1
        number = self.fail.get(self.calls)
        return None if number is None else _error(number, operation, path)

    def call(self, operation: str, path: str) -> None:
        error = self.begin(operation, path)
        if error is not None:
            raise error

    def done(self, operation: str, path: str) -> None:
        if self.after_call is not None:
            self.after_call(operation, path)

    def _change(self, path: str, change: Callable[[_Names], object]) -> None:
        change(self._names)
        self._pending.append((_parent(path), change))


def _half(durable: bytes, data: bytes) -> bytes:
    if not data.startswith(durable):
        return durable  # truncated since: the old end may come back
    return durable + data[len(durable) : len(durable) + (len(data) - len(durable)) // 2]


def _zeros(durable: bytes, data: bytes) -> bytes:
    return durable + bytes(len(data) - len(durable)) if data.startswith(durable) else durable


def _hole(durable: bytes, data: bytes) -> bytes:
    half = len(_half(durable, data))
    return durable + bytes(half - len(durable)) + data[half:] if data.startswith(durable) else durable


HOLE = "a hole in the rest"
"""Later bytes of one write are on the disk and earlier ones are not: rare, for file systems grow a file in order."""

_SURVIVALS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "synced bytes": lambda durable, _: durable,
    "all bytes": lambda _, data: data,
    "half of the rest": _half,
    "zeros for the rest": _zeros,
    HOLE: _hole,
}


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _error(number: int, operation: str, path: str) -> StorageFailed:
    return StorageFailed(operation, path, number, os.strerror(number))


class _FakeLock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked, self._path = locked, path

    def release(self) -> None:
        self._locked.discard(self._path)
