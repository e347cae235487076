"""OffsetFetch in its three forms, where an error goes in each (O-203), and what routers may count on."""

import pytest

from coordinator.core.offsets.metadata_length import is_too_long
from coordinator.core.offsets.offset_fetch import fetch_offsets, merge_groups, refuse_group, split_groups
from coordinator.core.offsets.store import OffsetStore
from coordinator.core.record_types import OffsetCommitKey, OffsetCommits, OffsetCommitValue, Record, single_records
from coordinator.core.topics import NO_ID, Topic, Topics
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from protocol.rows import Rows

ONE = OffsetFetchRequest(group_id="g", topics=(OffsetFetchRequestTopic("t", (0, 2)),))
MANY = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g", topics=None), OffsetFetchRequestGroup("h")))


def test_one_group_is_asked_for_as_many() -> None:
    wanted = OffsetFetchRequestTopics("t", NO_ID, (0, 2))
    for version in range(8):
        assert split_groups(ONE, version) == (OffsetFetchRequestGroup("g", topics=(wanted,)),)
    assert split_groups(OffsetFetchRequest(group_id="g", topics=None), 2) == (
        OffsetFetchRequestGroup("g", topics=None),
    )
    assert split_groups(MANY, 8) == MANY.groups


@pytest.mark.rule("O-203")
def test_an_error_is_where_the_version_has_a_place_for_it() -> None:
    """On each partition before version 2, at the top before 8, then in its group."""
    group = refuse_group("g", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    partitions = tuple(OffsetFetchResponsePartition(at, -1, -1, "", 30) for at in (0, 2))
    for version in (0, 1):
        answer = merge_groups((group,), ONE, version)
        assert (answer.topics, answer.error_code) == ((OffsetFetchResponseTopic("t", partitions),), 0)
    for version in range(2, 8):
        answer = merge_groups((group,), ONE, version)
        assert (answer.topics, answer.error_code, answer.groups) == ((), 30, ())
    answer = merge_groups((group, refuse_group("h", ErrorCode.NONE)), MANY, 8)
    assert [each.error_code for each in answer.groups] == [30, 0]


@pytest.mark.rule("V-005 K-303 K-305")
def test_topics_that_were_made_again_or_are_gone_cannot_be_asked_for_by_id() -> None:
    """What was committed to a topic of that name is not the new topic's."""
    store = OffsetStore()
    store.apply(Record(OffsetCommitKey("g", "t", 0), OffsetCommitValue(5, topic_id=b"a" * 16)))
    store.apply(Record(OffsetCommitKey("g", "u", 0), OffsetCommitValue(6)))
    store.apply(Record(OffsetCommitKey("g", "gone", 0), OffsetCommitValue(7)))
    topics = Topics([Topic("t", b"b" * 16, 1), Topic("u", b"u" * 16, 1)])
    everything = OffsetFetchRequestGroup("g", topics=None)
    by_id = fetch_offsets(everything, 10, store, topics, require_stable=False)
    assert [(each.topic_id[:1], each.partitions[0].committed_offset) for each in by_id.topics] == [
        (b"b", -1),
        (b"u", 6),
    ]
    by_name = fetch_offsets(everything, 9, store, topics, require_stable=False)
    assert [(each.name, each.partitions[0].committed_offset) for each in by_name.topics] == [
        ("t", 5),
        ("u", 6),
        ("gone", 7),
    ]


def test_metadata_is_measured_in_units_of_utf_16() -> None:
    """A character beyond the basic plane counts twice; a lone surrogate, which no UTF-8 holds, counts once."""
    assert not is_too_long("\N{SLICE OF PIZZA}" * 2, 4)
    assert is_too_long("\N{SLICE OF PIZZA}" * 2 + "x", 4)
    assert not is_too_long("\ud800" * 4, 4)
    assert is_too_long("\ud800" * 5, 4)
    assert not is_too_long(None, 0)


def test_a_stable_fetch_asks_for_the_partitions_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other topics have pending is not walked through for each topic."""
    offsets = OffsetStore()
    for topic in ("t", "u"):
        offsets.apply(Record(OffsetCommitKey("g", topic, 0), OffsetCommitValue(5)), producer_id=1)
    monkeypatch.setattr(OffsetStore, "pending_offsets_of", lambda *_: pytest.fail("a walk over all that is pending"))
    wanted = OffsetFetchRequestGroup("g", topics=(OffsetFetchRequestTopics("t", NO_ID, (0, 1)),))
    (topic,) = fetch_offsets(wanted, 8, offsets, Topics(), require_stable=True).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NONE]


TOPICS = Topics([Topic("t", b"i" * 16, 5), Topic("again", b"n" * 16, 5)])
TOGETHER = OffsetCommits("g", "t", b"i" * 16, 1_000, (0, 2), (10, 20), (1, -1))
BEFORE = OffsetCommits("g", "again", b"o" * 16, 1_000, (0, 2), (10, 20), (1, -1))  # the topic that was deleted
PENDING = Record(OffsetCommitKey("g", "t", 2), OffsetCommitValue(99))


@pytest.mark.parametrize("is_pending", [False, True])
@pytest.mark.parametrize("require_stable", [False, True])
@pytest.mark.parametrize("partitions", [(0, 2), (2, 0), (0,), (0, 1, 2), (), (2, 2)])
@pytest.mark.parametrize(("topic", "topic_id"), [("t", b"i" * 16), ("again", b"n" * 16), ("none", b"x" * 16)])
@pytest.mark.parametrize("version", [1, 7, 9, 10])
def test_what_was_committed_together_is_fetched_as_what_was_not(
    version: int, topic: str, topic_id: bytes, partitions: tuple[int, ...], require_stable: bool, is_pending: bool
) -> None:
    together, one_by_one = OffsetStore(), OffsetStore()
    together.apply_all((TOGETHER, BEFORE))
    for record in single_records((TOGETHER, BEFORE)):
        one_by_one.apply(record)
    by_id = version >= 10
    named = OffsetFetchRequestTopics("" if by_id else topic, topic_id if by_id else NO_ID, partitions)
    wanted = OffsetFetchRequestGroup("g", topics=(named,))
    found = []
    for store in (together, one_by_one):
        if is_pending:
            store.apply(PENDING, 7)
        group = fetch_offsets(wanted, version, store, TOPICS, require_stable=require_stable)
        found.append(merge_groups((group,), ONE, version))
    assert found[0] == found[1]


def test_what_was_committed_together_is_fetched_in_columns() -> None:
    store = OffsetStore()
    store.apply_all((TOGETHER,))
    wanted = OffsetFetchRequestGroup("g", topics=(OffsetFetchRequestTopics("t", NO_ID, (0, 2)),))
    for version in (7, 8):
        group = fetch_offsets(wanted, version, store, TOPICS, require_stable=True)
        answer = merge_groups((group,), ONE, version)
        (topic,) = answer.topics or answer.groups[0].topics
        assert type(topic.partitions) is Rows
        assert topic.partitions.columns == ((0, 2), (10, 20), (1, -1))
