"""Several copies of a log, and several logs of a group: of each record one counts, and of each group one log."""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

from pipeline.decode.copies import NEVER, Batch, describe_conflict, find_divergence, find_epoch_ends
from pipeline.decode.schema import LOG_PROBLEMS, ddl

IDENTITY = ("log_partition", "log_offset")
CONTENT = ("group", "topic", "partition", "committed_offset", "metadata", "record_ts", "is_tombstone")


class Copies:
    """The copies among the directories that were read, by partition of the topic."""

    def __init__(self, batches: DataFrame) -> None:
        self.batches = batches
        of_epoch = batches.groupBy("log_partition", "log_dir", "leader_epoch").agg(
            F.min("base_offset").alias("first"), F.max("last_offset").alias("last")
        )
        several = batches.groupBy("log_partition").agg(F.countDistinct("log_dir").alias("dirs")).where("dirs > 1")
        rows = of_epoch.join(F.broadcast(several), "log_partition", "left_semi").collect()
        ordered = sorted(rows, key=lambda row: (row["log_partition"], row["log_dir"], row["last"]))
        self.epochs: dict[int, list[Batch]] = {
            partition: [(row["log_dir"], row["leader_epoch"], row["first"], row["last"]) for row in group]
            for partition, group in groupby(ordered, key=itemgetter("log_partition"))
        }

    def __bool__(self) -> bool:
        """Return whether any partition was read from several directories."""
        return bool(self.epochs)

    def reduce(self, rows: DataFrame, epoch: str = "leader_epoch_of_log", offset: str = "log_offset") -> DataFrame:
        """Keep one row for each record: of the highest leader epoch, then of the directory whose name comes first.

        Records of an epoch at offsets that a later one has reached are left out (`pipeline.decode.copies`).
        """
        if not self:
            return rows
        ends = [
            (partition, one, end)
            for partition, epochs in self.epochs.items()
            for one, end in find_epoch_ends(epochs).items()
            if end < NEVER
        ]
        limits = rows.sparkSession.createDataFrame(ends, f"log_partition int, `{epoch}` int, `_end` bigint")
        order = Window.partitionBy("log_partition", offset).orderBy(F.desc(epoch), "log_dir")
        return (
            rows.join(F.broadcast(limits), ["log_partition", epoch], "left")
            .where(F.col("_end").isNull() | (F.col(offset) < F.col("_end")))
            .withColumn("_nth", F.row_number().over(order))
            .where("_nth = 1")
            .select(*rows.columns)
        )

    def reduce_batches(self) -> DataFrame:
        """Return the same for batches, by their base offset, which a cleaner keeps."""
        return self.reduce(self.batches, "leader_epoch", "base_offset")

    def problems(self, commits: DataFrame) -> list[dict[str, Any]]:
        """Return rows of `log_problems`: tails that have diverged, and copies that contradict each other."""
        return self.find_diverged() + self._conflicts(commits)

    def find_diverged(self) -> list[dict[str, Any]]:
        """Return rows of `log_problems` for tails that have diverged."""
        return [row for partition, epochs in self.epochs.items() for row in find_divergence(partition, epochs)]

    def _conflicts(self, commits: DataFrame) -> list[dict[str, Any]]:
        if not self:
            return []
        content = F.hash(*(F.col(name) for name in CONTENT))
        same = Window.partitionBy(*IDENTITY, "leader_epoch_of_log").orderBy("log_dir")
        later = commits.withColumn("_content", content).withColumn("_first", F.first("_content").over(same))
        rows = (
            later.where("_content <> _first").groupBy("log_partition", "log_dir").agg(F.min("log_offset").alias("at"))
        )
        return [describe_conflict(row["log_partition"], row["log_dir"], row["at"]) for row in rows.collect()]


def strays(commits: DataFrame, records: DataFrame) -> DataFrame:
    """Find (group, log_dir, log_partition, home, from_offset, to_offset): a group in a log where it does not count.

    A coordinator keeps a group in one partition. A group that is found in several was moved by something else (logs of
    different clusters, another number of partitions); the log with its newest record counts.
    """
    columns = ["group", "log_dir", *IDENTITY, "record_ts"]
    found = (
        commits.select(columns)
        .unionByName(records.select(columns))
        .groupBy("group", "log_partition")
        .agg(
            F.min("log_dir").alias("log_dir"),
            F.max("record_ts").alias("newest"),
            F.min("log_offset").alias("from_offset"),
            F.max("log_offset").alias("to_offset"),
        )
    )
    order = Window.partitionBy("group").orderBy(F.desc("newest"), F.desc("log_partition"))
    ranked = found.withColumn("_nth", F.row_number().over(order)).withColumn(
        "home", F.first("log_partition").over(order)
    )
    return ranked.where("_nth > 1").select("group", "log_dir", "log_partition", "home", "from_offset", "to_offset")


def stray_problems(found: DataFrame) -> DataFrame:
    """Return rows of `log_problems` for logs of a group that do not count."""
    detail = F.format_string("group %s is also in log %d, with a newer record: left out here", "group", "home")
    return found.select(
        "log_dir",
        "log_partition",
        F.lit(-1).cast("bigint").alias("segment_base"),
        F.lit(0).cast("bigint").alias("pos"),
        F.lit(0).cast("bigint").alias("length"),
        F.lit("group_in_several_logs").alias("kind"),
        F.lit("problem").alias("severity"),
        "from_offset",
        "to_offset",
        detail.alias("detail"),
    )


def log_problems(raw: DataFrame, further: Iterable[dict[str, Any]], found: DataFrame) -> DataFrame:
    """Return every problem once, however often its place was read; the last word about where it ends counts."""
    place = ["log_dir", "segment_base", "pos", "kind"]
    order = Window.partitionBy(*place).orderBy(F.desc_nulls_last("to_offset"), "from_offset")
    once = raw.withColumn("_nth", F.row_number().over(order)).where("_nth = 1").drop("_nth")
    rows = [tuple(row[name] for name in LOG_PROBLEMS.names) for row in further]
    made = raw.sparkSession.createDataFrame(rows, ddl(LOG_PROBLEMS))
    return once.unionByName(made).unionByName(stray_problems(found))
