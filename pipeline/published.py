"""The derived tables as `build` published them: `<out>/current.json` names the files of every table.

The file is replaced in one step after all tables have been written, so a reader sees the tables of one build, old or
new, also while a build runs or after one was killed. A build writes into a directory of its own, `builds/<id>`; the one
before is kept for its readers. On a local file system `tables` is a link to the current build.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from pipeline.decode.files import Place, Store, escape_pattern
from pipeline.errors import UsageError

NAME = "current.json"
LINK = "tables"
BUILDS = "builds"
VERSION = 1  # of the tables' columns and of this file


class Table(msgspec.Struct, frozen=True):
    """One table: its directory, its files (both from the root of the tables), its rows, its columns as Spark's JSON."""

    path: str
    files: tuple[str, ...]
    rows: int
    schema: str = ""
    delta_version: int | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """All tables of one build."""

    version: int = VERSION
    format: str = "parquet"
    build: str = ""
    built_ms: int = 0
    tables: dict[str, Table] = {}


def load(out: Place) -> Snapshot:
    """Return the tables that count. Raises FileNotFoundError where nothing was built."""
    store = Store.of(out)
    try:
        snapshot = msgspec.json.decode(store.read(NAME), type=Snapshot)
    except FileNotFoundError:
        raise FileNotFoundError(f"{store.display_uri} holds no derived tables: run build first") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{store.display_uri}/{NAME} names no tables: {error}") from None
    if snapshot.version > VERSION:
        raise UsageError(f"{store.display_uri} was built by a later release: expected at most version {VERSION}")
    return snapshot


def dataset(out: Place, snapshot: Snapshot, name: str) -> Any:
    """Return a table as a dataset of Arrow, read from wherever it lies. Columns that its release did not have are
    missing."""
    import pyarrow.dataset as ds  # with pandas: only reading needs them

    store, table = Store.of(out), snapshot.tables[name]
    filesystem, root = store.open_root()
    if not table.files:
        return ds.dataset(_empty(table))
    paths = [f"{root.rstrip('/')}/{file}" for file in table.files]
    return ds.dataset(paths, filesystem=filesystem, format="parquet")


def _empty(table: Table) -> pa.Table:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema: pa.Schema = to_arrow_schema(_columns(table))
    return schema.empty_table()


def publish(out: Place, snapshot: Snapshot, views: str) -> None:
    """Make a build the current one, and remove those before the last."""
    store = Store.of(out)
    try:
        last = load(store).build
    except (FileNotFoundError, UsageError):
        last = ""
    store.replace("views.sql", views.encode())
    store.replace(NAME, msgspec.json.format(msgspec.json.encode(snapshot)))
    if store.local is not None and snapshot.format == "parquet":
        _link(store.local, snapshot.build)
    elif store.local is not None and (link := store.local / LINK).is_symlink():
        link.unlink()  # Delta's tables lie elsewhere: it would go on leading to an old build
    remove_builds(store, keep={snapshot.build, last})


def _link(out: Path, build: str) -> None:
    """Let `tables` lead to the build; a directory of that name is from a release that had no builds."""
    link, fresh = out / LINK, out / f".{LINK}.{os.getpid()}"
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(Path(BUILDS) / build)
    fresh.replace(link)


def remove_builds(store: Store, keep: set[str]) -> None:
    """Remove the other builds: old ones, and what a build left that was killed. The caller holds the builders' lock."""
    for entry in store.list(BUILDS) if store.exists(BUILDS) else ():
        if entry.is_dir and entry.name not in keep:
            store.remove_dir(f"{BUILDS}/{entry.name}")


def views(out: Place, snapshot: Snapshot) -> str:
    """Write SQL for Spark: a view of every table of the build, and `effective_commits`, the commits that count."""
    store = Store.of(out)
    lines = [f"-- The tables of build {snapshot.build}; made anew by every build."]
    for name, table in sorted(snapshot.tables.items()):
        place = f"{snapshot.format}.{_quote(place_in_spark(store, snapshot.format, table.path))}"
        at = f" VERSION AS OF {table.delta_version}" if table.delta_version is not None else ""
        rows = f"SELECT * FROM {place}{at}" if table.files else _no_rows(table)
        lines.append(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {rows};")
    counting = "SELECT * FROM offset_commits WHERE effective AND NOT is_tombstone"
    lines.append(f"CREATE OR REPLACE TEMPORARY VIEW effective_commits AS {counting};")
    return "\n".join(lines) + "\n"


def place_in_spark(store: Store, form: str, path: str) -> str:
    """Return the place of a table as Spark reads it in a format; Parquet by patterns, Delta by plain paths."""
    place = store.spark_uri(path)
    return place if form == "delta" else escape_pattern(place)


def _quote(name: str) -> str:
    """Return a name as SQL quotes it."""
    return f"`{name.replace('`', '``')}`"


def _no_rows(table: Table) -> str:
    """Write SQL for the columns of a table without files, which no file can tell."""
    columns = (f"CAST(NULL AS {field.dataType.simpleString()}) AS `{field.name}`" for field in _columns(table))
    return f"SELECT {', '.join(columns)} WHERE false"


def _columns(table: Table) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromJson(msgspec.json.decode(table.schema))


def create_views(spark: Any, out: Place) -> None:
    """Make the views of `views.sql` in a session: they show the build that is current now."""
    text = views(out, load(out))
    for line in text.splitlines():
        if not line.startswith("--"):
            spark.sql(line.rstrip(";"))
