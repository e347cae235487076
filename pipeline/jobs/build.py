"""Raw tables to derived tables, in an order in which each finds what it reads already written."""

import json
import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom
from pyspark.sql.types import StructType

from coordinator.core.catalog.names import SHARE_STATE_TOPIC
from pipeline import locks, manifest, published
from pipeline.decode.files import Place, Store, escape_pattern
from pipeline.decode.schema import TABLES, ddl
from pipeline.jobs.ends import read_ends
from pipeline.tables import commits, groups, health, history, lag, shares
from pipeline.tables.copies import Copies, log_problems, strays
from pipeline.tables.events import read_events, with_events

Report = Callable[[str], None]

DERIVED = (
    "offset_commits", "latest_offsets", "commit_velocity", "group_metadata", "new_group_records", "group_state",
    "partition_moves", "stickiness", "rebalances", "member_sessions", "log_end_offsets", "lag_history", "lag_status",
    "group_status", "share_partitions", "share_deliveries", "archived_ranges",
    "log_health", "log_problems", "unknown_records",
)  # fmt: skip


# Tables that grow with time, and the column (ms) by whose date their files are put into directories.
HISTORY = {
    "offset_commits": "record_ts", "commit_velocity": "window_start", "group_metadata": "record_ts",
    "new_group_records": "record_ts", "partition_moves": "record_ts", "rebalances": "at_ms", "lag_history": "ts",
    "archived_ranges": "at_ms",
}  # fmt: skip
# Tables of which Delta replaces only the rows that have changed, and what tells their rows apart.
KEYS = {
    "latest_offsets": ("group", "topic", "partition"), "group_state": ("group",), "stickiness": ("group",),
    "lag_status": ("group", "topic", "partition"), "group_status": ("group",), "log_health": ("log_dir",),
    "offset_commits": ("log_partition", "log_offset"), "rebalances": ("group", "log_offset"),
}  # fmt: skip


class Tables:
    """A directory of tables: the raw ones as the manifest lists them, the derived ones as they were published."""

    def __init__(self, spark: SparkSession, out: Place, form: str | None = None) -> None:
        self.spark, self.out = spark, Store.of(out)
        self.manifest = manifest.load(out)
        try:
            self.published = published.load(out)
        except FileNotFoundError:
            self.published = published.Snapshot()
        self.form = form or self.published.format
        self.build = f"{time.time_ns():x}"

    def raw(self, name: str) -> DataFrame:
        """Return a raw table; empty when no log had such rows."""
        files = [escape_pattern(self.out.spark_uri(file)) for file in self.manifest.files.get(name, ())]
        reader = self.spark.read.schema(ddl(TABLES[name]))
        return reader.parquet(*files) if files else self.spark.createDataFrame([], ddl(TABLES[name]))

    def read_table(self, name: str) -> DataFrame:
        """Return a table of the build that is current."""
        table = self.published.tables[name]
        place = published.place_in_spark(self.out, self.published.format, table.path)
        reader = self.spark.read.format(self.published.format)
        if table.delta_version is None:
            reader = reader.schema(StructType.fromJson(json.loads(table.schema)))
        else:
            reader = reader.option("versionAsOf", table.delta_version)
        return reader.load(place).drop("date")

    def write(self, name: str, rows: DataFrame) -> DataFrame:
        """Write a table of this build. Return it as read back from the files."""
        if (column := HISTORY.get(name)) is not None:
            # In UTC, whatever the session's time zone is; null for a time after the last day that Spark has.
            day = F.expr(f"try_cast(floor({column} / 86400000) AS int)")
            rows = rows.withColumn("date", F.date_from_unix_date(day))
        place = self.out.spark_uri(self._path(name))
        if self.form == "delta" and name == "latest_offsets":
            rows = rows.drop("age_ms")  # it would change every row each time
        is_there = self.form == "delta" and name in KEYS and DeltaTable.is_there(self.spark, place)
        if not is_there or not DeltaTable.merge(self.spark, place, rows, KEYS[name]):
            writer = rows.write.mode("overwrite").format(self.form).option("overwriteSchema", "true")
            (writer.partitionBy("date") if name in HISTORY else writer).save(place)
        reader = self.spark.read.format(self.form)
        if self.form == "parquet":  # of a table without rows no file may tell the columns
            reader = reader.schema(rows.schema)
        return reader.load(published.place_in_spark(self.out, self.form, self._path(name))).drop("date")

    def publish(self, made: dict[str, DataFrame]) -> dict[str, int]:
        """Make the tables of this build the current ones; their numbers of rows."""
        tables = {name: self._table(name, rows) for name, rows in made.items()}
        snapshot = published.Snapshot(
            format=self.form, build=self.build, built_ms=int(time.time() * 1000), tables=tables
        )
        published.publish(self.out, snapshot, published.views(self.out, snapshot))
        self.published = snapshot
        return {name: table.rows for name, table in tables.items()}

    def _path(self, name: str) -> str:
        return f"delta/{name}" if self.form == "delta" else f"{published.BUILDS}/{self.build}/{name}"

    def _table(self, name: str, rows: DataFrame) -> published.Table:
        path = self._path(name)
        version = DeltaTable.version(self.out, path) if self.form == "delta" else None
        files = sorted(f"{path}/{unquote(file).rpartition(f'/{path}/')[2]}" for file in rows.inputFiles())
        filesystem, root = self.out.open_root()
        metadata = [pq.read_metadata(f"{root.rstrip('/')}/{file}", filesystem=filesystem) for file in files]
        return published.Table(path, tuple(files), sum(one.num_rows for one in metadata), rows.schema.json(), version)


GONE = "muster_gone"  # a column of changes: whether the row is to be removed


class DeltaTable:
    """A table of Delta, read without any package beside its jar."""

    @staticmethod
    def is_there(spark: SparkSession, place: str) -> bool:
        """Return whether a table was written there."""
        try:
            spark.read.format("delta").load(place).schema  # noqa: B018 - reads the table's log
        except AnalysisException:
            return False
        return True

    @staticmethod
    def version(store: Store, path: str) -> int:
        """Return the number of its last commit, which is the name of a file of its log."""
        names = (entry.name for entry in store.list(f"{path}/_delta_log"))
        return max(int(name.removesuffix(".json")) for name in names if re.fullmatch(r"\d{20}\.json", name))

    @staticmethod
    def merge(spark: SparkSession, place: str, rows: DataFrame, keys: tuple[str, ...]) -> bool:
        """Make the table hold these rows, in one commit that touches only files of rows that differ; none if none do.

        False, with nothing done, if the table has other columns.
        """
        old = spark.read.format("delta").load(place)
        if set(old.columns) != set(rows.columns):
            return False
        rows = rows.select(*old.columns)
        changed = rows.subtract(old).withColumn(GONE, F.lit(False))
        gone = old.join(rows.select(*keys), list(keys), "left_anti").withColumn(GONE, F.lit(True))
        changes = changed.unionByName(gone).cache()
        if not changes.isEmpty():
            changes.createOrReplaceTempView("muster_changes")
            columns = [f"`{name}`" for name in old.columns]
            same = " AND ".join(f"old.`{key}` = new.`{key}`" for key in keys)
            spark.sql(
                f"MERGE INTO delta.`{place}` AS old USING muster_changes AS new ON {same} "
                f"WHEN MATCHED AND new.{GONE} THEN DELETE "
                f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = new.{name}' for name in columns)} "
                f"WHEN NOT MATCHED AND NOT new.{GONE} THEN INSERT ({', '.join(columns)}) "
                f"VALUES ({', '.join(f'new.{name}' for name in columns)})"
            )
        changes.unpersist()
        return True


def build(
    spark: SparkSession,
    out: Place,
    *,
    events: list[Path] | None = None,
    ends: Path | str | None = None,
    now_ms: int | None = None,
    form: str | None = None,
    check_lock: Callable[[], None] | None = None,
    report: Report = lambda _line: None,
) -> dict[str, int]:
    """Make all derived tables anew; their numbers of rows.

    `now_ms` is the time as of which lag is judged; by default that of the newest commit or log end, which is now
    for a log that is being written, and for a copy the moment at which it was made.

    `events` are files of the server's event log, `ends` what `pipeline.jobs.ends` reads.

    `form` is parquet or delta; by default that of the build before, and parquet for the first one.

    `check_lock` is what `locks.lock_tables` yields, of a caller that holds the lock already.

    Made of the raw tables as they are at the beginning: logs may be read into them meanwhile.
    """
    with nullcontext(check_lock) if check_lock else locks.lock_tables(out, locks.BUILDER, report) as check:
        tables = Tables(spark, out, form)
        made: dict[str, DataFrame] = {}

        def put(name: str, rows: DataFrame) -> None:
            made[name] = tables.write(name, rows)
            report(name)

        raw_commits, records, states = (
            tables.raw(name) for name in ("offset_commits", "group_records", "share_records")
        )
        all_batches, is_of_states = tables.raw("batches"), F.col("log_dir").rlike(rf"(^|/){SHARE_STATE_TOPIC}-\d+$")
        batches, copies_of_states = all_batches.where(~is_of_states), Copies(all_batches.where(is_of_states))
        given = None if ends is None else read_ends(spark, ends, find_read_ms(raw_commits, tables.manifest.read_ms))
        if now_ms is None:
            now_ms = find_now_ms(raw_commits, given)
        copies = Copies(batches)
        further = copies.problems(raw_commits) + copies_of_states.find_diverged()
        batches_once, raw_commits, records = copies.reduce_batches(), copies.reduce(raw_commits), copies.reduce(records)
        elsewhere = strays(raw_commits, records).cache()
        records = records.join(F.broadcast(elsewhere), ["group", "log_partition"], "left_anti")
        put("log_problems", log_problems(tables.raw("log_problems"), further, elsewhere))
        put("unknown_records", tables.raw("unknown_records"))
        put("offset_commits", commits.offset_commits(raw_commits, batches_once, elsewhere))
        put("latest_offsets", commits.latest_offsets(made["offset_commits"], now_ms))
        elsewhere.unpersist()
        put("commit_velocity", commits.commit_velocity(made["offset_commits"]))
        put("group_metadata", groups.group_metadata(records))
        put("new_group_records", groups.new_group_records(records))
        put(
            "group_state",
            groups.group_state(made["group_metadata"], made["new_group_records"], made["latest_offsets"]),
        )
        happened = history.histories(records, made["offset_commits"]).persist(StorageLevel.DISK_ONLY)
        put("partition_moves", history.partition_moves(happened))
        put("stickiness", history.stickiness(made["partition_moves"]))
        put("rebalances", with_events(history.rebalances(happened), read_events(spark, events or [])))
        put("member_sessions", history.member_sessions(happened))
        happened.unpersist()
        names = shares.topic_names(records).cache()
        shared = shares.share_histories(copies_of_states.reduce(states)).persist(StorageLevel.DISK_ONLY)
        put("share_partitions", shares.share_partitions(shared, names))
        put("share_deliveries", shares.share_deliveries(shared, names))
        put("archived_ranges", shares.archived_ranges(shared, names))
        shared.unpersist()
        names.unpersist()
        put("log_end_offsets", lag.log_end_offsets(given, made["offset_commits"]))
        put("lag_history", lag.lag_history(made["offset_commits"], made["log_end_offsets"]))
        put("lag_status", lag.lag_status(made["offset_commits"], made["log_end_offsets"], now_ms))
        put("group_status", lag.group_status(made["lag_status"]))
        shown = [made[name] for name in ("offset_commits", "latest_offsets", "log_problems")]
        put("log_health", health.log_health(all_batches, *shown))
        check()
        return tables.publish(made)


def find_read_ms(raw_commits: DataFrame, begun_ms: int) -> int:
    """Return up to when the logs were read, which began at `begun_ms`: commits of a moment later may be there as well.

    If log ends stopped before them, a group that has read on meanwhile would be ahead of its topics. A commit of a time
    to come, by a broker whose clock is wrong, does not count.
    """
    newest_ms = _newest(raw_commits, "record_ts")
    return max(begun_ms, newest_ms) if newest_ms <= time.time() * 1000 else begun_ms


def find_now_ms(raw_commits: DataFrame, ends: DataFrame | None) -> int:
    """Return the time as of which lag is judged: that of the newest commit or log end. If groups stop committing while
    their topics grow, the ends go on."""
    return max(_newest(raw_commits, "record_ts"), 0 if ends is None else _newest(ends, "ts"))


def _newest(rows: DataFrame, column: str) -> int:
    row = rows.agg(F.max(column).alias("ts")).first()
    return row["ts"] if row and row["ts"] is not None else 0
