"""Replay: each record makes what it says, tombstones of nothing are nothing, and contradictions are damage."""

from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.core import records as r
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.consumer import record_builders
from coordinator.core.kinds.consumer.group import ClassicMetadata, ConsumerGroup, Member, Metadata, ResolvedRegex
from coordinator.core.kinds.consumer.owners import holders
from coordinator.core.kinds.consumer.replay import apply_record
from coordinator.core.kinds.consumer.states import MemberState
from coordinator.core.kinds.kind import Inconsistent
from coordinator.core.limits import Limits
from coordinator.core.shard import Shard
from coordinator.core.topics import Topics

T = b"t" * 16
ENTRY = r.ConsumerGroupCurrentMemberAssignmentValueTopicPartitions


def made(*written: r.Record, group: ConsumerGroup | None = None) -> ConsumerGroup | None:
    for record in written:
        group = apply_record(group, record)
    return group


def member(member_id: str, epoch: int, *partitions: int, **fields: Any) -> Member:
    assigned = {T: dict.fromkeys(partitions, epoch)} if partitions else {}
    return Member(member_id, Metadata(subscribed_topic_regex=""), epoch, epoch - 1, assigned=assigned, **fields)


@pytest.mark.rule("K-355 K-356 K-031")
@pytest.mark.parametrize(
    "record",
    [
        record_builders.epoch("g", 7, 1),
        record_builders.member("g", "m", Metadata()),
        record_builders.target_epoch("g", 7, 5),
        record_builders.target("g", "m", {T: (1,)}),
        record_builders.current("g", member("m", 7, 1)),
        record_builders.pattern("g", "x", ResolvedRegex(frozenset("t"), 1, 2)),
        r.Record(r.ConsumerGroupPartitionMetadataKey("g"), r.ConsumerGroupPartitionMetadataValue()),
    ],
    ids=lambda record: type(record.key).__name__,
)
def test_any_value_creates_the_group_and_no_tombstone_does(record: r.Record) -> None:
    """A group begins at epoch 1."""
    group = made(record)
    assert group is not None and group.group_id == "g" and group.epoch in (1, 7)
    assert apply_record(None, r.Record(record.key, None)) is None


@pytest.mark.rule("K-357 K-359 K-360 K-361 K-362 K-363 K-352")
def test_values_are_kept_as_they_are_written() -> None:
    """A target of nothing is a target."""
    group = made(
        record_builders.member(
            "g", "m", Metadata(instance_id="i", subscribed_topic_names=("a", "b"), server_assignor="range")
        ),
        record_builders.epoch("g", 9, 42),
        record_builders.target("g", "m", {T: (0, 2)}),
        record_builders.target("g", "n", {}),
        record_builders.target_epoch("g", 8, 1234),
        record_builders.current("g", member("m", 8, 0, 2)),
        record_builders.pattern("g", "x", ResolvedRegex(frozenset({"a"}), 3, 4)),
    )
    assert group is not None
    assert (group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_at_ms) == (9, 42, 8, 1234)
    assert group.target("m") == {T: (0, 2)} and group.target("n") == {} and "n" in group.targets
    assert group.members["m"].assigned == {T: {0: 8, 2: 8}} and holders(group.owners) == {(T, 0): 8, (T, 2): 8}
    assert (group.names, group.votes) == ({"a": 1, "b": 1}, {"range": 1}) and group.by_instance("i") is not None
    assert group.topics_matching("x") == {"a"} and group.state == "Assigning"


@pytest.mark.rule("K-359 K-362")
def test_a_record_5_leaves_epochs_alone_and_a_record_8_the_rest() -> None:
    """K-359, K-362, in either order: compaction may turn them round."""
    five, eight = (
        record_builders.member("g", "m", Metadata(rack_id="r", subscribed_topic_regex="")),
        record_builders.current("g", member("m", 3, 1)),
    )
    one, two = made(five, eight), made(eight, five)
    assert one is not None and two is not None and one.members["m"] == two.members["m"]


@pytest.mark.rule("K-140 K-350")
def test_assignment_epochs_that_are_missing_are_the_member_s() -> None:
    """Absent, or as many as there are not; and never below 0."""
    for epochs, epoch, expected in ((None, 4, 4), ((1,), 4, 4), (None, -2, 0), ((1, 2), 4, None)):
        value = r.ConsumerGroupCurrentMemberAssignmentValue(epoch, 3, 0, (ENTRY(T, (0, 1), epochs),), ())
        group = made(r.Record(r.ConsumerGroupCurrentMemberAssignmentKey("g", "m"), value))
        assert group is not None
        wanted = {0: 1, 1: 2} if expected is None else {0: expected, 1: expected}
        assert group.members["m"].assigned == {T: wanted}


@pytest.mark.rule("K-362")
def test_a_state_of_a_later_kafka_is_unknown() -> None:
    value = r.ConsumerGroupCurrentMemberAssignmentValue(2, 1, 55, (), ())
    group = made(r.Record(r.ConsumerGroupCurrentMemberAssignmentKey("g", "m"), value))
    assert group is not None and group.members["m"].state is MemberState.UNKNOWN


@pytest.mark.rule("K-357 K-359 K-360 K-176")
@pytest.mark.parametrize(
    "last",
    [record_builders.no_member("g", "m"), record_builders.no_target_epoch("g"), record_builders.no_epoch("g")],
    ids=["5t before 8t", "6t before 7t", "3t before the rest"],
)
def test_tombstones_out_of_order_are_damage(last: r.Record) -> None:
    group = made(record_builders.current("g", member("m", 2)), record_builders.target("g", "m", {}))
    with pytest.raises(Inconsistent):
        made(last, group=group)


@pytest.mark.rule("K-359")
def test_a_member_is_not_deleted_before_its_target() -> None:
    group = made(
        record_builders.current("g", member("m", 2)),
        record_builders.target("g", "m", {}),
        record_builders.no_current("g", "m"),
    )
    with pytest.raises(Inconsistent):
        made(record_builders.no_member("g", "m"), group=group)
    assert made(record_builders.no_target("g", "m"), record_builders.no_member("g", "m"), group=group) is not None


@pytest.mark.rule("K-142 K-143")
def test_two_owners_at_one_epoch_are_damage_and_a_later_one_takes_over() -> None:
    """Compaction may have dropped the record in which the first let go."""
    group = made(record_builders.current("g", member("a", 4, 0)))
    with pytest.raises(Inconsistent):
        made(record_builders.current("g", member("b", 4, 0)), group=group)
    later = made(record_builders.current("g", member("b", 5, 0)), group=group)
    assert later is not None and holders(later.owners) == {(T, 0): 5}
    assert holders(made(record_builders.current("g", member("a", 6)), group=later).owners) == {(T, 0): 5}


@pytest.mark.rule("K-136")
def test_a_member_may_be_away_with_what_it_owns() -> None:
    """Its epoch of -2 holds."""
    group = made(record_builders.current("g", member("a", 4, 0)))
    assert group is not None
    away = replace(group.members["a"], epoch=-2)
    after = made(record_builders.current("g", away), group=group)
    assert after is not None and holders(after.owners) == {(T, 0): -2}


@pytest.mark.rule("K-355 K-364")
def test_a_group_of_offsets_alone_gives_way_and_no_other_classic_group_does() -> None:
    shard = Shard(0, Limits(), Topics())
    offset = r.Record(r.OffsetCommitKey("g", "t", 0), r.OffsetCommitValue(1))
    shard.replay(offset)
    shard.replay(record_builders.no_epoch("g"))
    shard.replay(record_builders.epoch("g", 3, 0))
    assert isinstance(shard.groups["g"], ConsumerGroup) and shard.offsets.get("g", "t", 0) is not None
    shard.replay(r.Record(r.GroupMetadataKey("h"), r.GroupMetadataValue(protocol_type="consumer", generation=1)))
    assert isinstance(shard.groups["h"], ClassicGroup)
    with pytest.raises(Inconsistent):
        shard.replay(record_builders.epoch("h", 3, 0))
    shard.replay(r.Record(r.GroupMetadataKey("h"), None))
    shard.replay(record_builders.epoch("h", 3, 0))
    shard.replay(record_builders.no_target_epoch("h"))
    shard.replay(record_builders.no_epoch("h"))
    assert "h" not in shard.groups


@pytest.mark.rule("K-367 K-174 K-171")
def test_replay_arms_no_timer_and_loading_arms_them_all() -> None:
    """A classic member that has something to give up gets a rebalance timer here alone."""
    shard = Shard(0, Limits(), Topics())
    shard.replay(record_builders.member("g", "m", Metadata(rebalance_timeout_ms=7_000)))
    owing = replace(member("m", 2, 0), state=MemberState.UNREVOKED_PARTITIONS, pending={T: {1: 2}})
    shard.replay(record_builders.current("g", owing))
    assert shard.next_deadline_ms() is None
    shard.finish_loading(1_000)
    assert dict(shard.timers.items())[("session", "g", "m")] == 46_000
    assert dict(shard.timers.items())[("rebalance", "g", "m")] == 8_000


@pytest.mark.rule("K-344 K-349 K-351 K-353")
def test_records_are_written_in_one_form() -> None:
    """What is written reads back the same; names sorted, topics without partitions left out."""
    classic = ClassicMetadata(9, (r.ConsumerGroupMemberMetadataValueClassicProtocol("range", b"x"),))
    owing = replace(member("m", 3, 0), state=MemberState.UNREVOKED_PARTITIONS, pending={T: {1: 2}})
    written = [
        record_builders.epoch("g", 3, -5),
        record_builders.member("g", "m", Metadata("i", "r", "c", "/h", ("a", "b"), "x.*", 10, "range", classic)),
        record_builders.target("g", "m", {T: (0, 1)}),
        record_builders.current("g", owing),
        record_builders.pattern("g", "x", ResolvedRegex(frozenset({"b", "a"}), 1, 2)),
        record_builders.target_epoch("g", 7, 5),
        record_builders.no_member("g", "m"),
    ]
    for record in written:
        assert r.decode(*r.encode(record)) == record
    assert written[4].value.topics == ("a", "b")
    assert record_builders.current("g", member("m", 3)).value.assigned_partitions == ()
