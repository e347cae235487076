"""Read the events that a server has written: its own of an earlier run, at the start, or those of a directory.

A line that is torn, or that another version has written in another way, is left out: events are a story and not the
truth.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

import msgspec
from msgspec import Struct

from coordinator.core.events import Event
from coordinator.events import file_names
from storage.files import Files, StorageError

LATEST_BYTES: Final = 1 << 20  # which a start reads of the events of earlier runs


class _OfGroup(Struct):
    """A line of the file, of which only the group is decoded."""

    group: str


def read_latest_events(files: Files, directory: str) -> Iterator[tuple[str, bytes]]:
    """Yield the latest events of earlier runs, oldest first: the group, and the event as JSON.

    The latest file may have few of them: the one before was put aside a moment ago.
    """
    found: list[list[bytes]] = []
    left = LATEST_BYTES
    for name in file_names():
        if left > 0:  # else those of the file after it are not whole
            lines, size = _read_lines(files, f"{directory}/{name}", left)
            found.insert(0, lines)
            left -= size
    for line in chain.from_iterable(found):
        try:
            yield msgspec.json.decode(line, type=_OfGroup).group, line
        except msgspec.DecodeError:  # a count of lost events, or a torn line
            continue


def read_all_events(files: Files, directory: str, group: str | None = None) -> Iterator[Event]:
    """Yield all events of a directory, of one group or of all, oldest first."""
    for name in reversed(list(file_names())):
        for line in _read_lines(files, f"{directory}/{name}")[0]:
            try:
                event = msgspec.json.decode(line, type=Event)
            except msgspec.DecodeError:
                continue
            if group in (None, event.group):
                yield event


def has_events(files: Files, directory: str) -> bool:
    """Return whether a directory has events of a server."""
    return any(files.exists(f"{directory}/{name}") for name in file_names())


def _read_lines(files: Files, path: str, bytes_max: int | None = None) -> tuple[list[bytes], int]:
    """Return the lines at the end of a file and its size; none if it is not there or cannot be read."""
    try:
        if not files.exists(path):
            return [], 0
        file = files.open(path)
        try:
            size = file.size()
            begin = 0 if bytes_max is None else max(0, size - bytes_max)
            lines = file.pread(begin, size - begin).split(b"\n")
        finally:
            file.close()
    except StorageError:
        return [], 0
    return lines[1:] if begin else lines, size
