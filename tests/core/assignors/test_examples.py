"""The assignors on examples small enough to follow by hand."""

import pytest

from coordinator.core.assignors import BUILT_IN
from coordinator.core.assignors.hash_order import buckets_after_copy, buckets_after_inserts, string_hash, uuid_hash
from coordinator.core.assignors.spec import GroupSpec, MemberSpec
from coordinator.core.kinds.modern.target import existing_partitions

T1, T2 = b"\x01" * 16, b"\x02" * 16


@pytest.mark.rule("K-199 K-195 K-198")
def test_range_splits_two_topics_alike_and_reshares_for_a_third_member() -> None:
    """With more members than partitions the last go without."""
    spec = GroupSpec({"a": MemberSpec((T1, T2)), "b": MemberSpec((T1, T2))}, {T1: 3, T2: 3}, True)
    assert BUILT_IN["range"](spec) == {"a": {T1: (0, 1), T2: (0, 1)}, "b": {T1: (2,), T2: (2,)}}
    members = {m: MemberSpec((T1, T2)) for m in "dabc"}
    three = GroupSpec({m: members[m] for m in "abc"}, {T1: 3, T2: 3}, True)
    assert BUILT_IN["range"](three) == {m: {T1: (i,), T2: (i,)} for i, m in enumerate("abc")}
    assert BUILT_IN["range"](GroupSpec(members, {T1: 3, T2: 3}, True))["d"] == {}


def test_range_puts_static_members_first() -> None:
    """T-25."""
    spec = GroupSpec({"a": MemberSpec((T1,)), "b": MemberSpec((T1,), instance_id="1")}, {T1: 3}, True)
    assert BUILT_IN["range"](spec) == {"b": {T1: (0, 1)}, "a": {T1: (2,)}}


@pytest.mark.rule("K-204")
def test_uniform_takes_for_a_newcomer_just_its_share() -> None:
    """T-24 and K-204: the newcomer's two partitions move, and none between the others."""
    had = {"a": (0, 1, 2), "b": (3, 4, 5), "c": (6, 7, 8)}
    members = {m: MemberSpec((T1,), {T1: partitions}) for m, partitions in had.items()} | {"d": MemberSpec((T1,))}
    owned = BUILT_IN["uniform"](GroupSpec(members, {T1: 9}, True))
    assert sorted(len(owned[m][T1]) for m in owned) == [2, 2, 2, 3]
    assert len(owned["d"][T1]) == 2
    assert all(set(owned[m][T1]) <= set(had[m]) for m in had)


@pytest.mark.rule("K-204")
def test_uniform_gives_the_first_member_everything_and_the_second_half() -> None:
    """Of five partitions a second member gets two."""
    alone = BUILT_IN["uniform"](GroupSpec({"a": MemberSpec((T1,))}, {T1: 5}, True))
    assert alone == {"a": {T1: (0, 1, 2, 3, 4)}}
    both = {"a": MemberSpec((T1,), alone["a"]), "b": MemberSpec((T1,))}
    assert {m: len(a[T1]) for m, a in BUILT_IN["uniform"](GroupSpec(both, {T1: 5}, True)).items()} == {"a": 3, "b": 2}


@pytest.mark.rule("K-207 K-208 K-210")
def test_uniform_with_overlapping_subscriptions() -> None:
    """T-26, K-207, K-208; K-210: the group's subscription type decides the way, not the members."""
    members = {"m1": MemberSpec((T1,)), "m2": MemberSpec((T1, T2)), "m3": MemberSpec((T2,))}
    owned = BUILT_IN["uniform"](GroupSpec(members, {T1: 6, T2: 6}, False))
    loads = {m: sum(map(len, a.values())) for m, a in owned.items()}
    assert sum(loads.values()) == 12
    assert abs(loads["m1"] - loads["m2"]) <= 1 and abs(loads["m2"] - loads["m3"]) <= 1
    again = {m: MemberSpec(s.topics, owned[m]) for m, s in members.items()}
    assert BUILT_IN["uniform"](GroupSpec(again, {T1: 6, T2: 6}, False)) == owned


def test_uniform_keeps_unchanged_members_as_they_are() -> None:
    """What does not change is the same object, so that finding what changed costs nothing."""
    for alike in (True, False):
        members = {"a": MemberSpec((T1,), {T1: (0, 1)}), "b": MemberSpec((T1,), {T1: (2, 3)})}
        owned = BUILT_IN["uniform"](GroupSpec(members, {T1: 4}, alike))
        assert all(owned[m] is members[m].previous for m in members)


@pytest.mark.rule("K-201 K-203")
def test_uniform_drops_topics_that_nobody_wants_any_more() -> None:
    """K-201: an unsubscribed topic is nobody's; K-203: only totals are balanced."""
    members = {"a": MemberSpec((T1,), {T1: (0,), T2: (0, 1)}), "b": MemberSpec((T1,), {T1: (1,)})}
    owned = BUILT_IN["uniform"](GroupSpec(members, {T1: 2}, True))
    assert owned == {"a": {T1: (0,)}, "b": {T1: (1,)}}


def test_hashes_are_java_s() -> None:
    """`"".hashCode()`, `"a".hashCode()`, `"Aa".hashCode() == "BB".hashCode()`, a surrogate pair, and a long string."""
    assert string_hash("") == 0 and string_hash("a") == 97
    assert string_hash("Aa") == string_hash("BB") == 2112
    assert string_hash("\U0001f600") == (lambda h: h ^ h >> 16)((0xD83D * 31 + 0xDE00) & 0xFFFFFFFF)
    plain = 0
    for _ in range(300):
        plain = (plain * 31 + 120) & 0xFFFFFFFF
    assert string_hash("x" * 300) == plain ^ plain >> 16
    assert uuid_hash(bytes(15) + b"\x05") == 5
    assert [buckets_after_inserts(n) for n in (0, 12, 13, 24, 25)] == [16, 16, 32, 32, 64]
    assert [buckets_after_copy(n) for n in (0, 11, 12, 23, 24)] == [16, 16, 32, 32, 64]


def test_a_partition_that_is_no_more_is_not_in_the_question() -> None:
    """A power cut without --fsync may take back that a topic has grown, and keep the target of its partitions."""
    assert existing_partitions({T1: (0, 3), T2: (5,)}, {T1: 3, T2: 5}) == {T1: (0,)}
    whole = {T1: (0, 2)}
    assert existing_partitions(whole, {T1: 3}) is whole
