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

from storage.files import Files, StorageError

_RETIRED = re.compile(r"muster\.deleted\.(0|[1-9][0-9]{0,17})")  # no partition's name: those end in `-<number>`


def retire(files: Files, data_dir: str, directories: Iterable[str]) -> None:
    """Take the names from these directories of logs, durably, and remove nothing yet. Raises `StorageError`."""
    numbers = [int(match[1]) for name in files.list(data_dir) if (match := _RETIRED.fullmatch(name))]
    number = max(numbers, default=-1)
    for name in directories:
        number += 1
        files.rename(f"{data_dir}/{name}", f"{data_dir}/muster.deleted.{number}")
    files.sync_directory(data_dir)


def purge(files: Files, data_dir: str) -> Iterator[list[StorageError]]:
    """Remove what `retire` has renamed, as far as that is possible: a directory at each `next`, which returns why some
    of it stays. Others may do the same in between."""
    for name in files.list(data_dir):
        if _RETIRED.fullmatch(name) and files.exists(f"{data_dir}/{name}"):
            yield remove_directory(files, f"{data_dir}/{name}")


def remove_directory(files: Files, directory: str) -> list[StorageError]:
    """Remove a directory and the files in it; a directory inside is not of Muster's making, and stays."""
    failures: list[StorageError] = []
    try:
        for name in files.list(directory):
            try:
                files.remove(f"{directory}/{name}")
            except StorageError as failure:
                failures.append(failure)
        if not failures:
            files.remove_directory(directory)
    except StorageError as failure:
        failures.append(failure)
    return failures
