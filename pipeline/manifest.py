"""Which files of a set of tables count, and up to where each log has been read: `<out>/manifest.json`.

It is the only truth: a Parquet file that it does not name does not exist, whatever lies in the directory. It is
replaced by rename, so an ingestion that dies leaves the tables as they were, and the next one reads on from there.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from pipeline.decode.positions import Position
from pipeline.errors import UsageError

NAME = "manifest.json"
WRITER, BUILDER = "manifest.lock", "build.lock"  # who reads logs, and who makes derived tables: not in each other's way


class Manifest(msgspec.Struct, frozen=True):
    """Positions by log name, files by raw table (relative to the tables' directory), paths that were read.

    `places` says of each log name where that log lies: two brokers have logs of the same name.
    """

    version: int = 1
    logs: dict[str, Position] = {}
    files: dict[str, tuple[str, ...]] = {}
    paths: tuple[str, ...] = ()
    rows: dict[str, int] = {}
    places: dict[str, str] = {}

    def at(self, places: dict[str, str]) -> "Manifest":
        """With these places of logs. Raises UsageError for a known name elsewhere, and a known place by another name.

        The position of the one log would be taken for the other's, or a log be read once more under its other name.
        """
        names = {place: name for name, place in self.places.items()}
        for name, place in places.items():
            if (known := self.places.get(name, place)) != place:
                raise UsageError(
                    f"{name} was read from {known} and is now in {place}: to read several brokers' logs, name their"
                    " directories in one command; of a log that was moved, make new tables elsewhere"
                )
            if (other := names.get(place, name)) != name:
                raise UsageError(f"{place} was read as {other} and would be {name} now: name the directories as before")
        return msgspec.structs.replace(self, places=self.places | places)

    def having(
        self, positions: dict[str, Position], written: list[tuple[str, str, int]], paths: list[str]
    ) -> "Manifest":
        """With more files (table, path, rows) and later positions. A file that is known already counts once."""
        files, rows = dict(self.files), dict(self.rows)
        for table, file, count in written:
            if file not in files.get(table, ()):
                files[table] = (*files.get(table, ()), file)
                rows[table] = rows.get(table, 0) + count
        known = (*self.paths, *(path for path in paths if path not in self.paths))
        return msgspec.structs.replace(self, logs=self.logs | positions, files=files, rows=rows, paths=known)


def load(out: Path) -> Manifest:
    """The manifest of a directory; an empty one where there is none."""
    path = out / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest) if path.exists() else Manifest()
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is no manifest: {error}") from None


def save(out: Path, manifest: Manifest) -> None:
    """Replace the manifest as a whole."""
    new = out / f".{NAME}.{os.getpid()}"
    new.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    new.replace(out / NAME)


class TablesInUseError(RuntimeError):
    """Another process writes to these tables."""


@contextmanager
def locked(out: Path, lock: str = WRITER) -> Iterator[None]:
    """Keep every other one of the kind out of a set of tables, until the process ends if need be."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / lock).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TablesInUseError(f"{out} is being written to by another process") from None
        yield
