"""Rebalances, partition moves and member sessions: the history of each group (`pipeline.history`), by Spark.

Spark brings a group's records together in log order, with the commits between them reduced to a few numbers; the rules
themselves are plain Python and see one record at a time, so a group may have any number of them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

from pipeline.history.group import GroupHistory
from pipeline.history.records import (
    STEPS,
    TASK,
    Activity,
    Move,
    Rebalance,
    Record,
    Row,
    Session,
)

TEXTS = pa.list_(pa.string())
ROWS = pa.schema(
    [
        (
            "rebalance",
            pa.struct(
                [
                    ("group", pa.string()), ("type", pa.string()), ("generation", pa.int32()), ("at_ms", pa.int64()),
                    ("log_offset", pa.int64()), ("cause", pa.string()), ("causes", TEXTS),
                    ("cause_detail", pa.string()), ("cause_source", pa.string()), ("members_before", pa.int32()),
                    ("members_after", pa.int32()), ("joined", TEXTS), ("left", TEXTS), ("sync_ms", pa.int64()),
                    ("commit_gap_ms", pa.int64()), ("commit_gap_partitions", pa.string()),
                    ("commit_interval_ms", pa.int64()), ("epoch_settle_ms", pa.int64()),
                    ("partitions_moved", pa.int32()),
                ]
            ),
        ),
        (
            "move",
            pa.struct(
                [
                    ("group", pa.string()), ("generation", pa.int32()), ("topic", pa.string()),
                    ("partition", pa.int32()), ("from_owner", pa.string()), ("to_owner", pa.string()),
                    ("kind", pa.string()), ("log_offset", pa.int64()), ("record_ts", pa.int64()),
                ]
            ),
        ),
        (
            "session",
            pa.struct(
                [
                    ("group", pa.string()), ("type", pa.string()), ("member_id", pa.string()),
                    ("instance_id", pa.string()), ("client_id", pa.string()), ("host", pa.string()),
                    ("from_ts", pa.int64()), ("to_ts", pa.int64()), ("end_reason", pa.string()),
                    ("generations", pa.int64()), ("partitions_owned", pa.int32()),
                ]
            ),
        ),
    ]
)  # fmt: skip
COLUMNS = {Rebalance: "rebalance", Move: "move", Session: "session"}
BATCH_ROWS = 4096


def histories(records: DataFrame, commits: DataFrame) -> DataFrame:
    """Return the history of every group: each row has one of the structs `rebalance`, `move` and `session`.

    `records` are raw group records, `commits` those of `offset_commits`. Kept by the caller, since three tables are
    made of it (`rebalances`, `partition_moves`, `member_sessions`).
    """
    return order_facts(records, commits).mapInArrow(_histories, _ddl())


def order_facts(records: DataFrame, commits: DataFrame) -> DataFrame:
    """Bring the records of each group together in log order, with the commits of each step behind its record."""
    facts = records.select(
        "group", "log_offset", F.lit(0).alias("kind"), "record_ts", "key_version", "member_id", "epoch",
        "is_tombstone", "payload",
    )  # fmt: skip
    both = facts.unionByName(step_activity(records, commits).withColumn("kind", F.lit(1)), allowMissingColumns=True)
    return both.repartition("group").sortWithinPartitions("group", "log_offset", "kind")


def rebalances(rows: DataFrame) -> DataFrame:
    """Select the rebalances, one row each."""
    return rows.where("rebalance is not null").select("rebalance.*")


def partition_moves(rows: DataFrame) -> DataFrame:
    """Select the fate of each partition from one generation of a classic group to the next (`history.ownership`), and
    each active task of a streams group that comes to a member (`history.epochs`)."""
    return rows.where("move is not null").select("move.*")


def member_sessions(rows: DataFrame) -> DataFrame:
    """Select the memberships: from when to when, and how each ended; `to_ts` is null while it lasts."""
    return rows.where("session is not null").select("session.*")


def stickiness(moves: DataFrame) -> DataFrame:
    """Return (group, rebalances, kept, common, stickiness): the share kept of partitions owned before and after."""
    moves = moves.where(~F.col("topic").startswith(TASK))
    kept = F.sum((F.col("kind") == "kept").cast("bigint"))
    common = F.sum(F.col("kind").isin("kept", "moved").cast("bigint"))
    counted = moves.groupBy("group").agg(
        F.countDistinct("log_offset").alias("rebalances"), kept.alias("kept"), common.alias("common")
    )
    return counted.withColumn("stickiness", F.when(F.col("common") > 0, F.col("kept") / F.col("common")))


def step_activity(records: DataFrame, commits: DataFrame) -> DataFrame:
    """Return the commits to each partition in each step of its group, as `history.activity.gather_activity` says it.

    `log_offset` is that of the record that began the step, -1 before the first.
    """
    in_group = Window.partitionBy("group").orderBy("log_offset")
    steps = records.where(F.col("key_version").isin(*STEPS)).select(
        "group", "log_offset", F.col("log_offset").alias("step")
    )
    counted = commits.where("effective and not is_tombstone").select(
        "group", "log_offset", "topic", "partition", "record_ts", "is_txn"
    )
    both = counted.join(F.broadcast(steps.select("group").distinct()), "group", "left_semi").unionByName(
        steps, allowMissingColumns=True
    )
    until_now = in_group.rowsBetween(Window.unboundedPreceding, 0)
    placed = (
        both.withColumn("step", F.last("step", ignorenulls=True).over(until_now))
        .where("record_ts is not null")
        .withColumnRenamed("log_offset", "at")
        .withColumn("log_offset", F.coalesce("step", F.lit(-1).cast("bigint")))
    )
    before = Window.partitionBy("group", "log_offset", "topic", "partition").orderBy("at")
    newest = F.max("record_ts").over(before.rowsBetween(Window.unboundedPreceding, -1))
    placed = placed.withColumn("back_ms", F.coalesce(newest - F.col("record_ts"), F.lit(0)))
    plain = F.when(~F.col("is_txn"), F.col("record_ts"))
    return placed.groupBy("group", "log_offset", "topic", "partition").agg(
        F.min("record_ts").alias("first_ts"),
        F.max("record_ts").alias("last_ts"),
        F.max(plain).alias("last_plain_ts"),
        F.count("*").alias("commits"),
        F.greatest(F.lit(0), F.max("back_ms")).alias("back_ms"),
    )


def _histories(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield groups one after the other, each in log order; runs in a worker."""
    rows: list[Row] = []
    for row in _rows(batches):
        rows.append(row)
        if len(rows) >= BATCH_ROWS:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    group: str | None = None
    history = GroupHistory("")
    for batch in batches:
        for row in batch.to_pylist():
            if row["group"] != group:
                yield from history.end()
                group = row["group"]
                history = GroupHistory(row["group"])
            if row["kind"]:
                activity = Activity(*(row[name] for name in Activity.__struct_fields__))
                history.observe(row["topic"], row["partition"], activity)
            else:
                yield from history.apply(Record(*(row[name] for name in Record.__struct_fields__)))
    yield from history.end()


def _batch(rows: list[Row]) -> pa.RecordBatch:
    structs: list[dict[str, Any]] = []
    for row in rows:
        columns = msgspec.structs.asdict(row)
        if isinstance(row, Rebalance):
            columns["cause"] = row.causes[0]
        structs.append({COLUMNS[type(row)]: columns})
    return pa.RecordBatch.from_pylist(structs, schema=ROWS)


def _ddl() -> str:
    """Return the schema of `histories` as Spark writes it."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(ROWS).simpleString().removeprefix("struct<").removesuffix(">")
