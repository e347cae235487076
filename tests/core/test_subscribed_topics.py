"""The topics that the members of a classic group subscribe to: those of all members, though few are read."""

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
    monkeypatch.setattr(voting, "NAMES_MAX", 5)
    several = [write(ConsumerProtocolSubscription((f"t{n}", f"u{n}"))) for n in range(3)]
    assert voting.subscribed_topics(group_of(several[:2])) == frozenset({"t0", "u0", "t1", "u1"})
    assert voting.subscribed_topics(group_of(several)) is None


def test_names_that_many_members_bring_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voting, "NAMES_MAX", 5)
    alike = [write(ConsumerProtocolSubscription(("t", "u"), bytes([n]))) for n in range(9)]
    assert voting.subscribed_topics(group_of(alike)) == frozenset({"t", "u"})
