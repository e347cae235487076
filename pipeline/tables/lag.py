"""Lag and status of groups, by the rules of Burrow, with further columns for what these rules miss.

Burrow evaluates the last commits of a key (`WINDOW` of them) and the log ends of its partition. `lag_status` has its
result in `status`. `worst_rewind` is over the whole window; `lag_trend` shows a steady rise in spite of one decrease;
`quiet_too_long` compares the time since the last commit with the usual interval of the key, so that a topic with one
commit an hour is not STOPped every minute; `beyond_end` says of a lag of 0 that the offset is none that the log has.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

from pipeline.tables.commits import KEY, limit_to_largest

WINDOW = 10  # commits that Burrow keeps of each key
UNKNOWN = "UNKNOWN"  # no log end is known: by a lower bound, a healthy group would be stopped


def log_end_offsets(given: DataFrame | None, commits: DataFrame) -> DataFrame:
    """Return (topic, partition, ts, leo, source): the log ends in `given`, else the highest commit, a lower bound."""
    bound = (
        commits.where("effective and committed_offset is not null")
        .groupBy("topic", "partition")
        .agg(F.max("record_ts").alias("ts"), F.max("committed_offset").alias("leo"))
        .withColumn("source", F.lit("max_committed"))
    )
    if given is None:
        return bound
    return given.unionByName(bound.join(given, ["topic", "partition"], "left_anti"))


def select_current_life(ends: DataFrame) -> DataFrame:
    """Select the log ends since a partition's log end last decreased, which shows that its topic was created anew."""
    order = Window.partitionBy("topic", "partition").orderBy("ts", "leo")
    fell = F.coalesce(F.col("leo") < F.lag("leo").over(order), F.lit(False)).cast("int")
    lives = ends.withColumn("_fell", fell).withColumn("_life", F.sum("_fell").over(order))
    newest = F.max("_life").over(Window.partitionBy("topic", "partition"))
    return lives.withColumn("_newest", newest).where("_life = _newest").select(*ends.columns)


def collect_windows(commits: DataFrame, ends: DataFrame, size: int = WINDOW) -> DataFrame:
    """Return one row for each key: its last commits as arrays, oldest first, with the lag at each if it is known.

    The lag at a commit is measured against the newest log end seen until then; before the first one it is null.
    """
    newest = Window.partitionBy(*KEY).orderBy(F.desc("log_offset"))
    dead = commits.where("effective and is_tombstone").groupBy(*KEY).agg(F.max("log_offset").alias("dead_at"))
    alive = (
        commits.where("effective and not is_tombstone and committed_offset is not null")
        .join(dead, list(KEY), "left")
        .where("dead_at is null or log_offset > dead_at")
        .withColumn("_nth", F.row_number().over(newest))
        .where(F.col("_nth") <= size)
    )
    samples = (
        select_current_life(ends.withColumn("leo", limit_to_largest("leo")))
        .groupBy("topic", "partition")
        .agg(
            F.sort_array(F.collect_list(F.struct("ts", "leo"))).alias("samples"),
            F.max_by("source", "ts").alias("leo_source"),
        )
    )
    numbers = [limit_to_largest(name).alias(name) for name in ("commit_ts", "committed_offset")]
    item = F.struct("log_offset", *numbers)
    lists = alive.groupBy(*KEY).agg(F.sort_array(F.collect_list(item)).alias("items"))
    joined = lists.join(samples, ["topic", "partition"], "left")
    return joined.select(
        *KEY,
        F.transform("items", lambda one: one["committed_offset"]).alias("offsets"),
        F.transform("items", lambda one: one["commit_ts"]).alias("times"),
        F.transform("items", lambda one: _lag_at(one)).alias("lags"),
        F.transform(
            F.slice("samples", F.greatest(F.lit(1), F.size("samples") - size + 1), size), lambda s: s["leo"]
        ).alias("leos"),
        F.col("samples"),
        "leo_source",
    ).withColumn("leo", F.element_at("leos", -1))


def _lag_at(commit: Column) -> Column:
    seen = F.filter("samples", lambda sample: sample["ts"] <= commit["commit_ts"])
    return F.when(F.size(seen) > 0, F.greatest(F.lit(0), F.element_at(seen, -1)["leo"] - commit["committed_offset"]))


def evaluate_windows(windows: DataFrame, now_ms: int, allowed_lag: int = 0) -> DataFrame:
    """Add Burrow's status of each window, with the rules in Burrow's order.

    `windows` needs `offsets`, `times`, `lags` (with nulls), `leos` and `lag`.
    """
    first, last = F.element_at("times", 1), F.element_at("times", -1)
    now = F.lit(now_ms // 1000 * 1000)  # Burrow's clock has seconds
    quiet = (now - last) > (last - first)
    caught_up = F.exists(
        F.coalesce("leos", F.array().cast("array<bigint>")), lambda leo: leo <= F.element_at("offsets", -1)
    )
    known = F.filter("lags", lambda lag: lag.isNotNull())
    never_low = ~F.exists(known, lambda lag: lag <= allowed_lag)
    flat = F.forall("offsets", lambda offset: offset == F.element_at("offsets", 1))
    status = (
        F.when(F.col("lag").isNull() | (F.col("lag") <= allowed_lag), "OK")
        .when(quiet & ~caught_up, "STOP")
        .when(_rewound(), "REWIND")
        .when(never_low & flat, "STALL")
        .when(never_low & ~_falls(known), "WARN")
        .otherwise("OK")
    )
    return windows.withColumn("status", status)


def _pairs(of: str) -> Column:
    """Return the pairs of neighbours in an array, as structs (before, after)."""
    before = F.slice(of, 1, F.greatest(F.size(of) - 1, F.lit(0)))
    after = F.slice(of, 2, F.greatest(F.size(of) - 1, F.lit(0)))
    return F.zip_with(before, after, lambda a, b: F.struct(a.alias("before"), b.alias("after")))


def _falls(known: Column) -> Column:
    """Return whether any known lag is smaller than the known lag before it."""
    start = F.struct(F.lit(None).cast("bigint").alias("last"), F.lit(False).alias("fell"))
    return F.aggregate(
        known,
        start,
        lambda state, lag: F.struct(
            lag.alias("last"), (state["fell"] | F.coalesce(lag < state["last"], F.lit(False))).alias("fell")
        ),
    )["fell"]


def _rewound() -> Column:
    """Return whether the first rewind in the window was never made up for. Burrow looks at no other."""
    drop = F.struct(
        F.lit(None).cast("bigint").alias("last"), F.lit(None).cast("bigint").alias("from"), F.lit(False).alias("back")
    )
    walked = F.aggregate(
        "offsets",
        drop,
        lambda state, offset: F.struct(
            offset.alias("last"),
            F.when(state["from"].isNull() & (offset < state["last"]), state["last"])
            .otherwise(state["from"])
            .alias("from"),
            (state["back"] | F.coalesce(offset >= state["from"], F.lit(False))).alias("back"),
        ),
    )
    return walked["from"].isNotNull() & ~walked["back"]


def lag_status(commits: DataFrame, ends: DataFrame, now_ms: int, size: int = WINDOW, allowed_lag: int = 0) -> DataFrame:
    """Return status, lag in offsets and in seconds, and the further columns, for every key with a commit."""
    known_end = F.coalesce(F.col("leo_source") != "max_committed", F.lit(False))
    keys = collect_windows(commits, ends, size).withColumn(
        "lag", F.greatest(F.lit(0), F.col("leo") - F.element_at("offsets", -1))
    )
    intervals = F.transform(_pairs("times"), lambda pair: pair["after"] - pair["before"])
    steps = F.transform(_pairs("offsets"), lambda pair: pair["before"] - pair["after"])
    quiet_ms = F.lit(now_ms) - F.element_at("times", -1)
    usual_ms = F.greatest(
        F.element_at("times", -1) - F.element_at("times", 1), 3 * F.coalesce(F.array_max(intervals), F.lit(0))
    )
    return evaluate_windows(keys, now_ms, allowed_lag).select(
        *KEY,
        F.element_at("offsets", -1).alias("current_offset"),
        F.col("leo").alias("log_end_offset"),
        F.coalesce("leo_source", F.lit("none")).alias("leo_source"),
        F.when(known_end, F.col("lag")).alias("lag"),
        F.col("lag").alias("lag_at_least"),
        F.when(known_end & _is_end_newer(), F.greatest(F.lit(0), F.element_at("offsets", -1) - F.col("leo"))).alias(
            "beyond_end"
        ),
        F.when(known_end, _lag_seconds(now_ms)).alias("lag_seconds"),
        F.size("offsets").alias("window_commits"),
        (F.size("offsets") / F.lit(size)).alias("complete"),
        F.when(known_end, F.col("status")).otherwise(UNKNOWN).alias("status"),
        F.greatest(F.lit(0), F.coalesce(F.array_max(steps), F.lit(0))).alias("worst_rewind"),
        _trend().alias("lag_trend"),
        (quiet_ms > usual_ms).alias("quiet_too_long"),
        (quiet_ms / 1000).alias("quiet_s"),
    )


def _is_end_newer() -> Column:
    """Return whether the log ended there after the last commit: else the group may have read what came since.

    The end of a log that was read itself is the one after all commits, though it has the time of its last record.
    """
    newest = F.element_at("samples", -1)["ts"]
    return (F.col("leo_source") == "log") | (newest >= F.element_at("times", -1))


def _lag_seconds(now_ms: int) -> Column:
    """Return how long ago the log ended at the committed offset, interpolated between two samples of the log end.

    0 if the group has caught up; null if the samples do not reach back that far.
    """
    at = F.element_at("offsets", -1)
    below = F.element_at(F.filter("samples", lambda s: s["leo"] <= at), -1)
    above = F.element_at(F.filter("samples", lambda s: s["leo"] > at), 1)
    share = (at - below["leo"]) / (above["leo"] - below["leo"])
    then = below["ts"] + share * (above["ts"] - below["ts"])
    has_below = F.exists("samples", lambda s: s["leo"] <= at)
    return F.when(F.col("lag") == 0, F.lit(0.0)).when(has_below, (F.lit(now_ms) - then) / 1000)


def _trend() -> Column:
    """Return by how many offsets the lag grows with each commit: the slope of the line through all known lags."""
    points = F.filter(
        F.transform("lags", lambda lag, i: F.struct(i.cast("double").alias("x"), lag.cast("double").alias("y"))),
        lambda point: point["y"].isNotNull(),
    )
    zero = F.lit(0.0)
    sums = F.aggregate(
        points,
        F.struct(zero.alias("x"), zero.alias("y"), zero.alias("xx"), zero.alias("xy")),
        lambda total, one: F.struct(
            (total["x"] + one["x"]).alias("x"),
            (total["y"] + one["y"]).alias("y"),
            (total["xx"] + one["x"] * one["x"]).alias("xx"),
            (total["xy"] + one["x"] * one["y"]).alias("xy"),
        ),
    )
    n = F.size(points)
    slope = (n * sums["xy"] - sums["x"] * sums["y"]) / (n * sums["xx"] - sums["x"] * sums["x"])
    return F.when(n > 1, slope)


def lag_history(commits: DataFrame, ends: DataFrame) -> DataFrame:
    """Return (group, topic, partition, ts, lag) at each time with a known log end, by the latest commit before it.

    Ends that are only lower bounds say nothing about the past and are left out.
    """
    offset = limit_to_largest("committed_offset").alias("committed_offset")
    alive = commits.where("effective").select(*KEY, F.col("record_ts").alias("ts"), "log_offset", offset)
    leo = limit_to_largest("leo").alias("leo")
    samples = ends.where("source <> 'max_committed'").select("topic", "partition", "ts", leo)
    asked = alive.select(*KEY).distinct().join(samples, ["topic", "partition"])
    none = F.lit(None).cast("bigint")
    both = alive.withColumn("leo", none).unionByName(
        asked.withColumn("log_offset", none).withColumn("committed_offset", none)
    )
    order = Window.partitionBy(*KEY).orderBy("ts", F.asc_nulls_last("log_offset"))
    last = F.last(F.when(F.col("leo").isNull(), F.struct("committed_offset")), ignorenulls=True).over(order)
    stood = both.withColumn("stood", last["committed_offset"]).where("leo is not null and stood is not null")
    return stood.select(*KEY, "ts", F.greatest(F.lit(0), F.col("leo") - F.col("stood")).alias("lag"))


def group_status(keys: DataFrame) -> DataFrame:
    """Return the status of each group by Burrow: the worst of its partitions, where everything above WARN is ERR.

    UNKNOWN is worse than OK, and better than WARN.
    """
    known = F.when(F.col("status") == "OK", 0).when(F.col("status") == UNKNOWN, 1).when(F.col("status") == "WARN", 2)
    worst = F.max(known.otherwise(3))
    return keys.groupBy("group").agg(
        F.element_at(F.array(*map(F.lit, ("OK", UNKNOWN, "WARN", "ERR"))), worst + 1).alias("status"),
        F.try_sum("lag").alias("total_lag"),
        F.max("lag").alias("max_lag"),
        F.count("*").alias("partitions"),
        F.avg((F.col("complete") >= 1).cast("int")).alias("complete"),
    )
