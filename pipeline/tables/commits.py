"""What committed offsets came to count: transactions' verdicts, and the last effective commit of every key.

A transactional commit counts when the next marker of its producer in that log is COMMIT; tombstones count at once,
whatever their producer, as in Kafka.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

from pipeline.tables.copies import IDENTITY

KEY = ("group", "topic", "partition")


def verdicts(batches: DataFrame) -> DataFrame:
    """(log_partition, batch_base, txn_state) of every transactional data batch: committed, aborted or open."""
    later = (
        Window.partitionBy("log_partition", "producer_id")
        .orderBy(F.desc("base_offset"))
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    verdict = F.last("control_type", ignorenulls=True).over(later)
    named = F.when(verdict == 1, "committed").when(verdict == 0, "aborted").otherwise("open")
    ended = batches.where("is_txn").withColumn("txn_state", named).where("not is_control")
    return ended.select("log_partition", F.col("base_offset").alias("batch_base"), "txn_state").distinct()


def offset_commits(raw: DataFrame, batches: DataFrame) -> DataFrame:
    """The raw commits with `txn_state` (none, committed, aborted, open) and whether they are `effective`."""
    plain = raw.where("not is_txn").withColumn("txn_state", F.lit("none"))
    transactional = (
        raw.where("is_txn")
        .join(verdicts(batches), ["log_partition", "batch_base"], "left")
        .withColumn("txn_state", F.coalesce("txn_state", F.lit("open")))
    )
    effective = F.col("txn_state").isin("none", "committed") | F.col("is_tombstone")
    return plain.unionByName(transactional).withColumn("effective", effective)


def latest_offsets(commits: DataFrame, now_ms: int) -> DataFrame:
    """The last effective value of every key that has one. `age_ms` is how long ago it was committed.

    Only numbers stand in the aggregation buffer: a string there would make Spark sort. The few commits that carry
    metadata are joined afterwards.
    """
    numbers = ("committed_offset", "leader_epoch", "commit_ts", "expire_ts", "record_ts", "is_tombstone", "undecodable")
    last = (
        commits.where("effective")
        .groupBy(*KEY)
        .agg(
            F.max("log_offset").alias("log_offset"),
            F.max("log_partition").alias("log_partition"),
            *(F.max_by(name, "log_offset").alias(name) for name in numbers),
        )
    )
    said = commits.where("effective and metadata <> ''").select(*IDENTITY, "metadata")
    topic_ids = (
        commits.where("topic_id is not null").groupBy("topic").agg(F.max_by("topic_id", "commit_ts").alias("topic_id"))
    )
    return (
        last.where("not is_tombstone")
        .drop("is_tombstone")
        .join(said, list(IDENTITY), "left")
        .join(F.broadcast(topic_ids), "topic", "left")
        .withColumn("metadata", F.when(~F.col("undecodable"), F.coalesce("metadata", F.lit(""))))
        .withColumn("age_ms", F.lit(now_ms) - F.col("commit_ts"))
    )


def commit_velocity(commits: DataFrame, window_ms: int = 60_000) -> DataFrame:
    """How each key advanced, by windows of time: commits, rate, intervals between them, steps backwards."""
    order = Window.partitionBy(*KEY).orderBy("log_offset")
    steps = (
        commits.where("effective and not is_tombstone and committed_offset is not null")
        .withColumn("advance", F.col("committed_offset") - F.lag("committed_offset").over(order))
        .withColumn("interval", F.col("commit_ts") - F.lag("commit_ts").over(order))
        .withColumn("window_start", F.floor(F.col("commit_ts") / window_ms) * window_ms)
    )
    back = F.greatest(-F.col("advance"), F.lit(0))
    return (
        steps.groupBy(*KEY, "window_start")
        .agg(
            F.count("*").alias("commits"),
            F.min_by("committed_offset", "log_offset").alias("first_offset"),
            F.max_by("committed_offset", "log_offset").alias("last_offset"),
            F.sum(F.coalesce("advance", F.lit(0))).alias("advance"),
            F.percentile("interval", F.lit(0.5)).alias("interval_p50_ms"),
            F.percentile("interval", F.lit(0.99)).alias("interval_p99_ms"),
            F.sum((F.col("advance") < 0).cast("int")).alias("rewinds"),
            F.max(back).alias("max_rewind"),
            F.sum((F.col("advance") == 0).cast("int")).alias("flat_commits"),
        )
        .withColumn("per_s", F.col("advance") / (window_ms / 1000))
    )
