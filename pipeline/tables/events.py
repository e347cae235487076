"""The server's event log, where there is one: it saw what the log only lets one guess.

Events name the generation that a classic group had when they happened, so they explain the next one; a static member
that takes its place again does so within its generation. Events of groups of other kinds name the epoch they led to.
"""

from itertools import chain
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

from pipeline.decode.files import escape_pattern

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
    "partitions_initialized": "partitions_initialized",
    "group_deleted": "deleted",
    "group_expired": "deleted",
    "protocol_upgraded": "migrated",
    "protocol_downgraded": "migrated",
}
# What a member joins again for is in its metadata, not in the event; the log shows it.
CHANGES = ("subscription_change", "partition_count_change", "topic_found", "assignor_change", "cooperative_handover")
WITHIN = ("static_member_replaced", "static_member_returned", "protocol_upgraded", "protocol_downgraded")
LONGEST_MS = 30 * 60_000  # from an event to the record that it led to; a group's generations may begin anew


def read_events(spark: SparkSession, files: list[Path]) -> DataFrame:
    """Read files of JSON lines as the server writes them, without counts of lost events and lines that are no JSON."""
    if not files:
        return spark.createDataFrame([], EVENT)
    rows = spark.read.schema(EVENT).json([escape_pattern(str(file.absolute())) for file in files])
    rows = rows.withColumn("cause", F.translate("cause", " ", "_"))  # version 0.1 wrote the causes as words
    return rows.where("group is not null").withColumn("type", F.coalesce("type", F.lit("classic")))


def generations(events: DataFrame) -> DataFrame:
    """Match each event with the generation that it led to, and its cause by our names (`event_cause`)."""
    names = F.create_map(*(F.lit(one) for one in chain.from_iterable(CAUSES.items())))
    stays = (F.col("type") != "classic") | (
        F.col("cause").isin(*WITHIN) & ((F.col("before") == F.col("after")) | F.col("cause").startswith("protocol"))
    )
    # The end of a join phase that was not waited for any longer has no member; the members that it removed have.
    is_phase = (F.col("cause") == "rebalance_timed_out") & (F.coalesce("member", F.lit("")) == "")
    return (
        events.withColumn("event_cause", names[F.col("cause")])
        .where(F.col("event_cause").isNotNull() & ~is_phase)
        .select(
            "group",
            "type",
            (F.col("generation") + F.when(stays, 0).otherwise(1)).alias("generation"),
            F.col("at_ms").alias("event_ms"),
            "event_cause",
            "member",
            _remark().alias("remark"),
        )
    )


def _remark() -> Column:
    """Return what else an event says, for people: the client's own reason, and how long a session had been silent."""
    silent = F.format_number((F.col("at_ms") - F.col("last_beat_ms")) / 1000, 1)
    beat = F.when(F.col("last_beat_ms") > 0, F.concat(F.lit("last heartbeat "), silent, F.lit(" s before")))
    remark = F.concat_ws(", ", F.nullif("reason", F.lit("")), beat)
    return F.when(remark != "", F.concat(F.lit("("), remark, F.lit(")")))


def with_events(rebalances: DataFrame, events: DataFrame) -> DataFrame:
    """Replace the causes that were inferred by those of the event log, where it has any."""
    known = rebalances.select("group", "type", "generation", "at_ms", "log_offset")
    near = (F.col("event_ms") <= F.col("at_ms")) & (F.col("event_ms") > F.col("at_ms") - LONGEST_MS)
    numbered = generations(events).withColumn("event", F.monotonically_increasing_id())
    matched = known.join(numbered, ["group", "type", "generation"]).where(near)
    soonest = Window.partitionBy("event").orderBy("log_offset")  # a generation may be written more than once
    matched = matched.withColumn("nth", F.row_number().over(soonest)).where("nth = 1")
    in_order = F.array_sort(F.collect_list(F.struct("event_ms", "event_cause", "member", "remark")))
    stories = matched.groupBy("group", "log_offset").agg(in_order.alias("story"))
    joined = rebalances.join(stories, ["group", "log_offset"], "left")
    causes = _with_changes(F.array_distinct(F.transform("story", lambda one: one["event_cause"])))
    # That nobody is left is a fact of the record, not a cause that an event could name.
    emptied = F.filter("causes", lambda one: one == "emptied")
    all_causes = F.when(F.col("story").isNotNull(), F.concat(emptied, causes)).otherwise(F.col("causes"))
    lines = F.transform("story", lambda one: F.concat_ws(" ", one["event_cause"], one["member"], one["remark"]))
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


def _with_changes(events: Column) -> Column:
    """Name what has changed where the event log only says that a member joined again for a change: the log shows it.

    `metadata changed` may be another subscription or, in a cooperative group, partitions that were given up.
    """
    seen = F.filter("causes", lambda one: one.isin(*CHANGES))
    handed_over = F.array_contains("causes", "cooperative_handover") & ~F.array_contains(
        "causes", "subscription_change"
    )
    named = F.when(
        handed_over,
        F.array_distinct(
            F.transform(events, lambda one: F.when(one == "subscription_change", "cooperative_handover").otherwise(one))
        ),
    ).otherwise(events)
    others = F.filter(named, lambda one: one != "leader_rejoined")
    wanted = F.array_contains(named, "leader_rejoined") & (F.size(seen) > 0)
    return F.when(wanted, F.array_union(others, seen)).otherwise(named)
