"""What subscriptions come to: the hash of the topics, and when a group is homogeneous."""

from typing import ClassVar

import pytest
from msgspec.structs import replace

from coordinator.core.kinds.consumer.group import ConsumerGroup, Member, Metadata, ResolvedRegex
from coordinator.core.kinds.consumer.patterns import may_refresh
from coordinator.core.kinds.consumer.subscription import is_homogeneous
from coordinator.core.kinds.modern.epochs import is_target_due
from coordinator.core.kinds.modern.topics import existing_topics, have_topics_changed, is_subscribed, metadata_hash
from coordinator.core.topics import Topic, Topics

A, B = Topic("a", b"a" * 16, 1), Topic("b", b"b" * 16, 2)


def group(*subscriptions: tuple[tuple[str, ...], str]) -> ConsumerGroup:
    made = ConsumerGroup("g")
    for number, (names, pattern) in enumerate(subscriptions):
        made = made.with_member(
            Member(f"m{number}", Metadata(subscribed_topic_names=names, subscribed_topic_regex=pattern))
        )
    return made


@pytest.mark.rule("K-102 K-103 K-354")
def test_the_hash_changes_with_whatever_a_topic_is() -> None:
    """0 without topics; the id, the name, the partitions count; others' topics do not."""
    both = group((("a", "b"), ""))
    hashes = {
        metadata_hash(both, topics)
        for topics in (
            Topics(),
            Topics([A]),
            Topics([A, B]),
            Topics([A, Topic("b", b"c" * 16, 2)]),
            Topics([A, Topic("b", b"b" * 16, 3)]),
        )
    }
    assert len(hashes) == 5 and 0 in hashes
    assert metadata_hash(both, Topics([A, B])) == metadata_hash(both, Topics([B, Topic("c", b"c" * 16, 1), A]))
    assert -(2**63) <= metadata_hash(both, Topics([A, B])) < 2**63


class Name(str):
    """A name that counts how often any is looked at."""

    __slots__ = ()
    looks: ClassVar = 0

    def __hash__(self) -> int:
        Name.looks += 1
        return super().__hash__()


def test_names_of_topics_that_do_not_exist_cost_nothing() -> None:
    """Forty members with 40,000 names each would else keep the server for a second whenever topics change."""
    resolved = {"b|c": ResolvedRegex(frozenset("bc"), 1, 0)}
    asked = replace(group((("a", *(Name(number) for number in range(1_000))), "")), resolved=resolved)
    before = Topics([A])
    after = before.with_topic(B)
    Name.looks = 0
    assert existing_topics(asked, before) == {"a"}
    assert existing_topics(asked, after) == {"a", "b"}
    assert have_topics_changed(asked, after)
    assert have_topics_changed(replace(asked, topics_seen=before.version), after)
    for topics, has_changed in (
        (after, False),
        (after.with_topic(Topic("d", b"d" * 16, 1)), False),
        (after.with_topic(replace(B, partitions=9)), True),
        (after.with_topic(Topic("c", b"c" * 16, 1)), True),
        (after.without_topic("a"), True),
    ):
        assert have_topics_changed(replace(asked, topics_seen=after.version), topics) is has_changed
    assert metadata_hash(asked, after) != metadata_hash(asked, before)
    assert [is_subscribed(asked, topic) for topic in "abcd"] == [True, True, True, False]
    assert Name.looks == 0


@pytest.mark.rule("K-112 K-210")
def test_a_group_is_homogeneous_if_everybody_wants_the_same_in_the_same_way() -> None:
    assert is_homogeneous(group())
    assert is_homogeneous(group((("a", "b"), ""), (("a", "b"), "")))
    assert not is_homogeneous(group((("a", "b"), ""), (("a",), "")))
    assert not is_homogeneous(group((("a",), ""), ((), "")))
    assert is_homogeneous(group(((), "x"), ((), "x")))
    assert not is_homogeneous(group(((), "x"), ((), "y")))
    assert not is_homogeneous(group(((), "x"), (("a",), "x")))
    assert not is_homogeneous(group(((), "x"), (("a",), "")))


def test_an_index_of_votes_and_patterns_keeps_step() -> None:
    """Counters fall as they rise."""
    one = Member("m", Metadata(subscribed_topic_names=("a",), subscribed_topic_regex="x", server_assignor="range"))
    made = ConsumerGroup("g").with_member(one)
    assert (made.names, made.patterns, made.votes) == ({"a": 1}, {"x": 1}, {"range": 1})
    gone = made.without_member(one)
    assert (gone.names, gone.patterns, gone.votes, len(gone.members)) == ({}, {}, {}, 0)
    assert ResolvedRegex(frozenset(), 1, 2) == ResolvedRegex(frozenset(), 1, 2)


def test_a_clock_that_was_put_back_delays_neither_a_target_nor_a_pattern() -> None:
    """K-114: what was computed at 1:00:00 by the clock of an earlier start would hold for an hour."""
    behind = ConsumerGroup("g", epoch=3, assignment_epoch=2, assignment_at_ms=3_600_000)
    assert [is_target_due(behind, 1_000, now_ms) for now_ms in (1, 3_600_000, 3_600_999, 3_601_000)] == [
        True,
        False,
        False,
        True,
    ]
    resolved = {"x": ResolvedRegex(frozenset(), 1, 3_600_000)}
    assert may_refresh(resolved, 1) and not may_refresh(resolved, 3_600_001)
