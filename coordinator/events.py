"""Keep the events of groups: the latest in memory, all of them as JSON lines in the data directory.

Events are added during a turn, and written between turns: `tell` only encodes, `flush` appends all of them with one
write (`server/event_writer.py` says when). They are a story and not the truth: a disk that takes no more loses events
and stops nobody, and how many were lost is in the next line that can be written. The files are bounded: a full one is
put aside, the oldest removed.

    events.jsonl      {"at_ms":1700000000000,"group":"g","cause":"member_joined","before":"Stable",...}
    events.1.jsonl    the one before; then events.2.jsonl, and so on
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from sys import getsizeof
from typing import Final

import msgspec

from coordinator.core.events import Event
from coordinator.core.weights import weigh_text
from storage.files import File, Files, StorageError

RECENT_MAX: Final = 10_000  # events in memory ...
RESTORED_MAX: Final = 1_000  # events of earlier runs
RECENT_BYTES_MAX: Final = 8 * 1_048_576  # ... and the memory that they take
WAITING_BYTES_MAX: Final = 16 * 1_048_576  # of events between two writes; more are dropped, and counted
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
FILES_MAX: Final = 4

ENTRY_BYTES: Final = 72  # of an event in the ring, besides its group and its JSON

_NAME: Final = "events.jsonl"


def file_names() -> Iterator[str]:
    """Yield the names of the files of events, the latest first."""
    return map(_name, range(FILES_MAX))


def _name(age: int) -> str:
    return _NAME if not age else _NAME.replace(".", f".{age}.")


class Ring:
    """The latest events as JSON, each with a number: the first ever is 1. Their number and their bytes are bounded."""

    def __init__(self, events_max: int = RECENT_MAX, bytes_max: int = RECENT_BYTES_MAX) -> None:
        self._events: deque[tuple[str, bytes]] = deque()  # (group, JSON)
        self._events_max = events_max
        self._bytes_max = bytes_max
        self.bytes = 0  # of memory
        self.latest = 0  # the number of the latest event, 0 if there was none
        self._restored: list[tuple[str, bytes]] = []  # of earlier runs, numbered up to 0

    def restore(self, events: Iterable[tuple[str, bytes]]) -> None:
        """Keep the latest events of earlier runs as well. They count for the memory, and are the first to go."""
        self._restored = list(events)[-RESTORED_MAX:]
        self.bytes += sum(_size(*one) for one in self._restored)

    def add(self, group: str, event: bytes) -> None:
        """Keep one more; the oldest ones go if there are too many."""
        self._events.append((group, event))
        self.bytes += _size(group, event)
        self.latest += 1
        if self._restored and self.bytes > self._bytes_max:
            self.bytes -= sum(_size(*one) for one in self._restored)
            self._restored = []
        while len(self._events) > self._events_max or self.bytes > self._bytes_max:
            self.bytes -= _size(*self._events.popleft())

    @property
    def dropped(self) -> int:
        """The number of the latest event that is not kept any more, 0 if there is none."""
        return self.latest - len(self._events)

    def after(self, number: int | None, group: str | None = None) -> Iterator[tuple[int, bytes]]:
        """Iterate over the events later than the one of that number, oldest first: of one group, or of all.

        Those of earlier runs have numbers up to 0; None asks for all.
        """
        number = -len(self._restored) if number is None else number
        for index, (of, event) in enumerate(self._restored, 1 - len(self._restored)):
            if index > number and group in (None, of):
                yield index, event
        for index, (of, event) in enumerate(self._events, self.dropped + 1):
            if index > number and group in (None, of):
                yield index, event

    def decode_after(self, number: int | None, group: str | None = None) -> Iterator[tuple[int, Event]]:
        """Iterate as `after` does, over values, of this moment. Another thread may do it."""
        found = list(self.after(number, group))
        return ((index, msgspec.json.decode(event, type=Event)) for index, event in found)


def _size(group: str, event: bytes) -> int:
    return weigh_text(group) + getsizeof(event) + ENTRY_BYTES


class EventLog:
    """Events as JSON lines, in files of bounded size."""

    def __init__(
        self, files: Files, directory: str, bytes_max: int = FILE_BYTES_MAX, files_max: int = FILES_MAX
    ) -> None:
        self._files = files
        self._directory = directory
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._file: File | None = None
        self._file_bytes = 0  # of the open file
        self.lost = 0  # events that never reached the disk

    def add(self, event: bytes) -> None:
        """Write an event, as JSON, with the next `flush`."""
        if self._waiting_bytes >= WAITING_BYTES_MAX:
            self.lost += 1
        else:
            self._waiting.append(event)
            self._waiting_bytes += len(event)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of events are to be written."""
        return self._waiting_bytes

    def flush(self) -> None:
        """Append what was added since the last time. Never raises: what cannot be written is counted as lost."""
        if not self._waiting:
            return
        lines, self._waiting, self._waiting_bytes = self._waiting, [], 0
        try:
            file = self._open()
            lost = [msgspec.json.encode({"lost": self.lost})] if self.lost else []
            data = b"\n".join([*lost, *lines, b""])
            file.append(data)
        except StorageError:
            self.lost += len(lines)
            self._let_go()  # opened anew the next time, when the disk may be well again
            return
        self.lost = 0
        self._file_bytes += len(data)
        if self._file_bytes >= self._bytes_max:
            with suppress(StorageError):  # then the file grows on until a rotation succeeds
                self._rotate()

    def close(self) -> None:
        """Write what waits, and let go of the file."""
        self.flush()
        self._let_go()

    def _let_go(self) -> None:
        """Close the file, if it is open. What a failing disk says to that changes nothing."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(StorageError):
                file.close()

    def _open(self) -> File:
        """Open the file. A line that a crash or a full disk has torn is ended, so that it tears no other."""
        if self._file is None:
            self._file = self._files.open(self._path(0), create=True)  # closed by `flush` if what follows fails
            size = self._file.size()
            if size and self._file.pread(size - 1, 1) != b"\n":
                self._file.append(b"\n")
            self._file_bytes = size
        return self._file

    def _rotate(self) -> None:
        """Put the full file aside, and those before it one further; the oldest goes."""
        assert self._file is not None, "only an open file can be full"
        self._let_go()
        if self._files.exists(self._path(self._files_max - 1)):
            self._files.remove(self._path(self._files_max - 1))
        for age in range(self._files_max - 2, -1, -1):
            if self._files.exists(self._path(age)):
                self._files.rename(self._path(age), self._path(age + 1))

    def _path(self, age: int) -> str:
        return f"{self._directory}/{_name(age)}"


class Events:
    """Where the runtime tells what happened."""

    def __init__(self, ring: Ring, log: EventLog | None = None) -> None:
        self.ring = ring
        self._log = log

    def tell(self, event: Event) -> None:
        """Keep an event, and write it soon."""
        data = msgspec.json.encode(event)
        self.ring.add(event.group, data)
        if self._log is not None:
            self._log.add(data)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of events are to be written; none without a log."""
        return 0 if self._log is None else self._log.waiting_bytes

    def flush(self) -> None:
        """Write what was added."""
        if self._log is not None:
            self._log.flush()

    def close(self) -> None:
        """Write the last of it."""
        if self._log is not None:
            self._log.close()
