"""Merge small raw files, put rows into directories by date, and remove files that no manifest names.

Readers of a manifest that was replaced may still open the files that it names. So what was merged is removed by whoever
optimizes next, an hour after it was written, and never while a build runs: that may have begun before the merge.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import locks, manifest
from pipeline.decode.files import Place, Store
from pipeline.decode.schema import TABLES
from pipeline.errors import TablesInUseError
from pipeline.manifest import Manifest
from pipeline.sink import UnfinishedFile, read_file

SMALL_FILES_MAX = 32  # of a table and a size: then they are merged
SMALL_BYTES = (256 << 10, 8 << 20)  # sizes up to which files are merged with their like, so each row is written thrice
FILE_BYTES = 64 << 20  # of an optimized file, roughly
ORPHAN_AGE_S = 3600.0
TIME_COLUMN = {
    "batches": "max_ts",
    "offset_commits": "record_ts",
    "group_records": "record_ts",
    "unknown_records": "record_ts",
}


class OptimizeReport(msgspec.Struct, frozen=True):
    """Files and bytes of the raw tables before and after, and how many files that nobody names were removed."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    orphans_removed: int


def merge_small_files(out: Place, known: Manifest) -> Manifest:
    """Merge the small files of a table once there are many; the manifest then, which the caller saves."""
    store = Store.of(out)
    for table in known.files:
        for largest in SMALL_BYTES:
            few = [file for file in known.files[table] if store.size(file) <= largest] if _many(known, table) else []
            if len(few) >= SMALL_FILES_MAX:
                rows = pa.concat_tables(_table(store, file, table) for file in few)
                known = known.replace_files(table, tuple(few), (_write(store, f"raw/{table}", table, rows),))
    return known


def _many(known: Manifest, table: str) -> bool:
    return len(known.files[table]) >= SMALL_FILES_MAX


def optimize(out: Place, orphan_age_s: float = ORPHAN_AGE_S) -> OptimizeReport:
    """Rewrite the raw tables in files of about `FILE_BYTES`, in directories by date. Readers see the old or the new.

    Rows keep their order. Running it again changes nothing.
    """
    with locks.lock_tables(out) as check:
        store, known = Store.of(out), manifest.load(out)
        sizes = {file.path: file.size for file in store.tree("raw")}
        before = [file for files in known.files.values() for file in files]
        after = known
        for table, files in known.files.items():
            loose = tuple(file for file in files if "/date=" not in file)
            if table in TIME_COLUMN and loose:
                after = after.replace_files(table, loose, tuple(_by_date(store, table, loose)))
        for table in after.files:
            after = _merge_dates(store, after, table)
        manifest.check_tables_unchanged(out, known)
        check()
        manifest.save(out, after)
        removed = 0
        with suppress(TablesInUseError), locks.lock_tables(out, locks.BUILDER):
            removed = remove_orphans(store, after, known, orphan_age_s)
        left = {file.path: file.size for file in store.tree("raw")}
        now = [file for files in after.files.values() for file in files]
        return OptimizeReport(
            len(before), len(now), sum(sizes[file] for file in before), sum(left[file] for file in now), removed
        )


def _by_date(store: Store, table: str, files: tuple[str, ...]) -> Iterator[str]:
    """Write the rows of the files anew, each day's in its own directory; about `FILE_BYTES` of them at a time."""
    for group in _group_files(store, files):
        rows = pa.concat_tables(_table(store, file, table) for file in group)
        days = rows[TIME_COLUMN[table]].to_numpy() // 86_400_000  # of a time before 1970 too, the day that it is in
        for day in np.unique(days).tolist():
            some = rows.filter(pa.array(days == day))
            yield _write(store, f"raw/{table}/date={_date(day)}", table, some)


def _merge_dates(store: Store, known: Manifest, table: str) -> Manifest:
    """Merge the files of a day that together make one of `FILE_BYTES`."""
    days: dict[str, list[str]] = {}
    for file in known.files[table]:
        days.setdefault(file.rpartition("/")[0], []).append(file)
    for folder, files in days.items():
        for group in _group_files(store, tuple(files)):
            if len(group) > 1:
                rows = pa.concat_tables(_table(store, file, table) for file in group)
                known = known.replace_files(table, tuple(group), (_write(store, folder, table, rows),))
    return known


def _group_files(store: Store, files: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the files in groups of about `FILE_BYTES`."""
    group: list[str] = []
    size = 0
    for file in files:
        more = store.size(file)
        if group and size + more > FILE_BYTES:
            yield group
            group, size = [], 0
        group.append(file)
        size += more
    if group:
        yield group


def _table(store: Store, file: str, table: str) -> pa.Table:
    """Return the rows of a file with the columns of today; those that its release did not have are null."""
    rows = read_file(store, file)
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in TABLES[table]
    ]
    return pa.Table.from_arrays(columns, schema=TABLES[table])


def _write(store: Store, folder: str, table: str, rows: pa.Table) -> str:
    place = [
        rows[name] for name in ("log_dir", "base_offset", "log_offset", "from_offset") if name in rows.column_names
    ]
    name = hashlib.sha256(repr([(len(rows), pc.min_max(one).as_py()) for one in place]).encode()).hexdigest()[:24]
    file = UnfinishedFile(store, f"{folder}/merged-{name}-{time.time_ns():x}.parquet", TABLES[table])
    try:
        for batch in rows.to_batches():
            file.write(batch)
        return file.close()
    finally:
        file.discard()


def remove_orphans(store: Store, known: Manifest, before: Manifest, age_s: float) -> int:
    """Remove files that the manifest does not name, did not name just now, and nobody has written to for `age_s`."""
    named = {file for one in (known, before) for files in one.files.values() for file in files}
    oldest = time.time() - age_s
    orphans = [file.path for file in store.tree("raw") if file.path not in named and file.changed_s < oldest]
    for path in orphans:
        store.remove(path)
    return len(orphans)


def _date(day: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(day * 86_400))
