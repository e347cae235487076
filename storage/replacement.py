"""All logs of a data directory replaced at once: after a crash or a failure there are the old ones or the new ones.

```
#   1  the new files are written to .incoming, synced, and read back     until here nothing has changed
#   2  .incoming -> .replacing                                           from here on the new logs are the truth
#   3  the old logs are removed
#   4  .replacing -> .moving                                             the directory is synced before and after
#   5  each log is moved out of .moving, which is then removed, after the note of a reset of some of the old logs
```
A start does what is left from wherever this was cut off. Only directories of partitions are replaced: the lock, the
reserve and the event log stay.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from storage.files import Files, StorageError
from storage.names import partition_of
from storage.pending_reset import PendingReset

INCOMING: Final = ".incoming"
REPLACING: Final = ".replacing"
MOVING: Final = ".moving"
_CHUNK_BYTES: Final = 1 << 20

Logs = Mapping[str, bytes]
"""The contents of files by their paths: `{"orders-0/00000000000000000000.log": b"..."}`."""


def find_files(files: Files, directory: str) -> Iterator[str]:
    """Yield the paths of all files of all partitions, relative to the directory that has them."""
    for name in find_partitions(files, directory):
        for file in files.list(f"{directory}/{name}"):
            yield f"{name}/{file}"


def find_partitions(files: Files, directory: str) -> list[str]:
    """Return the names of the directories of partitions."""
    return [name for name in files.list(directory) if partition_of(name) is not None]


def prepare(files: Files, data_dir: str, logs: Logs, read: Callable[[str], None] = lambda directory: None) -> None:
    """Write the new logs, and make them the truth. The old ones must not be written to any more: `finish` removes them.

    `read` is called with the directory of the new logs, before they are the truth. Raises StorageError, also where
    `read` does, and has changed nothing then.
    """
    incoming = f"{data_dir}/{INCOMING}"
    try:
        _write(files, incoming, logs)
        read(incoming)
        files.rename(incoming, f"{data_dir}/{REPLACING}")
    except StorageError:
        with suppress(StorageError):  # the next start removes it
            _remove_tree(files, incoming)
        raise


def finish(files: Files, data_dir: str) -> None:
    """Do what is left of a replacement, or remove what was not to be one. No log may be open. Raises StorageError."""
    names = files.list(data_dir)
    if INCOMING in names:
        _remove_tree(files, f"{data_dir}/{INCOMING}")
    if REPLACING in names:
        files.sync_directory(data_dir)
        for name in find_partitions(files, data_dir):
            _remove_directory(files, f"{data_dir}/{name}")
        files.sync_directory(data_dir)
        files.rename(f"{data_dir}/{REPLACING}", f"{data_dir}/{MOVING}")
    if REPLACING in names or MOVING in names:
        moving = f"{data_dir}/{MOVING}"
        files.sync_directory(data_dir)  # else what is moved next might be found beside .replacing, and be removed
        for name in files.list(moving):
            files.rename(f"{moving}/{name}", f"{data_dir}/{name}")
        PendingReset(files, data_dir).clear(is_synced=False)
        files.sync_directory(data_dir)
        files.sync_directory(moving)
        files.remove_directory(moving)
        files.sync_directory(data_dir)


def _write(files: Files, directory: str, logs: Logs) -> None:
    """Write files, sync them with their names, and read them back."""
    if files.exists(directory):
        _remove_tree(files, directory)
    files.make_directory(directory)
    for name in sorted({path.partition("/")[0] for path in logs}):
        files.make_directory(f"{directory}/{name}")
    for path, content in logs.items():
        _write_file(files, f"{directory}/{path}", content)
    for name in sorted({path.partition("/")[0] for path in logs}):
        files.sync_directory(f"{directory}/{name}")


def _write_file(files: Files, path: str, content: bytes) -> None:
    file = files.open(path, create=True)
    try:
        for start in range(0, len(content), _CHUNK_BYTES):
            file.append(content[start : start + _CHUNK_BYTES])
        file.sync()
        for start in range(0, len(content), _CHUNK_BYTES):
            if file.pread(start, _CHUNK_BYTES) != content[start : start + _CHUNK_BYTES]:
                raise StorageError("read back", path, errno.EIO, "not what was written")
    finally:
        file.close()


def _remove_tree(files: Files, directory: str) -> None:
    """Remove a directory of partitions with all that is in it."""
    for name in files.list(directory):
        _remove_directory(files, f"{directory}/{name}")
    if files.exists(directory):
        files.remove_directory(directory)


def _remove_directory(files: Files, directory: str) -> None:
    for name in files.list(directory):
        files.remove(f"{directory}/{name}")
    files.remove_directory(directory)
