"""What a log itself is like: how much of it is dead, what is still open, how long a coordinator would load it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

REPLAY_BYTES_PER_S = 50 << 20  # what a coordinator loads in a second, roughly; only for the estimate

COUNTS = [
    "bytes", "batches", "segments", "commits", "tombstones", "aborted_commits", "open_txns", "live_commits", "problems",
]  # fmt: skip


def log_health(batches: DataFrame, commits: DataFrame, latest: DataFrame, problems: DataFrame) -> DataFrame:
    """Return a row for each log directory, also one of which nothing but problems could be read.

    `dead_ratio` is the share of offset commits that a compaction would remove.
    """
    sizes = batches.groupBy("log_dir", "log_partition").agg(
        F.sum(F.col("size").cast("bigint")).alias("bytes"),
        F.count("*").alias("batches"),
        F.min("base_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
        F.countDistinct("segment_base").alias("segments"),
    )
    counted = commits.groupBy("log_dir").agg(
        F.count("*").alias("commits"),
        F.sum(F.col("is_tombstone").cast("bigint")).alias("tombstones"),
        F.sum((F.col("txn_state") == "aborted").cast("bigint")).alias("aborted_commits"),
        F.min(F.when(F.col("txn_state") == "open", F.col("record_ts"))).alias("oldest_open_txn_ts"),
        F.countDistinct(F.when(F.col("txn_state") == "open", F.col("producer_id"))).alias("open_txns"),
    )
    alive = commits.join(latest.select("log_partition", "log_offset"), ["log_partition", "log_offset"], "left_semi")
    living = alive.groupBy("log_dir").agg(F.count("*").alias("live_commits"))
    bad = F.sum((F.col("severity") == "problem").cast("bigint"))
    hurt = problems.groupBy("log_dir", "log_partition").agg(bad.alias("problems"))
    return (
        sizes.join(hurt, ["log_dir", "log_partition"], "full")
        .join(counted, "log_dir", "left")
        .join(living, "log_dir", "left")
        .fillna(0, COUNTS)
        .withColumn("dead_ratio", F.when(F.col("commits") > 0, 1 - F.col("live_commits") / F.col("commits")))
        .withColumn("replay_s", F.col("bytes") / REPLAY_BYTES_PER_S)
    )
