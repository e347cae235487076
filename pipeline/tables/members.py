"""Members over time, and what became of their partitions."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom


def member_sessions(metadata: DataFrame, rebalances: DataFrame, new: DataFrame) -> DataFrame:
    """From when to when each member belonged to its group, and how that ended; `to_ts` is null while it lasts."""
    return _classic_sessions(metadata, rebalances).unionByName(_consumer_sessions(new))


def _classic_sessions(metadata: DataFrame, rebalances: DataFrame) -> DataFrame:
    present = metadata.select("group", "log_offset", "record_ts", "generation", F.explode("members").alias("member"))
    owned = F.aggregate(F.map_values("member.assignment"), F.lit(0), lambda total, numbers: total + F.size(numbers))
    spans = present.groupBy("group", "member.member_id").agg(
        F.max_by("member.group_instance_id", "log_offset").alias("instance_id"),
        F.max_by("member.client_id", "log_offset").alias("client_id"),
        F.max_by("member.client_host", "log_offset").alias("host"),
        F.min("record_ts").alias("from_ts"),
        F.max("log_offset").alias("last_seen"),
        F.countDistinct("generation").alias("generations"),
        F.max_by(owned, "log_offset").alias("partitions_owned"),
    )
    order = Window.partitionBy("group").orderBy("log_offset")
    following = metadata.select(
        "group",
        F.col("log_offset").alias("last_seen"),
        F.lead("log_offset").over(order).alias("log_offset"),
        F.lead("record_ts").over(order).alias("to_ts"),
    )
    why = rebalances.where("type = 'classic'").select("group", "log_offset", "causes")
    reasons = F.array(
        *(F.lit(one) for one in ("timeout", "leave", "leave_or_timeout", "static_rejoin", "emptied", "deleted"))
    )
    return (
        spans.join(following, ["group", "last_seen"], "left")
        .join(why, ["group", "log_offset"], "left")
        .withColumn("end_reason", F.get(F.array_intersect(reasons, "causes"), F.lit(0)))
        .drop("last_seen", "log_offset", "causes")
        .withColumn("type", F.lit("classic"))
    )


def _consumer_sessions(new: DataFrame) -> DataFrame:
    rows = new.where("type = 'ConsumerGroupMemberMetadata'")
    value = F.from_json("payload", "struct<instance_id:string, client_id:string, client_host:string>")
    ended = F.max(F.when(F.col("is_tombstone"), F.col("record_ts")))
    alive = ~F.max_by("is_tombstone", "log_offset")
    said = F.when(~F.col("is_tombstone"), F.col("log_offset"))
    return (
        rows.withColumn("value", value)
        .groupBy("group", "member_id")
        .agg(
            F.max_by("value.instance_id", said).alias("instance_id"),
            F.max_by("value.client_id", said).alias("client_id"),
            F.max_by("value.client_host", said).alias("host"),
            F.min(F.when(~F.col("is_tombstone"), F.col("record_ts"))).alias("from_ts"),
            F.lit(None).cast("bigint").alias("generations"),
            F.lit(None).cast("int").alias("partitions_owned"),
            F.when(~alive, ended).alias("to_ts"),
            F.when(~alive, "leave_or_timeout").alias("end_reason"),
        )
        .withColumn("type", F.lit("consumer"))
    )


def partition_moves(metadata: DataFrame) -> DataFrame:
    """What became of each partition from one generation of a classic group to the next.

    kept: the same owner (a static member under a new member id is the same); moved: another one; gained: had none;
    revoked: has none now. The first generation that the log shows has no predecessor and no rows.
    """
    order = Window.partitionBy("group").orderBy("log_offset")
    numbered = metadata.withColumn("step", F.row_number().over(order)).withColumn(
        "first", F.coalesce(F.lag("is_tombstone").over(order), F.lit(True))
    )
    owned = (
        numbered.select("group", "step", F.explode("members").alias("member"))
        .select(
            "group",
            "step",
            F.coalesce("member.group_instance_id", "member.member_id").alias("owner"),
            F.explode("member.assignment").alias("topic", "partitions"),
        )
        .withColumn("partition", F.explode("partitions"))
        .drop("partitions")
    )
    before = owned.withColumn("step", F.col("step") + 1).withColumnRenamed("owner", "from_owner")
    steps = numbered.where("not first").select("group", "step", "generation", "log_offset", "record_ts")
    both = before.join(owned.withColumnRenamed("owner", "to_owner"), ["group", "step", "topic", "partition"], "full")
    kind = (
        F.when(F.col("from_owner").isNull(), "gained")
        .when(F.col("to_owner").isNull(), "revoked")
        .when(F.col("from_owner") == F.col("to_owner"), "kept")
        .otherwise("moved")
    )
    return both.join(steps, ["group", "step"]).withColumn("kind", kind).drop("step")


def stickiness(moves: DataFrame) -> DataFrame:
    """(group, rebalances, kept, common, stickiness): of the partitions owned before and after, the share kept."""
    kept = F.sum((F.col("kind") == "kept").cast("bigint"))
    common = F.sum(F.col("kind").isin("kept", "moved").cast("bigint"))
    counted = moves.groupBy("group").agg(
        F.countDistinct("log_offset").alias("rebalances"), kept.alias("kept"), common.alias("common")
    )
    return counted.withColumn("stickiness", F.when(F.col("common") > 0, F.col("kept") / F.col("common")))
