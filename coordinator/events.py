"""What happened to the groups: the latest events in memory, all of them as JSON lines in the data directory.

Events are told during a turn, and written between turns: `tell` only encodes, `flush` appends all that was told with
one write. They are a story and not the truth: a disk that takes no more loses events and stops nobody, and how many
were lost is in the next line that can be written. The files are bounded: a full one is put aside, the oldest removed.

    events.jsonl      {"at_ms":1700000000000,"group":"g","cause":"member joined","before":"Stable",...}
    events.1.jsonl    the one before; then events.2.jsonl, and so on
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from coordinator.core.events import Event
from storage.files import File, Files, StorageFailed

KEPT: Final = 10_000  # events in memory: some 2 MB
WAITING_MAX: Final = 100_000  # events between two writes; more are dropped, and counted
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
FILES_MAX: Final = 4

_NAME: Final = "events.jsonl"


class Ring:
    """The latest events, each with a number: the first ever is 1."""

    def __init__(self, kept: int = KEPT) -> None:
        self._events: deque[Event] = deque(maxlen=kept)
        self.told = 0  # how many there ever were: the number of the latest

    def add(self, event: Event) -> None:
        """Keep one more; the oldest goes if there are too many."""
        self._events.append(event)
        self.told += 1

    def after(self, number: int, group: str | None = None) -> Iterator[tuple[int, Event]]:
        """Those later than the event of that number, oldest first: of one group, or of all."""
        first = self.told - len(self._events) + 1
        for index, event in enumerate(self._events, first):
            if index > number and group in (None, event.group):
                yield index, event


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
        self._file: File | None = None
        self.lost = 0  # events that never reached the disk

    def tell(self, event: Event) -> None:
        """Write it with the next `flush`."""
        if len(self._waiting) >= WAITING_MAX:
            self.lost += 1
        else:
            self._waiting.append(msgspec.json.encode(event))

    def flush(self) -> None:
        """Append what was told since the last time. Never raises: what cannot be written is counted as lost."""
        if not self._waiting:
            return
        lines, self._waiting = self._waiting, []
        try:
            file = self._opened()
            lost = [msgspec.json.encode({"lost": self.lost})] if self.lost else []
            file.append(b"\n".join([*lost, *lines, b""]))
        except StorageFailed:
            self.lost += len(lines)
            self._let_go()  # opened anew the next time, when the disk may be well again
            return
        self.lost = 0
        with suppress(StorageFailed):  # then the file grows on until a rotation succeeds
            if file.size() >= self._bytes_max:
                self._rotate()

    def close(self) -> None:
        """Write what waits, and let go of the file."""
        self.flush()
        self._let_go()

    def _let_go(self) -> None:
        """Close the file, if it is open. What a failing disk says to that changes nothing."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(StorageFailed):
                file.close()

    def _opened(self) -> File:
        """The file. A line that a crash or a full disk has torn is ended, so that it tears no other."""
        if self._file is None:
            self._file = self._files.open(self._path(0), create=True)  # closed by `flush` if what follows fails
            size = self._file.size()
            if size and self._file.pread(size - 1, 1) != b"\n":
                self._file.append(b"\n")
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
        name = _NAME if not age else _NAME.replace(".", f".{age}.")
        return f"{self._directory}/{name}"


class Events:
    """Where the runtime tells what happened."""

    def __init__(self, ring: Ring, log: EventLog | None = None) -> None:
        self.ring = ring
        self._log = log

    def tell(self, event: Event) -> None:
        """Keep it, and write it soon."""
        self.ring.add(event)
        if self._log is not None:
            self._log.tell(event)

    def flush(self) -> None:
        """Write what was told; between two turns."""
        if self._log is not None:
            self._log.flush()

    def close(self) -> None:
        """Write the last of it."""
        if self._log is not None:
            self._log.close()
