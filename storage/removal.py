"""Remove whole logs so that neither a crash nor a refusal of the disk ever brings their records back.

A directory is renamed first, to a name that no log has:
```
#   1  orders-0 -> muster.deleted.0      data directory synced: from here on the log is gone
#   2  the files in it, then the directory itself, removed
```
What step 2 leaves, because of a crash or of something that cannot be removed, is tried again later and at each start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from storage.files import Files, StorageError

_RETIRED = re.compile(r"muster\.deleted\.(0|[1-9][0-9]{0,17})")  # no partition's name: those end in `-<number>`


FILES_AT_ONCE = 200
"""Files that are removed in one step; a log may have hundreds of thousands."""


class RetiredLogs:
    """The directories of logs in a data directory that are renamed, and still to be removed.

    The data directory is listed once: it may have more entries than can be looked at for each log.
    """

    def __init__(self, files: Files, data_dir: str) -> None:
        """List those that are there. Raises `StorageError`."""
        self._files = files
        self._data_dir = data_dir
        found = {name: int(match[1]) for name in files.list(data_dir) if (match := _RETIRED.fullmatch(name))}
        self._left = dict.fromkeys(found)
        self._number = max(found.values(), default=-1)

    def retire(self, directories: Iterable[str]) -> None:
        """Take the names from these directories of logs, durably, and remove nothing yet. Raises `StorageError`."""
        for name in directories:
            self._number += 1
            retired = f"muster.deleted.{self._number}"
            self._files.rename(f"{self._data_dir}/{name}", f"{self._data_dir}/{retired}")
            self._left[retired] = None
        self._files.sync_directory(self._data_dir)

    def purge(self) -> Iterator[list[StorageError]]:
        """Remove what is retired, as far as that is possible: some files at each `next`, which returns why some of them
        stay. Others may do the same in between."""
        for name in tuple(self._left):
            path = f"{self._data_dir}/{name}"
            if self._files.exists(path):
                yield from _remove_in_steps(self._files, path)
            if not self._files.exists(path):
                self._left.pop(name, None)


def retire(files: Files, data_dir: str, directories: Iterable[str]) -> None:
    """Take the names from these directories of logs, durably, and remove nothing yet. Raises `StorageError`."""
    RetiredLogs(files, data_dir).retire(directories)


def purge(files: Files, data_dir: str) -> Iterator[list[StorageError]]:
    """Remove what `retire` has renamed, as far as that is possible, in steps."""
    yield from RetiredLogs(files, data_dir).purge()


def remove_directory(files: Files, directory: str) -> list[StorageError]:
    """Remove a directory and the files in it; a directory inside is not of Muster's making, and stays."""
    return list(chain.from_iterable(_remove_in_steps(files, directory)))


def _remove_in_steps(files: Files, directory: str) -> Iterator[list[StorageError]]:
    """Remove a directory and the files in it. Yields after so many files, and at the end."""
    failures: list[StorageError] = []
    try:
        for number, name in enumerate(files.list(directory)):
            if number and number % FILES_AT_ONCE == 0:
                yield []
            try:
                files.remove(f"{directory}/{name}")
            except StorageError as failure:
                if files.exists(f"{directory}/{name}"):  # else another purge was here meanwhile
                    failures.append(failure)
        if not failures:
            files.remove_directory(directory)
    except StorageError as failure:
        if files.exists(directory):
            failures.append(failure)
    yield failures
