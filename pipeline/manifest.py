"""The manifest of a set of tables, `<out>/manifest.json`: the files that count, and how far each log has been read.

It is the only truth: a Parquet file that it does not name does not exist, whatever lies in the directory. It is
replaced in one step, so an ingestion that dies leaves the tables as they were, and the next one reads on from there.
"""

from collections.abc import Iterable

import msgspec

from pipeline.decode.files import Place, Store, without_secrets
from pipeline.decode.identity import find_replacement
from pipeline.decode.logs import Identity, LogDir, Position
from pipeline.errors import TablesInUseError, UsageError

NAME = "manifest.json"
VERSION = 2  # of what the tables' directory holds: 1 had no `optimized` files and kept paths as they were given


class Manifest(msgspec.Struct, frozen=True):
    """Positions by log name, files by raw table (relative to the tables' directory), paths that were read.

    `places` says of each log name where that log lies: two brokers have logs of the same name. `identities` are what
    each log is known by, so that one that was made anew in the same place is not read on. `read_ms` is up to when the
    logs are known to have been read: what topics took in later is not compared with it.
    """

    version: int = VERSION
    logs: dict[str, Position] = {}
    files: dict[str, tuple[str, ...]] = {}
    paths: tuple[str, ...] = ()
    rows: dict[str, int] = {}
    places: dict[str, str] = {}
    identities: dict[str, Identity] = {}
    read_ms: int = 0

    def add_places(self, places: dict[str, str]) -> "Manifest":
        """Add places of logs. Raises UsageError for a known name elsewhere, and a known place by another name.

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

    def check_identities(self, logs: Iterable[LogDir]) -> None:
        """Raise UsageError for a log that is not the one that was read before."""
        for log in logs:
            known, position = self.identities.get(log.name), self.logs.get(log.name)
            if known and position and (why := find_replacement(log, known, position)):
                raise UsageError(
                    f"{log.place} is not the log that was read before: {why}. It was made anew or truncated; make new"
                    " tables elsewhere"
                )

    def add_files(
        self, positions: dict[str, Position], written: list[tuple[str, str, int]], paths: list[str]
    ) -> "Manifest":
        """Add files (table, path, rows) and later positions. A file that is known already counts once."""
        files, rows = dict(self.files), dict(self.rows)
        for table, file, count in written:
            if file not in files.get(table, ()):
                files[table] = (*files.get(table, ()), file)
                rows[table] = rows.get(table, 0) + count
        shown = [without_secrets(path) for path in paths]
        known = (*self.paths, *(path for path in shown if path not in self.paths))
        return msgspec.structs.replace(self, logs=self.logs | positions, files=files, rows=rows, paths=known)

    def replace_files(self, table: str, old: tuple[str, ...], new: tuple[str, ...]) -> "Manifest":
        """Replace some files of a table by others that hold the same rows, at the place of the first."""
        gone = set(old)
        files = self.files[table]
        at = files.index(old[0])
        kept = [file for file in files if file not in gone]
        return msgspec.structs.replace(self, files=self.files | {table: (*kept[:at], *new, *kept[at:])})


def load(out: Place) -> Manifest:
    """Return the manifest of a directory of tables; an empty one where there is none.

    Raises UsageError for a file that is no manifest, and for tables that a later release has written.
    """
    store = Store.of(out)
    try:
        data = store.read(NAME)
    except FileNotFoundError:
        return Manifest()
    try:
        found = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise UsageError(f"{store.display_uri}/{NAME} is no manifest: {error}") from None
    if found.version > VERSION:
        raise UsageError(
            f"{store.display_uri} is of a later release: expected at most version {VERSION}, it has {found.version}"
        )
    shown = tuple(without_secrets(path) for path in found.paths)  # version 1 kept them as they were given
    return msgspec.structs.replace(found, version=VERSION, paths=shown)


def save(out: Place, manifest: Manifest) -> None:
    """Replace the manifest as a whole."""
    Store.of(out).replace(NAME, msgspec.json.format(msgspec.json.encode(manifest)))


def check_tables_unchanged(out: Place, known: Manifest) -> None:
    """Raise TablesInUseError if somebody else has read logs into these tables, or merged their files: where files
    cannot be locked."""
    if load(out).files != known.files:
        raise TablesInUseError(f"{Store.of(out).display_uri} was written to by another process; nothing more is saved")
