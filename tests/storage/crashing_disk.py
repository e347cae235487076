"""A disk in memory that knows what was made durable, can fail any call, and can say what a crash may leave of it.

It is the twin of `RealFiles`. As on a real disk, a file's bytes are made durable by `sync`, and its name by
`sync_directory`; a directory's own name needs the sync of the directory above it. After a power cut every name that
was changed and every file that was written since has a fate of its own.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from random import Random
from typing import Any, Final, NamedTuple

from protocol.record_batch import Buffer
from storage.files import DirectoryLocked, File, Lock, StorageError, Syncing, Waker

MIXES: Final = 2  # in `crashes`: how many states, for each set of names, give every file a fate of its own
SUBSETS_UP_TO: Final = 3  # in `crashes`: of how many pending names every subset is a state


class ProcessKill(BaseException):
    """The process ends at this call. No handler of the product's own may catch it."""


class _Content:
    """What a name refers to: the bytes that a reader sees and those that would survive a power cut."""

    __slots__ = ("data", "durable", "modified_ms")

    def __init__(self, data: bytes = b"", durable: bytes = b"", modified_ms: int = -1) -> None:
        self.data = bytearray(data)
        self.durable = durable
        self.modified_ms = modified_ms


_Names = dict[str, _Content | None]  # a directory has no content


class _Tree(_Names):
    """Names that know, once they have been asked, what is in each directory."""

    _children: dict[str, set[str]] | None = None

    def in_directory(self, directory: str) -> Set[str]:
        if self._children is None:
            self._children = {}
            for path in self:
                self._children.setdefault(_parent(path), set()).add(path)
        return self._children.get(directory, set()) - {""}

    def __setitem__(self, path: str, content: _Content | None) -> None:
        super().__setitem__(path, content)
        if self._children is not None:
            self._children.setdefault(_parent(path), set()).add(path)

    def pop(self, path: str, *default: Any) -> Any:
        if self._children is not None:
            self._children.get(_parent(path), set()).discard(path)
        return super().pop(path, *default)


class _Change(NamedTuple):
    """A change of names that its directory's next sync makes durable: a rename is one change, not two."""

    directory: str
    gone: str | None
    name: str | None
    content: _Content | None

    def apply(self, names: _Names) -> None:
        if self.gone is not None:
            names.pop(self.gone, None)
            if self.content is None:  # a directory takes along what is in it
                for path in [path for path in names if path.startswith(f"{self.gone}/")]:
                    content = names.pop(path)
                    if self.name is not None:
                        names[self.name + path.removeprefix(self.gone)] = content
        if self.name is not None:
            names[self.name] = self.content


class CrashingFile:
    """A handle; it stays readable when its name is changed or removed."""

    def __init__(self, disk: CrashingDisk, path: str, content: _Content, *, is_readonly: bool) -> None:
        self.path = path
        self._disk, self._content = disk, content
        self._is_readonly = is_readonly
        self._is_open = True
        self._syncing: CrashingSyncing | None = None  # that has this file

    def append(self, data: bytes) -> None:
        self._check("append to", writes=True)
        try:
            self._disk.call("append to", self.path)
            self._disk.take_room(self.path, len(data))
        except (StorageError, ProcessKill):  # a write that fails may have written a part
            self._content.data += data[: len(data) // 2]
            raise
        self._content.data += data
        self._content.modified_ms = self._disk.now_ms
        self._disk.done("append to", self.path)

    def append_parts(self, parts: Sequence[Buffer]) -> None:
        self.append(b"".join(parts))

    def share(self, position: int, size: int, count: int, end_offset: int) -> None:
        """Return None: the bytes are in memory already."""

    def pread(self, position: int, size: int) -> bytes:
        self._check("read")
        self._disk.call("read", self.path)
        return bytes(self._content.data[position : position + size])

    def size(self) -> int:
        self._check("look at")
        return len(self._content.data)

    def modified_ms(self) -> int:
        self._check("look at")
        return self._content.modified_ms

    def set_modified_ms(self, at_ms: int) -> None:
        self._check("set the time of", writes=True)
        self._content.modified_ms = at_ms

    def truncate(self, size: int) -> None:
        self._check("truncate", writes=True)
        self._disk.call("truncate", self.path)
        del self._content.data[size:]
        self._content.data.extend(bytes(size - len(self._content.data)))
        self._disk.done("truncate", self.path)

    def sync(self) -> None:
        self._check("sync")
        if (failure := self._wait()) is not None:
            raise failure
        self._disk.call("sync", self.path)
        self._content.durable = bytes(self._content.data)
        self._disk.done("sync", self.path)

    def begin_sync(self, syncing: CrashingSyncing) -> bytes:
        """Return what will be on the disk when the sync has ended. Raises what is to happen at it."""
        self._check("sync")
        self._wait()
        self._disk.call("sync", self.path)
        self._syncing = syncing
        return bytes(self._content.data)

    def end_sync(self, durable: bytes) -> None:
        """Make durable what the file held when the sync began. Bytes written since may be on the disk, or not."""
        if not self._content.durable.startswith(durable):  # else another handle has synced more meanwhile
            self._content.durable = durable
        self._disk.done("sync", self.path)

    def _wait(self) -> StorageError | None:
        """Wait for a sync of the file that is under way. Returns how it failed, None if it did not."""
        if self._syncing is None:
            return None
        self._syncing.wait()
        return self._syncing.failures.get(self.path)

    def start_writing_back(self, position: int, size: int) -> None:
        """Say nothing of what is durable."""

    def close(self) -> None:
        """Make nothing durable. A file that is closed twice may close another one, which has its descriptor by then."""
        assert self._is_open, f"{self.path} is closed twice"
        self._wait()
        self._is_open = False
        self._disk.handles -= 1

    def _check(self, operation: str, *, writes: bool = False) -> None:
        if not self._is_open or (writes and self._is_readonly):
            raise _error(errno.EBADF, operation, self.path)


class CrashingSyncing:
    """Syncs that are under way until somebody ends them or waits for them."""

    def __init__(self, disk: CrashingDisk, files: Sequence[CrashingFile], ended: Callable[[], None]) -> None:
        self.is_over = False
        self.failures: dict[str, StorageError] = {}
        self._disk = disk
        self._ended = ended
        self._durable: list[tuple[CrashingFile, bytes]] = []
        for file in files:
            try:
                self._durable.append((file, file.begin_sync(self)))
            except StorageError as failure:  # it is heard of at the end
                file._syncing = self
                self.failures[file.path] = failure

    def end(self) -> None:
        """Let the syncs end."""
        if not self.is_over:
            self.is_over = True
            self._disk.syncing = [one for one in self._disk.syncing if one is not self]
            for file, durable in self._durable:
                file.end_sync(durable)
            self._ended()

    wait = end  # for somebody waits for them


class CrashingDisk:
    """The disk.

    `fail` names the calls (counted from 1) that fail and with which errno, and `refuse` returns the errno of each call
    that fails by its name and path, else 0; at call `killed_at` the process ends; `bytes_max` is how much fits; `after_call` sees each call that succeeds and changes something. Syncs that go on
    beside their owner are over at once, unless the disk `is_slow`: then they are under way until `end_syncs`.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.handles = 0  # files that are open
        self.fail: dict[int, int] = {}
        self.refuse: Callable[[str, str], int] = lambda operation, path: 0
        self.killed_at: int | None = None
        self.bytes_max: int | None = None
        self.now_ms = -1  # the time that files get which are written to
        self.failures = 0  # calls that failed because a test said so, or because nothing more fits
        self.after_call: Callable[[str, str], None] | None = None
        self.is_slow = False
        self.syncing: list[CrashingSyncing] = []  # under way
        self._names = _Tree({"": None})
        self._durable: _Names = {"": None}
        self._pending: list[_Change] = []
        """Changes of names since the last sync of their directory, in order."""
        self._locked: set[str] = set()

    # -- the calls -----------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> File:
        self.call("open", path)
        is_new = path not in self._names
        if is_new and (not create or not self._is_directory(_parent(path))):
            raise _error(errno.ENOENT, "open", path)
        if is_new:
            self._change(_Change(_parent(path), None, path, _Content()))
        content = self._names[path]
        if content is None:
            raise _error(errno.EISDIR, "open", path)
        if is_new:
            self.done("open", path)
        self.handles += 1
        return CrashingFile(self, path, content, is_readonly=readonly)

    def exists(self, path: str) -> bool:
        return path in self._names

    def list(self, directory: str) -> list[str]:
        self.call("list", directory)
        if self.exists(directory) and not self._is_directory(directory):
            raise _error(errno.ENOTDIR, "list", directory)
        return sorted(path.rpartition("/")[2] for path in self._names.in_directory(directory))

    def make_directory(self, path: str) -> None:
        missing = list(itertools.takewhile(lambda name: name not in self._names, _ancestors(path)))
        for directory in reversed(missing):
            self.call("make directory", directory)
            self._change(_Change(_parent(directory), None, directory, None))
            self.done("make directory", directory)
            self.sync_directory(_parent(directory))

    def rename(self, old: str, new: str) -> None:
        self.call("rename", old)
        if old not in self._names:
            raise _error(errno.ENOENT, "rename", old)
        self._change(_Change(_parent(old), old, new, self._names[old]))
        self.done("rename", old)

    def remove(self, path: str) -> None:
        self.call("remove", path)
        if path not in self._names:
            raise _error(errno.ENOENT, "remove", path)
        if self._is_directory(path):
            raise _error(errno.EISDIR, "remove", path)
        self._change(_Change(_parent(path), path, None, None))
        self.done("remove", path)

    def remove_directory(self, path: str) -> None:
        self.call("remove directory", path)
        if not self._is_directory(path):
            raise _error(errno.ENOENT, "remove directory", path)
        if self._names.in_directory(path):
            raise _error(errno.ENOTEMPTY, "remove directory", path)
        self._change(_Change(_parent(path), path, None, None))
        self.done("remove directory", path)

    def sync_directory(self, path: str) -> None:
        self.call("sync directory", path)
        if not self._is_directory(path):
            raise _error(errno.ENOENT, "sync directory", path)
        ended = {path}  # the directories of which no change is pending any more: what is removed has none
        for change in self._pending:
            if change.directory == path:
                change.apply(self._durable)
                if change.name is None and change.gone is not None:
                    ended.add(change.gone)
        self._pending = [change for change in self._pending if change.directory not in ended]
        self.done("sync directory", path)

    def absolute(self, path: str) -> str:
        return f"/{path.lstrip('/')}"

    def space(self, path: str) -> tuple[int, int]:
        """Nobody has said how large the memory is."""
        return -1, -1

    def begin_syncs(self, files: Sequence[File], waker: Waker) -> Syncing:
        ours = [file for file in files if isinstance(file, CrashingFile)]
        assert len(ours) == len(files), "these files are of another disk"
        syncing = CrashingSyncing(self, ours, waker.wake if self.is_slow else lambda: None)
        self.syncing.append(syncing)
        if not self.is_slow:
            syncing.end()
        return syncing

    def end_syncs(self) -> None:
        """Let the syncs that are under way end."""
        for syncing in list(self.syncing):
            syncing.end()

    def lock(self, path: str, also: Sequence[str] = ()) -> Lock:
        self.call("lock", path)
        if path in self._locked:
            raise DirectoryLocked(path, os.getpid())
        self._locked.add(path)
        return _Lock(self._locked, path)

    # -- what a test may ask -------------------------------------------------------------------------------------------

    def contents(self) -> dict[str, bytes]:
        """The bytes of each file as a reader sees them now."""
        return {path: bytes(content.data) for path, content in self._names.items() if content is not None}

    def synced_size(self, path: str) -> int:
        """How many bytes of a file are on the disk for certain."""
        content = self._names.get(path)
        return 0 if content is None else len(content.durable)

    def put(self, path: str, data: bytes) -> None:
        """Place a file that has always been there."""
        for directory in _ancestors(_parent(path)):
            self._names[directory] = self._durable[directory] = None
        self._names[path] = self._durable[path] = _Content(data, data)

    def copy(self) -> CrashingDisk:
        """The disk as another process would find it now, which is what a killed process leaves."""
        return self._with(self._names, lambda path, content: bytes(content.data))

    def crash(self, dice: Random) -> CrashingDisk:
        """One state that a power cut at this moment may leave: every changed name and every file has its own fate."""
        names = dict(self._durable)
        for change in self._pending:
            if dice.random() < 0.5:
                change.apply(names)
        return self._with(names, _mixed(dice))

    def crashes(self) -> Iterator[tuple[str, CrashingDisk]]:
        """What may be found after a crash at this moment, each with its name. States that are alike come once.

        The process killed: all that was written is there. The power cut: some of the changes of names since the last
        sync of their directory; of the bytes those that were synced, and of the later ones none, half, all, zeros in
        their place, or a hole of zeros in their first half: for all files the same, or for each its own (but no hole).
        """
        yield "killed", self.copy()
        seen: set[tuple[tuple[str, bytes | None], ...]] = set()
        for number, chosen in enumerate(_subsets(len(self._pending))):
            names = dict(self._durable)
            for at in chosen:
                self._pending[at].apply(names)
            for fate, survive in self._fates(names, number):
                left = self._with(names, survive)
                state = tuple(sorted((p, None if c is None else c.durable) for p, c in left._names.items()))
                if state not in seen:
                    seen.add(state)
                    which = f"{chosen} of {len(self._pending)} names" if self._pending else "no name"
                    yield f"power cut, {which}, {fate}", left

    def _fates(self, names: _Names, number: int) -> Iterator[tuple[str, _Survives]]:
        for fate, survive in FATES.items():
            yield fate, lambda path, content, survive=survive: survive(content.durable, bytes(content.data))
        unsynced = [c for c in names.values() if c is not None and c.durable != c.data]
        if len(unsynced) > 1:
            for mix in range(MIXES):
                yield f"mix {mix}", _mixed(Random(number * MIXES + mix))

    def _with(self, names: _Names, survive: _Survives) -> CrashingDisk:
        """A disk of these names, without those whose directory is not among them."""
        disk = CrashingDisk()
        disk.is_slow = self.is_slow
        for path in sorted(names):
            if path and _parent(path) in disk._names:
                content = names[path]
                data = b"" if content is None else survive(path, content)
                disk._names[path] = disk._durable[path] = (
                    None if content is None else _Content(data, data, content.modified_ms)
                )
        return disk

    # -- how a call goes -----------------------------------------------------------------------------------------------

    def call(self, operation: str, path: str) -> None:
        """Count a call. Raises what is to happen at it."""
        self.calls += 1
        if self.killed_at is not None and self.calls >= self.killed_at:
            raise ProcessKill(f"{operation} {path}")
        if number := self.fail.get(self.calls) or self.refuse(operation, path):
            self.failures += 1
            raise _error(number, operation, path)

    def done(self, operation: str, path: str) -> None:
        if self.after_call is not None:
            self.after_call(operation, path)

    def take_room(self, path: str, size: int) -> None:
        """Raise ENOSPC if so many more bytes do not fit."""
        if self.bytes_max is not None and self.used_bytes() + size > self.bytes_max:
            self.failures += 1
            raise _error(errno.ENOSPC, "append to", path)

    def used_bytes(self) -> int:
        return sum(len(content.data) for content in self._names.values() if content is not None)

    def _is_directory(self, path: str) -> bool:
        return path in self._names and self._names[path] is None

    def _change(self, change: _Change) -> None:
        change.apply(self._names)
        self._pending.append(change)


_Survives = Callable[[str, _Content], bytes]


def _subsets(count: int) -> Iterable[tuple[int, ...]]:
    """Which of so many pending changes survive. Of many: the first so many, all but one, and one alone."""
    every = tuple(range(count))
    if count <= SUBSETS_UP_TO:
        return [chosen for size in range(count + 1) for chosen in itertools.combinations(every, size)]
    prefixes = [every[:size] for size in range(count + 1)]
    return dict.fromkeys(prefixes + [(at,) for at in every] + [every[:at] + every[at + 1 :] for at in every])


def _half(durable: bytes, data: bytes) -> bytes:
    if not data.startswith(durable):
        return durable  # truncated since: the old end may come back
    return durable + data[len(durable) : len(durable) + (len(data) - len(durable)) // 2]


def _zeros(durable: bytes, data: bytes) -> bytes:
    return durable + bytes(len(data) - len(durable)) if data.startswith(durable) else durable


def _hole(durable: bytes, data: bytes) -> bytes:
    half = len(_half(durable, data))
    return durable + bytes(half - len(durable)) + data[half:] if data.startswith(durable) else durable


HOLE: Final = "a hole in the rest"
"""Later bytes of one write are on the disk and earlier ones are not: rare, for file systems grow a file in order."""

FATES: Final[dict[str, Callable[[bytes, bytes], bytes]]] = {
    "synced bytes": lambda durable, _: durable,
    "all bytes": lambda _, data: data,
    "half of the rest": _half,
    "zeros for the rest": _zeros,
    HOLE: _hole,
}

_IN_ORDER: Final = [survive for fate, survive in FATES.items() if fate != HOLE]


def _mixed(dice: Random) -> _Survives:
    """A fate for each file, none of them a hole."""
    return lambda path, content: dice.choice(_IN_ORDER)(content.durable, bytes(content.data))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _ancestors(path: str) -> Iterator[str]:
    """The path itself and each directory above it, the root last."""
    while path:
        yield path
        path = _parent(path)
    yield ""


def _error(number: int, operation: str, path: str) -> StorageError:
    return StorageError(operation, path, number, os.strerror(number))


class _Lock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked, self._path = locked, path

    def release(self) -> None:
        self._locked.discard(self._path)
