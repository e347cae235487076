"""Rebalances and why they happened, as far as a log can tell.

The log keeps what a classic group became, not what made it move, so causes are inferred from two neighbouring records:

    tombstone                                        deleted
    nobody left                                      emptied
    an instance id under a new member id             static_rejoin
    a member that was not there                      join
    a member that is gone                            leave, timeout, or leave_or_timeout when its commits do not tell
    another protocol chosen                          assignor_change
    same members, other subscriptions                subscription_change
    same members and subscriptions, other partitions partition_count_change
    none of these                                    unknown

Several may hold at once; `causes` has them all and `cause` the first. What no log can show is when a rebalance began:
`sync_ms` is exact, and `commit_gap_ms`, from the last commit before to the first one after, is the outage as seen from
outside. Where the server's event log was handed in, its causes replace the inferred ones, and `cause_source` says so.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

SILENT = 0.9  # of the session timeout without a commit, before leaving: then the member did not say goodbye


def with_previous(metadata: DataFrame) -> DataFrame:
    """Each record of a classic group beside the one before it, with who came, who went and what changed."""
    order = Window.partitionBy("group").orderBy("log_offset")
    fresh = F.coalesce(F.lag("is_tombstone").over(order), F.lit(True))  # nothing before, or a deleted group
    none = F.slice("members", 1, 0)
    before = F.when(fresh, none).otherwise(F.lag("members").over(order))
    paired = (
        metadata.withColumn("before", before)
        .withColumn("protocol_before", F.lag("protocol").over(order))
        .withColumn("generation_before", F.when(~fresh, F.lag("generation").over(order)))
        .withColumn("known_before", ~fresh)
        .withColumn("formed_ts", _formed(order))
    )
    ids, ids_before = _ids("members"), _ids("before")
    replaced = F.filter("members", lambda now: _replaced(now))
    return (
        paired.withColumn("replaced", F.transform(replaced, lambda member: member["group_instance_id"]))
        .withColumn(
            "joined", F.array_except(ids, F.array_union(ids_before, F.transform(replaced, lambda m: m["member_id"])))
        )
        .withColumn("gone", F.array_except(ids_before, ids))
        .withColumn(
            "left",
            F.transform(
                F.filter(
                    "before",
                    lambda was: (
                        F.array_contains(F.col("gone"), was["member_id"])
                        & ~F.coalesce(F.array_contains(F.col("replaced"), was["group_instance_id"]), F.lit(False))
                    ),
                ),
                lambda was: was["member_id"],
            ),
        )
    )


def _formed(order: WindowSpec) -> Column:
    """When the generation before was formed: all of its members were there then."""
    anew = F.coalesce(F.col("generation") != F.lag("generation").over(order), F.lit(True))
    formed = F.when(anew, F.col("record_ts"))
    return F.last(formed, ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, -1))


def _ids(members: str) -> Column:
    return F.transform(members, lambda member: member["member_id"])


def _replaced(now: Column) -> Column:
    """Whether this member's instance id was there before under another member id."""
    return F.exists(
        "before",
        lambda was: (
            now["group_instance_id"].isNotNull()
            & (was["group_instance_id"] == now["group_instance_id"])
            & (was["member_id"] != now["member_id"])
        ),
    )


def _subscriptions(members: str) -> Column:
    return F.array_sort(
        F.transform(members, lambda member: F.concat_ws("=", member["member_id"], member["subscription"]))
    )


def _assigned(members: str) -> Column:
    """topic-partition of all that is assigned to anyone, as one sorted array."""
    each = F.transform(
        members,
        lambda member: F.flatten(
            F.transform(
                F.map_entries(member["assignment"]),
                lambda one: F.transform(
                    one["value"], lambda number: F.concat_ws("-", one["key"], number.cast("string"))
                ),
            )
        ),
    )
    return F.array_sort(F.flatten(each))


def silences(pairs: DataFrame, commits: DataFrame) -> DataFrame:
    """(group, log_offset, member_id, timed_out) of members that left, as far as the log tells how.

    A member that gave a sign of life within its session did not time out: a commit of one of its partitions, or that
    the generation was formed. One that owned partitions and gave none for a session did. Of others nothing is known.
    """
    leaving = pairs.where(F.size("left") > 0).select(
        "group",
        F.col("log_offset").alias("at_offset"),
        F.coalesce("state_ts", "record_ts").alias("at_ts"),
        "formed_ts",
        F.explode(F.filter("before", lambda was: F.array_contains(F.col("left"), was["member_id"]))).alias("member"),
    )
    owned = leaving.select(
        "group", "at_offset", "at_ts", "formed_ts", "member.member_id", "member.session_timeout",
        F.explode_outer("member.assignment").alias("topic", "partitions"),
    ).withColumn("partition", F.explode_outer("partitions"))  # fmt: skip
    seen = commits.where("effective and not is_tombstone").select(
        "group", "topic", "partition", F.col("log_offset").alias("commit_offset"), "record_ts"
    )
    mine = ["group", "topic", "partition"]
    joined = owned.join(seen, mine, "left")
    before = F.when(F.col("commit_offset") < F.col("at_offset"), F.col("record_ts"))
    last = joined.groupBy("group", "at_offset", "member_id", "at_ts", "formed_ts", "session_timeout").agg(
        F.max(before).alias("last_commit")
    )
    silence = F.col("at_ts") - F.greatest("last_commit", "formed_ts")
    silent = silence >= SILENT * F.col("session_timeout")
    told = last.withColumn("timed_out", silent).where("last_commit is not null or not timed_out")
    return told.select("group", F.col("at_offset").alias("log_offset"), "member_id", "timed_out")


def _leaving_causes(pairs: DataFrame, commits: DataFrame) -> DataFrame:
    """(group, log_offset, how): the ways in which members left, at most one row a rebalance."""
    known = (
        silences(pairs, commits)
        .groupBy("group", "log_offset")
        .agg(
            F.max("timed_out").alias("any_timeout"),
            F.min("timed_out").alias("all_timeout"),
            F.count("*").alias("known"),
        )
    )
    number = F.size("left")
    how = F.filter(
        F.array(
            F.when(~F.coalesce("all_timeout", F.lit(True)), "leave"),
            F.when(F.coalesce("any_timeout", F.lit(False)), "timeout"),
            F.when(F.coalesce("known", F.lit(0)) < number, "leave_or_timeout"),
        ),
        lambda one: one.isNotNull(),
    )
    left = pairs.where(number > 0).join(known, ["group", "log_offset"], "left")
    return left.select("group", "log_offset", how.alias("how"))


def classic_causes(pairs: DataFrame, commits: DataFrame) -> DataFrame:
    """Adds `causes`, as in the table above."""
    same = (F.size("joined") == 0) & (F.size("gone") == 0)
    other_subscriptions = same & (_subscriptions("members") != _subscriptions("before"))
    other_partitions = same & ~other_subscriptions & (_assigned("members") != _assigned("before"))
    both = F.col("known_before") & (F.size("members") > 0) & (F.size("before") > 0)
    other_protocol = both & (F.coalesce("protocol", F.lit("")) != F.coalesce("protocol_before", F.lit("")))
    how = F.coalesce("how", F.array().cast("array<string>"))
    emptied = F.when(F.size("members") == 0, F.array(F.lit("emptied"))).otherwise(F.array().cast("array<string>"))
    found = F.filter(
        F.array(
            F.when(F.size("joined") > 0, "join"),
            F.when(F.size("replaced") > 0, "static_rejoin"),
            F.when(other_protocol, "assignor_change"),
            F.when(both & other_subscriptions, "subscription_change"),
            F.when(both & other_partitions, "partition_count_change"),
        ),
        lambda one: one.isNotNull(),
    )
    every = F.concat(emptied, how, found)
    causes = F.when(F.col("is_tombstone"), F.array(F.lit("deleted"))).when(F.size(every) > 0, every)
    ways = _leaving_causes(pairs, commits)
    joined = pairs.join(ways, ["group", "log_offset"], "left")
    return joined.withColumn("causes", F.coalesce(causes, F.array(F.lit("unknown")))).drop("how")


def gaps(rebalances: DataFrame, commits: DataFrame) -> DataFrame:
    """(group, log_offset, commit_gap_ms): from a group's last commit before a rebalance to its first one after."""
    none = F.lit(None).cast("bigint")
    marks = rebalances.select("group", "log_offset", none.alias("ts"), F.lit(True).alias("mark"))
    beats = commits.where("effective and not is_tombstone").select(
        "group", "log_offset", F.col("record_ts").alias("ts"), F.lit(False).alias("mark")
    )
    order = Window.partitionBy("group").orderBy("log_offset")
    before = F.last("ts", ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, -1))
    after = F.first("ts", ignorenulls=True).over(order.rowsBetween(1, Window.unboundedFollowing))
    gap = marks.unionByName(beats).withColumn("commit_gap_ms", after - before)
    return gap.where("mark").select("group", "log_offset", "commit_gap_ms")


def classic(metadata: DataFrame, commits: DataFrame, moves: DataFrame) -> DataFrame:
    """The rebalances of classic groups. A record of the same generation with the same members is none, nor is the
    first word about a group that nobody has joined yet."""
    pairs = with_previous(metadata).where("is_tombstone or known_before or size(members) > 0")
    changed = (
        F.col("is_tombstone")
        | F.col("generation_before").isNull()
        | (F.col("generation") != F.col("generation_before"))
        | (F.size("joined") + F.size("gone") > 0)
    )
    found = classic_causes(pairs.where(changed), commits)
    moved = moves.groupBy("group", "log_offset").agg(
        F.sum(F.when(F.col("kind") != "kept", 1).otherwise(0)).cast("int").alias("partitions_moved")
    )
    return (
        found.join(gaps(found, commits), ["group", "log_offset"], "left")
        .join(moved, ["group", "log_offset"], "left")
        .select(
            "group",
            F.lit("classic").alias("type"),
            "generation",
            F.col("record_ts").alias("at_ms"),
            "log_offset",
            F.element_at("causes", 1).alias("cause"),
            "causes",
            _detail().alias("cause_detail"),
            F.lit("inferred").alias("cause_source"),
            F.size("before").alias("members_before"),
            F.size("members").alias("members_after"),
            "joined",
            "left",
            "sync_ms",
            "commit_gap_ms",
            F.lit(None).cast("bigint").alias("epoch_settle_ms"),
            "partitions_moved",
        )
    )


def _detail() -> Column:
    said = F.array(
        F.when(F.size("joined") > 0, F.concat(F.lit("joined: "), F.array_join("joined", ", "))),
        F.when(F.size("left") > 0, F.concat(F.lit("gone: "), F.array_join("left", ", "))),
        F.when(F.size("replaced") > 0, F.concat(F.lit("returned: "), F.array_join("replaced", ", "))),
    )
    return F.array_join(F.filter(said, lambda one: one.isNotNull()), "; ")


def consumer(new: DataFrame, commits: DataFrame) -> DataFrame:
    """The epochs of consumer groups (KIP-848): what was written since the epoch before says why.

    `epoch_settle_ms` is from the target assignment of the epoch to the last member that reached it.
    """
    order = Window.partitionBy("group").orderBy("log_offset")
    bump = (F.col("type") == "ConsumerGroupMetadata").cast("int")
    part = F.coalesce(F.sum(bump).over(order.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    of_member = Window.partitionBy("group", "type", "member_id").orderBy("log_offset")
    marked = (
        new.withColumn("part", part)
        .withColumn("was_there", F.coalesce(~F.lag("is_tombstone").over(of_member), F.lit(False)))
        .withColumn("instance", F.get_json_object("payload", "$.instance_id"))
    )
    member = F.col("type") == "ConsumerGroupMemberMetadata"
    came = marked.groupBy("group", "part").agg(
        F.sort_array(
            F.collect_set(F.when(member & ~F.col("is_tombstone") & ~F.col("was_there"), F.col("member_id")))
        ).alias("new"),
        F.sort_array(
            F.collect_set(F.when(member & F.col("is_tombstone") & F.col("was_there"), F.col("member_id")))
        ).alias("lost"),
        F.max(member & ~F.col("is_tombstone") & F.col("was_there")).alias("changed"),
    )
    epochs = marked.where(F.col("type") == "ConsumerGroupMetadata").join(came, ["group", "part"])
    count = F.sum(F.size("new") - F.size("lost")).over(order.rowsBetween(Window.unboundedPreceding, 0))
    causes = F.filter(
        F.array(
            F.when(F.col("is_tombstone"), "deleted"),
            F.when(~F.col("is_tombstone") & (F.size("lost") > 0), "leave_or_timeout"),
            F.when(F.size("new") > 0, "join"),
            F.when(F.col("changed") & (F.size("new") + F.size("lost") == 0), "subscription_change"),
            F.when(
                ~F.col("is_tombstone") & ~F.col("changed") & (F.size("new") + F.size("lost") == 0),
                "partition_count_change",
            ),
        ),
        lambda one: one.isNotNull(),
    )
    named = epochs.withColumn("members_after", count.cast("int")).withColumn("causes", causes)
    return (
        named.join(gaps(named, commits), ["group", "log_offset"], "left")
        .join(settling(new), ["group", "epoch"], "left")
        .select(
            "group",
            F.lit("consumer").alias("type"),
            F.col("epoch").alias("generation"),
            F.col("record_ts").alias("at_ms"),
            "log_offset",
            F.coalesce(F.get("causes", F.lit(0)), F.lit("unknown")).alias("cause"),
            "causes",
            F.concat_ws(
                "; ",
                F.when(F.size("new") > 0, F.concat(F.lit("joined: "), F.array_join("new", ", "))),
                F.when(F.size("lost") > 0, F.concat(F.lit("gone: "), F.array_join("lost", ", "))),
            ).alias("cause_detail"),
            F.lit("inferred").alias("cause_source"),
            (F.col("members_after") - F.size("new") + F.size("lost")).alias("members_before"),
            "members_after",
            F.col("new").alias("joined"),
            F.col("lost").alias("left"),
            F.lit(None).cast("bigint").alias("sync_ms"),
            "commit_gap_ms",
            "epoch_settle_ms",
            F.lit(None).cast("int").alias("partitions_moved"),
        )
    )


def settling(new: DataFrame) -> DataFrame:
    """(group, epoch, epoch_settle_ms): from a target assignment to the last member that took it on."""
    target = (
        new.where("type = 'ConsumerGroupTargetAssignmentMetadata' and not is_tombstone")
        .groupBy("group", "epoch")
        .agg(F.min("record_ts").alias("from_ts"))
    )
    reached = (
        new.where("type = 'ConsumerGroupCurrentMemberAssignment' and not is_tombstone")
        .groupBy("group", "epoch")
        .agg(F.max("record_ts").alias("to_ts"))
    )
    return target.join(reached, ["group", "epoch"]).select(
        "group", "epoch", F.greatest(F.lit(0), F.col("to_ts") - F.col("from_ts")).alias("epoch_settle_ms")
    )
