"""A reset of some groups and topics that goes on: what it is of, in a file beside the logs.

A reset of a prefix is many appends, to many logs. The file is there before the first of them and goes after the last,
so that a start can do the rest of one that was cut off: everything is there as before, or nothing of it.
"""

from __future__ import annotations

from typing import Final

from storage.files import Files

NAME: Final = "muster.reset"
_BYTES_MAX: Final = 1 << 20


class PendingReset:
    """The file in one data directory. What is in it is for others to know."""

    def __init__(self, files: Files, data_dir: str) -> None:
        self._files = files
        self._data_dir = data_dir
        self._path = f"{data_dir}/{NAME}"

    def note(self, what: bytes, *, is_synced: bool) -> None:
        """Write the file as a whole. Raises StorageError: it is then as before, or has `what` until a power cut."""
        assert len(what) <= _BYTES_MAX, "a reset that can be read back"
        file = self._files.open(f"{self._path}.tmp", create=True)
        try:
            file.truncate(0)
            file.append(what)
            if is_synced:
                file.sync()
        finally:
            file.close()
        self._files.rename(f"{self._path}.tmp", self._path)
        if is_synced:
            self._files.sync_directory(self._data_dir)

    def read(self) -> bytes | None:
        """Return what a reset is of that was cut off, None if there is none. Raises StorageError."""
        if not self._files.exists(self._path):
            return None
        file = self._files.open(self._path, readonly=True)
        try:
            return file.pread(0, _BYTES_MAX)
        finally:
            file.close()

    def clear(self, *, is_synced: bool) -> None:
        """Remove the file: all is done, or nothing is to be. Raises StorageError.

        If it came back with a power cut, the next start would remove what is made under the same prefix from now on.
        """
        if self._files.exists(self._path):
            self._files.remove(self._path)
            if is_synced:
                self._files.sync_directory(self._data_dir)
