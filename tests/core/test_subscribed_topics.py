"""The topics that the members of a classic group subscribe to: those of all members, though few are read. And the
protocol that they choose."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.core.kinds.classic import voting
from coordinator.core.kinds.classic.group import ClassicGroup, Member
from protocol import codec
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import (
    SUBSCRIPTION,
    VERSION_MAX,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
    write,
)
from tests.core.model import WALKED


def group_of(metadata: Sequence[bytes]) -> ClassicGroup:
    """A group of consumers, one with each metadata."""
    members = [Member(f"m{n}", "c", "/h", 1, 1, (("range", data),)) for n, data in enumerate(metadata)]
    group = ClassicGroup("g", protocol_type="consumer", protocol="range")
    return group.with_members({member.member_id: member for member in members})


def read_all(metadata: Sequence[bytes]) -> frozenset[str] | None:
    """Read the subscription of each member."""
    try:
        return frozenset().union(*(codec.read(SUBSCRIPTION, data[2:], 0).topics for data in metadata))
    except ProtocolError:
        return None


owned = st.builds(ConsumerProtocolSubscriptionTopicPartition, st.sampled_from("tu"), st.just((0, 1)))
subscriptions = st.builds(
    write,
    st.builds(
        ConsumerProtocolSubscription,
        st.sampled_from([(), ("t",), ("t", "u"), ("t", "u", "v"), ("é", "t"), ("x" * 300,)]),
        st.sampled_from([None, b"", b"state"]),
        st.lists(owned, max_size=2).map(tuple),
    ),
    st.integers(0, VERSION_MAX),
)
cut = st.tuples(subscriptions, st.integers(2, 14)).map(lambda both: both[0][: both[1]])


@example([write(ConsumerProtocolSubscription(("t",), b"state"), 0)[:end] for end in (None, -1)])
@given(st.lists(subscriptions, max_size=6) | st.lists(subscriptions | cut, max_size=6))
def test_they_are_those_of_each_member(metadata: list[bytes]) -> None:
    assert voting.subscribed_topics(group_of(metadata)) == read_all(metadata)


def test_more_names_than_can_be_read_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voting, "NAMES_MAX", 4)
    several = [write(ConsumerProtocolSubscription((f"t{n}", f"u{n}"))) for n in range(3)]
    assert voting.subscribed_topics(group_of(several[:2])) == frozenset({"t0", "u0", "t1", "u1"})
    assert voting.subscribed_topics(group_of(several)) is None


def test_names_that_many_members_bring_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voting, "NAMES_MAX", 5)
    alike = [write(ConsumerProtocolSubscription(("t", "u"), bytes([n]))) for n in range(9)]
    assert voting.subscribed_topics(group_of(alike)) == frozenset({"t", "u"})


PREFERENCES = st.lists(st.permutations(["range", "sticky", "own"]), min_size=1, max_size=6)


@given(PREFERENCES, st.sampled_from(["range", "sticky", None]))
def test_the_protocol_with_the_most_votes_wins_whichever_is_in_use(
    preferences: list[list[str]], in_use: str | None
) -> None:
    """The first member does not offer `own`, so nobody's vote is for it; of others the first in Kafka's map wins."""
    offers = [[name for name in preferences[0] if name != "own"], *preferences[1:]]
    members = [Member(f"m{n}", "c", "/h", 1, 1, tuple((name, b"") for name in each)) for n, each in enumerate(offers)]
    group = ClassicGroup("g", protocol=in_use).with_members({one.member_id: one for one in members})
    votes = [next(name for name in each if name in offers[0]) for each in offers]
    winners = [name for name in votes if votes.count(name) == max(map(votes.count, votes))]
    assert voting.choose_protocol(group) == min(winners, key=WALKED.index)
