"""Find the effective offset commits: verdicts of transactions, and the last effective commit of every key.

A transactional commit counts when the next marker of its producer in that log is COMMIT; tombstones count at once,
whatever their producer, as in Kafka.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

from pipeline.decode.records import ABORT, COMMIT
from pipeline.tables.copies import IDENTITY

KEY = ("group", "topic", "partition")
LARGEST = 1 << 60


def limit_to_largest(name: str) -> Column:
    """Return a column of offsets or times, none beyond `LARGEST` either way.

    A client may commit any 64 bits. Spark ends a query whose difference of two numbers is none of 64 bits any more.
    """
    return F.when(F.col(name).isNotNull(), F.greatest(F.lit(-LARGEST), F.least(F.lit(LARGEST), F.col(name))))


def verdicts(batches: DataFrame) -> DataFrame:
    """Return (log_partition, batch_base, txn_state) of every transactional batch: committed, aborted or open."""
    later = (
        Window.partitionBy("log_partition", "producer_id")
        .orderBy(F.desc("base_offset"))
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    ends = F.when(F.col("control_type").isin(ABORT, COMMIT), F.col("control_type"))
    verdict = F.last(ends, ignorenulls=True).over(later)
    named = F.when(verdict == COMMIT, "committed").when(verdict == ABORT, "aborted").otherwise("open")
    ended = batches.where("is_txn").withColumn("txn_state", named).where("not is_control")
    return ended.select("log_partition", F.col("base_offset").alias("batch_base"), "txn_state").distinct()


def offset_commits(raw: DataFrame, batches: DataFrame, elsewhere: DataFrame | None = None) -> DataFrame:
    """Return the raw commits with `txn_state` (none, committed, aborted, open) and whether they are `effective`.

    A commit counts where it is of no transaction or of one that was committed; a tombstone counts at once.
    Nothing counts in the logs `elsewhere` of a group that is in several (`copies.strays`).
    """
    raw = raw.drop("txn_state", "effective")
    plain = raw.where("not is_txn").withColumn("txn_state", F.lit("none"))
    transactional = (
        raw.where("is_txn")
        .join(verdicts(batches), ["log_partition", "batch_base"], "left")
        .withColumn("txn_state", F.coalesce("txn_state", F.lit("open")))
    )
    effective = F.col("txn_state").isin("none", "committed") | F.col("is_tombstone")
    commits = plain.unionByName(transactional).withColumn("effective", effective)
    if elsewhere is None:
        return commits
    marked = F.broadcast(elsewhere.select("group", "log_partition", F.lit(True).alias("_stray")))
    return (
        commits.join(marked, ["group", "log_partition"], "left")
        .withColumn("effective", F.col("effective") & F.col("_stray").isNull())
        .select(*commits.columns)
    )


def latest_offsets(commits: DataFrame, now_ms: int) -> DataFrame:
    """Return the last effective value of every key that has one. `age_ms` is how long ago it was committed.

    Only numbers stand in the aggregation buffer: a string there would make Spark sort. The strings of the rows that
    won are joined afterwards.
    """
    numbers = ("committed_offset", "leader_epoch", "commit_ts", "expire_ts", "record_ts", "is_tombstone", "undecodable")
    last = (
        commits.where("effective")
        .groupBy(*KEY)
        .agg(
            F.max("log_offset").alias("log_offset"),
            F.max_by("log_partition", "log_offset").alias("log_partition"),
            *(F.max_by(name, "log_offset").alias(name) for name in numbers),
        )
    )
    strings = commits.where("effective and (metadata <> '' or topic_id is not null)")
    return (
        last.where("not is_tombstone")
        .drop("is_tombstone")
        .join(strings.select(*IDENTITY, "metadata", "topic_id"), list(IDENTITY), "left")
        .withColumn("metadata", F.when(~F.col("undecodable"), F.coalesce("metadata", F.lit(""))))
        .withColumn("age_ms", F.lit(now_ms) - limit_to_largest("commit_ts"))
    )


def commit_velocity(commits: DataFrame, window_ms: int = 60_000) -> DataFrame:
    """Return how each key advanced, by windows of time: commits, rate, intervals between them, steps backwards.

    A tombstone ends what came before it: the next commit begins anew and steps from nowhere.
    """
    order = Window.partitionBy(*KEY).orderBy("log_offset")
    offset, ts = limit_to_largest("committed_offset"), limit_to_largest("commit_ts")
    steps = (
        commits.where("effective and (is_tombstone or committed_offset is not null)")
        .withColumn("advance", offset - F.lag(offset).over(order))
        .withColumn("interval", ts - F.lag(ts).over(order))
        .where("not is_tombstone")
        .withColumn("window_start", F.floor(ts / window_ms) * window_ms)
    )
    back = F.greatest(-F.col("advance"), F.lit(0))
    return (
        steps.groupBy(*KEY, "window_start")
        .agg(
            F.count("*").alias("commits"),
            F.min_by("committed_offset", "log_offset").alias("first_offset"),
            F.max_by("committed_offset", "log_offset").alias("last_offset"),
            F.try_sum(F.coalesce("advance", F.lit(0))).alias("advance"),
            F.percentile("interval", F.lit(0.5)).alias("interval_p50_ms"),
            F.percentile("interval", F.lit(0.99)).alias("interval_p99_ms"),
            F.sum((F.col("advance") < 0).cast("int")).alias("rewinds"),
            F.max(back).alias("max_rewind"),
            F.sum((F.col("advance") == 0).cast("int")).alias("flat_commits"),
        )
        .withColumn("per_s", F.col("advance") / (window_ms / 1000))
    )
