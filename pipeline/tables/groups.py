"""Groups as their records tell them: classic generations and their members, KIP-848 records, the state at the end."""

from itertools import chain

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

from pipeline.history.records import GROUP_METADATA, OF_EPOCHS, Role

MEMBER = (
    "struct<member_id:string, group_instance_id:string, client_id:string, client_host:string,"
    " rebalance_timeout:int, session_timeout:int, subscription:string, topics:array<string>,"
    " assignment:map<string,array<int>>>"
)
CLASSIC = (
    "struct<protocol_type:string, generation:int, protocol:string, leader:string, current_state_timestamp:bigint,"
    f" members:array<{MEMBER}>>"
)


def group_metadata(records: DataFrame) -> DataFrame:
    """Return every record of a classic group, spelled out.

    `sync_ms` is how long its members took from JoinGroup to SyncGroup: the record is written when the leader's
    assignment comes, and names the time at which the group began to wait for it. It is null where nobody waited: in a
    generation without members, and in a further record of the same generation, which a static member's return writes;
    so it is where the record before is not known, or the broker's clock has gone back.
    """
    value = F.from_json("payload", CLASSIC)
    members = F.coalesce(F.col("value.members"), F.from_json(F.lit("[]"), f"array<{MEMBER}>"))
    in_order = Window.partitionBy("group").orderBy("log_offset")
    before = F.coalesce(F.lag("value.generation").over(in_order), F.lit(0))
    is_sync = (
        (F.size(members) > 0)
        & (F.col("value.generation") != before)
        & ((before > 0) | (F.col("value.generation") <= 1))
    )
    known_time = F.when(F.col("value.current_state_timestamp") > 0, F.col("value.current_state_timestamp"))
    return (
        records.where(F.col("key_version") == GROUP_METADATA)
        .select(
            "log_partition",
            "log_offset",
            "record_ts",
            "group",
            "is_tombstone",
            value.alias("value"),
        )
        .select(
            "log_partition",
            "log_offset",
            "record_ts",
            "group",
            "is_tombstone",
            F.col("value.protocol_type").alias("protocol_type"),
            F.col("value.generation").alias("generation"),
            F.col("value.protocol").alias("protocol"),
            F.col("value.leader").alias("leader"),
            known_time.alias("state_ts"),
            F.when(is_sync & (F.col("record_ts") >= known_time), F.col("record_ts") - known_time).alias("sync_ms"),
            members.alias("members"),
        )
    )


def new_group_records(records: DataFrame) -> DataFrame:
    """Return the records of groups with epochs, one row each, their value as JSON in `payload`."""
    return records.where(F.col("key_version") != GROUP_METADATA).select(
        "log_partition", "log_offset", "record_ts", "group", "type", "member_id", "epoch", "is_tombstone", "payload"
    )


def group_state(metadata: DataFrame, new: DataFrame, latest: DataFrame) -> DataFrame:
    """Return the last word on every group that still exists: type, generation or epoch, members, since when it is
    empty.

    Groups that never had a member, and only hold offsets, are classic groups of generation 0, as in Kafka.
    """
    newest = Window.partitionBy("group").orderBy(F.desc("log_offset"))
    classic = (
        metadata.withColumn("_nth", F.row_number().over(newest))
        .where("_nth = 1 and not is_tombstone")
        .select(
            "group",
            F.lit("classic").alias("type"),
            "generation",
            F.nullif("protocol", F.lit("")).alias("protocol"),
            F.size("members").alias("members"),
            F.when(F.size("members") == 0, F.col("record_ts")).alias("empty_since"),
            "record_ts",
            "log_offset",
        )
    )
    with_records = classic.unionByName(_epoch_state(new))
    return with_records.unionByName(_offsets_only(latest.join(with_records, "group", "left_anti")))


def _offsets_only(latest: DataFrame) -> DataFrame:
    return (
        latest.groupBy("group")
        .agg(F.max("record_ts").alias("record_ts"), F.max("log_offset").alias("log_offset"))
        .select(
            "group",
            F.lit("classic").alias("type"),
            F.lit(0).alias("generation"),
            F.lit(None).cast("string").alias("protocol"),
            F.lit(0).alias("members"),
            F.lit(None).cast("bigint").alias("empty_since"),
            "record_ts",
            "log_offset",
        )
    )


def _epoch_state(new: DataFrame) -> DataFrame:
    """Return the groups whose epoch record stands, with the members whose metadata has not been removed."""
    last = Window.partitionBy("group", "type", "member_id").orderBy(F.desc("log_offset"))
    standing = new.withColumn("_nth", F.row_number().over(last)).where("_nth = 1 and not is_tombstone")
    standing = standing.withColumn("kind", _by_type(0)).withColumn("role", _by_type(1))
    members = (
        standing.where(F.col("role") == Role.MEMBER).groupBy("group", "kind")
        .agg(F.count("*").cast("int").alias("members"))
    )  # fmt: skip
    groups = standing.where(F.col("role") == Role.EPOCH).join(members, ["group", "kind"], "left")
    return groups.select(
        "group",
        F.col("kind").alias("type"),
        F.col("epoch").alias("generation"),
        F.lit(None).cast("string").alias("protocol"),
        F.coalesce("members", F.lit(0)).alias("members"),
        F.when(F.col("members").isNull(), F.col("record_ts")).alias("empty_since"),
        "record_ts",
        "log_offset",
    )


def _by_type(index: int) -> Column:
    """Return the kind of groups (0), or what a record says (1), by the name of its type."""
    names = ((f"{kind.capitalize()}Group{role}", (kind, role)) for kind, role in OF_EPOCHS.values())
    pairs = chain.from_iterable((F.lit(name), F.lit(str(parts[index]))) for name, parts in names)
    return F.create_map(*pairs)[F.col("type")]
