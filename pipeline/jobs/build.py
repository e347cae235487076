"""Raw tables to derived tables, in an order in which each finds what it reads already written."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

from pipeline import manifest
from pipeline.decode.schema import TABLES, ddl
from pipeline.jobs.ends import read_ends
from pipeline.tables import commits, groups, health, lag, members, rebalances
from pipeline.tables.copies import Copies, log_problems, strays
from pipeline.tables.events import read_events, with_events

Report = Callable[[str], None]

DERIVED = (
    "offset_commits", "latest_offsets", "commit_velocity", "group_metadata", "new_group_records", "group_state",
    "partition_moves", "stickiness", "rebalances", "member_sessions", "log_end_offsets", "lag_history", "lag_status",
    "group_status",
    "log_health", "log_problems", "unknown_records",
)  # fmt: skip


class Tables:
    """A directory of tables: the raw ones as the manifest lists them, the derived ones by name."""

    def __init__(self, spark: SparkSession, out: Path) -> None:
        self.spark, self.out = spark, out
        path = out / manifest.NAME
        # When logs were read for the last time. Asked for first: the manifest that is read may be newer, but not older.
        self.read_ms = int(path.stat().st_mtime * 1000) if path.exists() else 0
        self.manifest = manifest.load(out)

    def raw(self, name: str) -> DataFrame:
        """A raw table; empty when no log had such rows."""
        files = [str(self.out.absolute() / file) for file in self.manifest.files.get(name, ())]
        reader = self.spark.read.schema(ddl(TABLES[name]))
        return reader.parquet(*files) if files else self.spark.createDataFrame([], ddl(TABLES[name]))

    def derived(self, name: str) -> DataFrame:
        """A table that `build` made."""
        return self.spark.read.parquet(str((self.out / "tables" / name).absolute()))

    def count(self, name: str) -> int:
        """Rows of a derived table, as its files say."""
        files = (self.out / "tables" / name).glob("*.parquet")
        return sum(pq.read_metadata(file).num_rows for file in files)

    def write(self, name: str, rows: DataFrame) -> DataFrame:
        """Replace a derived table; the table as it reads from disk."""
        rows.write.mode("overwrite").parquet(str((self.out / "tables" / name).absolute()))
        return self.derived(name)


def build(
    spark: SparkSession,
    out: Path,
    *,
    events: list[Path] | None = None,
    ends: Path | None = None,
    now_ms: int | None = None,
    report: Report = lambda _line: None,
) -> dict[str, int]:
    """Make all derived tables anew; their numbers of rows.

    `now_ms` is the time as of which lag is judged; by default that of the newest commit or log end, which is now
    for a log that is being written, and for a copy the moment at which it was made.

    `events` are files of the server's event log, `ends` what `pipeline.jobs.ends` reads.

    Made of the raw tables as they are at the beginning: logs may be read into them meanwhile.
    """
    with manifest.locked(out, manifest.BUILDER):
        tables = Tables(spark, out)
        made: dict[str, DataFrame] = {}

        def put(name: str, rows: DataFrame) -> None:
            made[name] = tables.write(name, rows)
            report(name)

        batches, raw_commits, records = tables.raw("batches"), tables.raw("offset_commits"), tables.raw("group_records")
        given = None if ends is None else read_ends(spark, ends, tables.read_ms)
        if now_ms is None:
            now_ms = max(_newest(raw_commits, "record_ts"), 0 if given is None else _newest(given, "ts"))
        copies = Copies(batches)
        further = copies.problems(raw_commits)
        batches_once, raw_commits, records = copies.reduce_batches(), copies.reduce(raw_commits), copies.reduce(records)
        elsewhere = strays(raw_commits, records).cache()
        records = records.join(F.broadcast(elsewhere), ["group", "log_partition"], "left_anti")
        put("log_problems", log_problems(tables.raw("log_problems"), further, elsewhere))
        put("unknown_records", tables.raw("unknown_records"))
        put("offset_commits", commits.offset_commits(raw_commits, batches_once, elsewhere))
        put("latest_offsets", commits.latest_offsets(made["offset_commits"], now_ms))
        elsewhere.unpersist()
        put("commit_velocity", commits.commit_velocity(made["offset_commits"]))
        _groups(put, made, records, read_events(spark, events or []))
        put("log_end_offsets", lag.log_end_offsets(given, made["offset_commits"]))
        put("lag_history", lag.lag_history(made["offset_commits"], made["log_end_offsets"]))
        put("lag_status", lag.lag_status(made["offset_commits"], made["log_end_offsets"], now_ms))
        put("group_status", lag.group_status(made["lag_status"]))
        shown = [made[name] for name in ("offset_commits", "latest_offsets", "log_problems")]
        put("log_health", health.log_health(batches, *shown))
        return {name: tables.count(name) for name in made}


def _groups(
    put: Callable[[str, DataFrame], None], made: dict[str, DataFrame], records: DataFrame, events: DataFrame
) -> None:
    put("group_metadata", groups.group_metadata(records))
    put("new_group_records", groups.new_group_records(records))
    put("group_state", groups.group_state(made["group_metadata"], made["new_group_records"], made["latest_offsets"]))
    put("partition_moves", members.partition_moves(made["group_metadata"]))
    put("stickiness", members.stickiness(made["partition_moves"]))
    classic = rebalances.classic(made["group_metadata"], made["offset_commits"], made["partition_moves"])
    modern = rebalances.consumer(made["new_group_records"], made["offset_commits"])
    put("rebalances", with_events(classic.unionByName(modern), events))
    put(
        "member_sessions",
        members.member_sessions(made["group_metadata"], made["rebalances"], made["new_group_records"]),
    )


def _newest(rows: DataFrame, column: str) -> int:
    row = rows.agg(F.max(column).alias("ts")).first()
    return row["ts"] if row and row["ts"] is not None else 0
