"""The server's event log, where there is one: it saw what the log only lets one guess.

Events name the generation that a classic group had when they happened, so they explain the next one; a static member
that takes its place again does so within its generation. Events of consumer groups name the epoch they led to.
"""

from itertools import chain
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

EVENT = (
    "at_ms bigint, group string, cause string, before string, after string, generation int, member string,"
    " type string, reason string, last_beat_ms bigint"
)
CAUSES = {
    "member_joined": "join",
    "member_left": "leave",
    "member_refused": "leave",
    "session_expired": "timeout",
    "rebalance_timed_out": "timeout",
    "pending_sync_expired": "timeout",
    "member_fenced": "timeout",
    "static_member_replaced": "static_rejoin",
    "leader_rejoined": "leader_rejoined",
    "static_member_returned": "static_rejoin",
    "metadata_changed": "subscription_change",
    "subscription_changed": "subscription_change",
    "pattern_resolved": "subscription_change",
    "topics_changed": "partition_count_change",
    "group_deleted": "deleted",
    "group_expired": "deleted",
}
CHANGES = ("subscription_change", "partition_count_change", "assignor_change")
LONGEST_MS = 30 * 60_000  # from an event to the record that it led to; a group's generations may begin anew


def read_events(spark: SparkSession, files: list[Path]) -> DataFrame:
    """Files of JSON lines as the server writes them; a line that is none, and counts of lost events, are left out."""
    if not files:
        return spark.createDataFrame([], EVENT)
    rows = spark.read.schema(EVENT).json([str(file.absolute()) for file in files])
    rows = rows.withColumn("cause", F.translate("cause", " ", "_"))  # version 0.1 wrote the causes as words
    return rows.where("group is not null").withColumn("type", F.coalesce("type", F.lit("classic")))


def explained(events: DataFrame) -> DataFrame:
    """Which generation each event led to, and its cause as we say it (`told`)."""
    names = F.create_map(*(F.lit(one) for one in chain.from_iterable(CAUSES.items())))
    stays = (F.col("type") == "consumer") | (
        (F.col("cause") == "static_member_replaced") & (F.col("before") == F.col("after"))
    )
    return (
        events.withColumn("told", names[F.col("cause")])
        .where("told is not null")
        .select(
            "group",
            "type",
            (F.col("generation") + F.when(stays, 0).otherwise(1)).alias("generation"),
            F.col("at_ms").alias("told_ms"),
            "told",
            "member",
            _words().alias("words"),
        )
    )


def _words() -> Column:
    """What else an event says, for people: the client's own reason, and how long a session had been silent."""
    silent = F.format_number((F.col("at_ms") - F.col("last_beat_ms")) / 1000, 1)
    beat = F.when(F.col("last_beat_ms") > 0, F.concat(F.lit("last heartbeat "), silent, F.lit(" s before")))
    said = F.concat_ws(", ", F.nullif("reason", F.lit("")), beat)
    return F.when(said != "", F.concat(F.lit("("), said, F.lit(")")))


def with_events(rebalances: DataFrame, events: DataFrame) -> DataFrame:
    """Rebalances with the causes that were told instead of those that were inferred, where there are any."""
    known = rebalances.select("group", "type", "generation", "at_ms", "log_offset")
    near = (F.col("told_ms") <= F.col("at_ms")) & (F.col("told_ms") > F.col("at_ms") - LONGEST_MS)
    found = explained(events).withColumn("event", F.monotonically_increasing_id())
    matched = known.join(found, ["group", "type", "generation"]).where(near)
    soonest = Window.partitionBy("event").orderBy("log_offset")  # a generation may be written more than once
    matched = matched.withColumn("nth", F.row_number().over(soonest)).where("nth = 1")
    first = F.array_sort(F.collect_list(F.struct("told_ms", "told", "member", "words")))
    told = matched.groupBy("group", "log_offset").agg(first.alias("story"))
    joined = rebalances.join(told, ["group", "log_offset"], "left")
    causes = _with_changes(F.array_distinct(F.transform("story", lambda one: one["told"])))
    # That nobody is left is a fact of the record, not a cause that could be told.
    emptied = F.filter("causes", lambda one: one == "emptied")
    all_causes = F.when(F.col("story").isNotNull(), F.concat(emptied, causes)).otherwise(F.col("causes"))
    lines = F.transform("story", lambda one: F.concat_ws(" ", one["told"], one["member"], one["words"]))
    return (
        joined.withColumn("cause_source", F.when(F.col("story").isNotNull(), "event_log").otherwise("inferred"))
        .withColumn(
            "cause_detail",
            F.when(F.col("story").isNotNull(), F.array_join(lines, "; ")).otherwise(F.col("cause_detail")),
        )
        .withColumn("causes", all_causes)
        .withColumn("cause", F.element_at("causes", 1))
        .drop("story")
    )


def _with_changes(told: Column) -> Column:
    """A leader joins again because something that it watches has changed; what that was, the log shows."""
    seen = F.filter("causes", lambda one: one.isin(*CHANGES))
    others = F.filter(told, lambda one: one != "leader_rejoined")
    wanted = F.array_contains(told, "leader_rejoined") & (F.size(seen) > 0)
    return F.when(wanted, F.array_union(others, seen)).otherwise(told)
