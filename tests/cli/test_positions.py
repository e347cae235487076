"""Where a group stands, of partitions that can be read and of others: committed offsets, ends, owners, lag."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.cli import positions as module
from coordinator.cli.group_offsets import CommittedOffset
from coordinator.cli.group_view import DescribedGroup, DescribedMember
from coordinator.cli.positions import count_beyond_end, describe_lag, find_positions, total_lag
from coordinator.client.offsets import LATEST
from protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

PLACES = st.tuples(st.sampled_from("tu"), st.integers(0, 2))
OFFSETS = st.dictionaries(PLACES, st.integers(0, 9))


def describe(kind: str, members: tuple[DescribedMember, ...]) -> DescribedGroup:
    return DescribedGroup("g", kind, "Stable", "", None, members)


def member(name: str, own: list[tuple[str, int]]) -> DescribedMember:
    assignment = {topic: tuple(number for of, number in own if of == topic) for topic, _ in own}
    return DescribedMember(name, f"i-{name}", f"c-{name}", f"h-{name}", "classic", None, (), None, assignment, None)


@settings(max_examples=50)
@given(OFFSETS, OFFSETS, st.dictionaries(PLACES, st.sampled_from("ab")), st.sampled_from(["classic", "streams"]))
def test_a_partition_is_told_that_has_an_offset_or_an_owner(
    committed: dict[tuple[str, int], int],
    ends: dict[tuple[str, int], int],
    owners: dict[tuple[str, int], str],
    kind: str,
) -> None:
    """The end is missing where a partition has no leader or is gone: then there is no lag either. A member of a streams
    group has tasks, of which not each topic of the subtopology may have a partition."""
    members = tuple(member(name, [place for place, owner in owners.items() if owner == name]) for name in "ab")
    asked: list[Any] = []

    def list_ends(cluster: Any, places: Any, time_ms: int) -> dict[tuple[str, int], int]:
        asked.append((set(places), time_ms))
        return {place: end for place, end in ends.items() if place in places}

    with pytest.MonkeyPatch.context() as patched:
        offsets = [CommittedOffset(*place, offset, -1, "") for place, offset in committed.items()]
        patched.setattr(module, "fetch_offsets", lambda cluster, group: offsets)
        patched.setattr(module, "list_offsets", list_ends)
        cluster: Any = None
        found = find_positions(cluster, describe(kind, members))
    places = committed.keys() | owners.keys()
    assert asked == [(set(places), LATEST)]
    if kind == "streams":
        places = committed.keys() | (owners.keys() & ends.keys())
    lags = {place: ends[place] - committed[place] for place in places if place in ends and place in committed}
    assert found == [
        {
            "topic": place[0], "partition": place[1], "committed_offset": committed.get(place),
            "log_end_offset": ends.get(place), "lag": lags.get(place),
            **{
                what: None if place not in owners else f"{prefix}{owners[place]}"
                for what, prefix in (("member_id", ""), ("instance_id", "i-"), ("host", "h-"), ("client_id", "c-"))
            },
        }
        for place in sorted(places)
    ]  # fmt: skip
    beyond = sum(lag < 0 for lag in lags.values())
    lag = sum(lag for lag in lags.values() if lag > 0) if lags else None
    assert (total_lag(found), count_beyond_end(found)) == (lag, beyond)
    words = "" if not beyond else f", {beyond} committed offset{'s' * (beyond > 1)} beyond the end"
    assert describe_lag(found) == (None if lag is None else f"lag {lag}{words}")


@settings(max_examples=30)
@given(
    st.dictionaries(PLACES, st.tuples(st.integers(-1, 3), st.integers(-1, 3), st.sampled_from([0, 0, 3]))), st.randoms()
)
def test_of_a_share_group_those_are_told_that_it_has_read(
    read: dict[tuple[str, int], tuple[int, int, int]], dice: Any
) -> None:
    places = list(read)
    dice.shuffle(places)
    topics = tuple(
        DescribeShareGroupOffsetsResponseTopic(
            topic,
            partitions=tuple(
                DescribeShareGroupOffsetsResponsePartition(
                    number,
                    start_offset=read[topic, number][0],
                    lag=read[topic, number][1],
                    error_code=read[topic, number][2],
                )
                for of, number in places
                if of == topic
            ),
        )
        for topic in dict.fromkeys(topic for topic, _ in places)
    )

    class Cluster:
        def ask_coordinator(self, name: str, request: Any, codes: Any) -> Any:
            assert (name, [one.group_id for one in request.groups]) == ("g", ["g"])
            return DescribeShareGroupOffsetsResponse(groups=(DescribeShareGroupOffsetsResponseGroup("g", topics),))

    cluster: Any = Cluster()
    assert find_positions(cluster, describe("share", ())) == [
        {
            "topic": topic, "partition": number,
            "start_offset": None if start < 0 else start, "lag": None if lag < 0 else lag,
        }
        for (topic, number), (start, lag, code) in sorted(read.items())
        if not code
    ]  # fmt: skip
