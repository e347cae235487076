"""What a log says, record by record (L-001 to L-007, R-011, R-014, R-022)."""

from collections.abc import Iterator

import pytest

from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.states import State
from coordinator.core.limits import Limits
from coordinator.core.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupMetadataValueMember,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    UnknownKey,
)
from coordinator.core.shard import Shard
from coordinator.core.topics import NO_ID, Topic, Topics

MEMBER = GroupMetadataValueMember("m", None, "c", "/h", -1, 45_000, b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff", b"x")
STABLE = GroupMetadataValue("consumer", 3, "range", "m", 17, (MEMBER,))


def shard(*records: Record) -> Shard:
    made = Shard(0, Limits(), Topics())
    for record in records:
        made.replay(record)
    return made


def group(made: Shard, group_id: str = "g") -> ClassicGroup:
    found = made.groups[group_id]
    assert isinstance(found, ClassicGroup)
    return found


@pytest.mark.rule("L-002")
def test_later_records_win_and_tombstones_remove() -> None:
    key = OffsetCommitKey("g", "t", 0)
    made = shard(Record(key, OffsetCommitValue(1)), Record(key, OffsetCommitValue(2)))
    assert made.offsets.get("g", "t", 0) == OffsetCommitValue(2)
    made.replay(Record(key, None))
    assert made.offsets.get("g", "t", 0) is None
    assert made.offsets.count == 0


@pytest.mark.rule("L-006 L-008 R-022")
def test_a_group_with_members_is_stable() -> None:
    """It rebalances within its session timeout if nothing else was written."""
    found = group(shard(Record(GroupMetadataKey("g"), STABLE)))
    assert (found.state, found.generation, found.leader, found.topics) == (State.STABLE, 3, "m", frozenset())
    member = found.members["m"]
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (45_000, 45_000)
    assert member.protocols == (("range", MEMBER.subscription),)


@pytest.mark.rule("L-006")
def test_a_group_without_members_is_empty() -> None:
    """Of no type if none was written, and since nobody knows when in a record of version 0."""
    found = group(shard(Record(GroupMetadataKey("g"), GroupMetadataValue(generation=4))))
    assert (found.state, found.generation, found.protocol_type, found.state_since_ms) == (State.EMPTY, 4, None, -1)


@pytest.mark.rule("L-007 R-023")
def test_a_tombstone_of_a_group_leaves_its_offsets() -> None:
    """They have tombstones of their own."""
    offset = Record(OffsetCommitKey("g", "t", 0), OffsetCommitValue(1))
    made = shard(offset, Record(GroupMetadataKey("g"), STABLE), Record(GroupMetadataKey("g"), None))
    assert "g" not in made.groups
    assert made.offsets.get("g", "t", 0) == OffsetCommitValue(1)


@pytest.mark.rule("L-005 C-007")
def test_an_offset_makes_its_group() -> None:
    """L-005, C-007; a tombstone makes none, nor one of a group that never was."""
    made = shard(Record(OffsetCommitKey("g", "t", 0), OffsetCommitValue(1)), Record(OffsetCommitKey("h", "t", 0), None))
    assert list(made.groups) == ["g"]
    made.replay(Record(GroupMetadataKey("i"), None))
    assert list(made.groups) == ["g"]


@pytest.mark.rule("R-004 K-345")
def test_what_nobody_knows_is_skipped() -> None:
    assert not shard(Record(UnknownKey(11, b"x"), b"y"), Record(UnknownKey(11, b"x"), None)).groups


@pytest.mark.rule("R-011 R-014")
def test_what_an_old_value_does_not_say() -> None:
    """No leader epoch, no expiry."""
    value = OffsetCommitValue(1, metadata="m", commit_timestamp=5)
    assert (value.leader_epoch, value.expire_timestamp) == (-1, -1)


@pytest.mark.rule("L-009 L-001 K-390")
def test_sessions_run_from_the_end_of_loading() -> None:
    """Nothing runs before."""
    made = shard(Record(GroupMetadataKey("g"), STABLE))
    assert made.next_deadline_ms() is None
    made.finish_loading(1_000)
    assert made.next_deadline_ms() == 46_000


def test_a_change_of_topics_costs_what_has_changed() -> None:
    """A shard is told which topics are gone, and does not compare all that exist."""

    class Uncounted(Topics):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("a walk over all topics")

    made = shard(Record(OffsetCommitKey("h", "t", 0), OffsetCommitValue(1)))
    made.topics = Uncounted()
    assert not any(made.forget_topics({"u": [NO_ID]}, 0))
    (results,) = [results for results in made.forget_topics({"t": [NO_ID]}, 0) if results]
    assert results[0].records == (Record(OffsetCommitKey("h", "t", 0), None),)


def test_offsets_of_a_deleted_topic_go_in_steps_and_those_of_the_new_one_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is created again between two steps, and a group commits to it."""
    monkeypatch.setattr("coordinator.core.cleanup.TOMBSTONES_A_STEP", 2)
    old, new = bytes(15) + b"\1", bytes(15) + b"\2"
    keys = [OffsetCommitKey("g", "t", index) for index in range(5)]
    made = shard(*[Record(key, OffsetCommitValue(1, topic_id=old)) for key in keys])
    steps = made.forget_topics({"t": [old]}, 0)
    assert [record.key for record in next(steps)[0].records] == keys[:2]
    made.topics = Topics([Topic("t", new, 5)])
    for key in (keys[0], keys[3]):
        made.replay(Record(key, OffsetCommitValue(7, topic_id=new)))
    removed = [record.key for results in steps for result in results for record in result.records]
    assert removed == [keys[2], keys[4]]
    assert {at: one.offset for at, one in made.offsets.of_topic("g", "t").items()} == {0: 7, 3: 7}
