"""What the report tells, taken from the tables and bounded: it stays readable, and small, with 10,000 groups."""

from typing import Any

import msgspec
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

from pipeline.jobs.build import Tables

Rows = list[dict[str, Any]]
GROUPS, PARTITIONS, DRAWN, SERIES, LISTED = 200, 200, 24, 6, 60
POINTS = 240  # of a line
MINUTE_MS = 60_000


class Told(msgspec.Struct):
    """Rows for each part of the page; the totals count what was left out as well."""

    paths: list[str] = []
    logs: dict[str, int] = {}  # log -> next offset
    first_ms: int | None = None
    last_ms: int | None = None
    groups_total: int = 0
    partitions_total: int = 0
    rebalances_total: int = 0
    problems_total: int = 0
    statuses: dict[str, int] = {}
    groups: Rows = []
    partitions: Rows = []
    lag_history: Rows = []
    progress: Rows = []
    causes: Rows = []
    sync_ms: Rows = []
    rebalances: Rows = []
    sessions: Rows = []
    stickiness: Rows = []
    trouble: Rows = []
    health: Rows = []
    problems: Rows = []
    unknown: Rows = []


def collect(tables: Tables) -> Told:
    """Read the derived tables."""
    made = {name: tables.derived(name) for name in NEEDED}
    told = Told(
        paths=list(tables.manifest.paths),
        logs={log: position.next_offset for log, position in tables.manifest.logs.items()},
    )
    groups = _groups(made)
    told.groups = rows(groups.orderBy(F.desc("severity"), F.desc_nulls_last("total_lag"), "group").limit(GROUPS))
    told.groups_total = groups.count()
    told.statuses = {row["status"]: row["count"] for row in rows(groups.groupBy("status").count())}
    _partitions(told, made)
    _rebalances(told, made)
    health = made["log_health"]
    told.health = rows(health.orderBy(F.desc("bytes")).limit(LISTED))
    problems = made["log_problems"].where("severity = 'problem'")
    told.problems = rows(made["log_problems"].orderBy(F.desc("severity"), "log_dir", "pos").limit(LISTED))
    told.problems_total = problems.count()
    told.unknown = rows(made["unknown_records"].groupBy("key_version", "reason").count().orderBy("key_version"))
    return told


NEEDED = (
    "offset_commits", "commit_velocity", "group_state", "rebalances", "member_sessions", "stickiness", "lag_history",
    "lag_status", "group_status", "log_health", "log_problems", "unknown_records", "group_metadata",
)  # fmt: skip


def rows(frame: DataFrame) -> Rows:
    """All rows as dicts."""
    return [row.asDict(recursive=True) for row in frame.collect()]


def _groups(made: dict[str, DataFrame]) -> DataFrame:
    severity = F.when(F.col("status") == "ERR", 2).when(F.col("status") == "WARN", 1).otherwise(0)
    state = made["group_state"].select("group", "type", "generation", "protocol", "members", "empty_since")
    status = made["group_status"].select("group", "status", "total_lag", "max_lag", "partitions")
    return state.join(status, "group", "full").withColumn("severity", severity).fillna({"status": "OK"})


def _partitions(told: Told, made: dict[str, DataFrame]) -> None:
    keys = made["lag_status"]
    told.partitions_total = keys.count()
    owners = (
        made["group_metadata"]
        .groupBy("group")
        .agg(F.max_by("members", "log_offset").alias("members"))
        .select("group", F.explode("members").alias("member"))
        .select("group", "member.member_id", "member.client_host", "member.client_id", F.explode("member.assignment"))
        .select(
            "group",
            "member_id",
            "client_host",
            "client_id",
            F.col("key").alias("topic"),
            F.explode("value").alias("partition"),
        )
    )
    bad = F.when(F.col("status") == "OK", 0).when(F.col("status") == "WARN", 1).otherwise(2)
    worst = keys.orderBy(F.desc(bad), F.desc_nulls_last("lag_at_least"), "group", "topic", "partition").limit(
        PARTITIONS
    )
    told.partitions = rows(worst.join(F.broadcast(owners), ["group", "topic", "partition"], "left"))
    odd = keys.where("status <> 'OK' or worst_rewind > 0 or quiet_too_long and lag_at_least > 0")
    told.trouble = rows(odd.orderBy(F.desc(bad), F.desc("worst_rewind")).limit(LISTED))
    told.progress = rows(progress(made["commit_velocity"]))
    span = made["offset_commits"].agg(F.min("record_ts").alias("first"), F.max("record_ts").alias("last")).first()
    told.first_ms, told.last_ms = (span["first"], span["last"]) if span else (None, None)
    told.lag_history = rows(total_lag(made["lag_history"]))


def progress(velocity: DataFrame) -> DataFrame:
    """(group, window_start, advance, commits), both a minute, of the busiest groups, at up to `POINTS` moments.

    A point stands for as many whole minutes as it takes to come down to that number.
    """
    busiest = velocity.groupBy("group").agg(F.sum("commits").alias("n")).orderBy(F.desc("n"), "group").limit(SERIES)
    mine = velocity.join(F.broadcast(busiest.select("group")), "group")
    span = mine.agg(F.min("window_start").alias("first"), F.max("window_start").alias("last")).select(
        "first", F.ceil((F.col("last") - F.col("first") + MINUTE_MS) / (MINUTE_MS * POINTS)).alias("minutes")
    )
    since = F.col("window_start") - F.col("first")
    start = F.col("first") + F.floor(since / (F.col("minutes") * MINUTE_MS)) * F.col("minutes") * MINUTE_MS
    return (
        mine.crossJoin(F.broadcast(span))
        .withColumn("window_start", start)
        .groupBy("group", "window_start")
        .agg(*(F.sum(F.col(name) / F.col("minutes")).alias(name) for name in ("advance", "commits")))
    )


def total_lag(history: DataFrame) -> DataFrame:
    """(group, ts, lag): the lag of all partitions of the groups that had the most, at up to `POINTS` moments.

    A partition's lag stands until its next sample, so a group's total is the running sum of its partitions' changes.
    """
    most = history.groupBy("group").agg(F.max("lag").alias("n")).orderBy(F.desc("n"), "group").limit(SERIES)
    mine = history.join(F.broadcast(most.select("group")), "group")
    of_key = Window.partitionBy("group", "topic", "partition").orderBy("ts")
    span = mine.agg(F.min("ts").alias("first"), F.greatest(F.max("ts") - F.min("ts"), F.lit(1)).alias("long"))
    change = F.col("lag") - F.coalesce(F.lag("lag").over(of_key), F.lit(0))
    point = F.floor((F.col("ts") - F.col("first")) * (POINTS - 1) / F.col("long"))
    steps = mine.withColumn("change", change).crossJoin(F.broadcast(span)).withColumn("point", point)
    summed = steps.groupBy("group", "point").agg(F.max("ts").alias("ts"), F.sum("change").alias("change"))
    until_now = Window.partitionBy("group").orderBy("point").rowsBetween(Window.unboundedPreceding, 0)
    return summed.select("group", "ts", F.sum("change").over(until_now).alias("lag"))


def _rebalances(told: Told, made: dict[str, DataFrame]) -> None:
    found = made["rebalances"]
    told.rebalances_total = found.count()
    told.causes = rows(found.groupBy("cause", "cause_source").count().orderBy(F.desc("count")))
    edges = F.when(F.col("sync_ms") < 10, "< 10 ms").when(F.col("sync_ms") < 100, "10-100 ms")
    named = edges.when(F.col("sync_ms") < 1000, "0.1-1 s").when(F.col("sync_ms") < 10_000, "1-10 s").otherwise("> 10 s")
    told.sync_ms = rows(found.where("sync_ms is not null").groupBy(named.alias("range")).count())
    restless = found.groupBy("group").agg(F.count("*").alias("n")).orderBy(F.desc("n"), "group").limit(DRAWN)
    told.rebalances = rows(found.join(F.broadcast(restless), "group").orderBy("at_ms").limit(4000))
    few = restless.limit(3)
    told.sessions = rows(made["member_sessions"].join(F.broadcast(few), "group").orderBy("group", "from_ts").limit(150))
    told.stickiness = rows(made["stickiness"].where("common > 0").orderBy("stickiness", "group").limit(DRAWN))
