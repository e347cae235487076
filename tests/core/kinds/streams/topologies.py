"""Topologies for tests, in few words."""

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from coordinator.core.kinds.streams.topology import Subtopology, Topology
from coordinator.core.streams_record_types import (
    StreamsGroupTopologyValueCopartitionGroup as CopartitionGroup,
)
from coordinator.core.streams_record_types import StreamsGroupTopologyValueTopicInfo as TopicInfo
from coordinator.core.topics import Topic, Topics


def topics(**sizes: int) -> Topics:
    """Topics with so many partitions."""
    return Topics(Topic(name, name.encode().ljust(16, b"."), size) for name, size in sizes.items())


def part(
    number: str,
    sources: Sequence[str] = (),
    *,
    reads: Mapping[str, int] | None = None,
    sinks: Sequence[str] = (),
    logs: Sequence[str] = (),
    joins: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> Subtopology:
    """A subtopology; `reads` has its repartition topics with their sizes, `joins` its copartition groups."""
    return Subtopology(
        number,
        source_topics=tuple(sources),
        state_changelog_topics=tuple(TopicInfo(name) for name in logs),
        repartition_sink_topics=tuple(sinks),
        repartition_source_topics=tuple(TopicInfo(name, size) for name, size in (reads or {}).items()),
        copartition_groups=tuple(CopartitionGroup(tuple(a), (), tuple(b)) for a, b in joins),
    )


def topology(*parts: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch, {each.subtopology_id: each for each in parts})


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Some subtopologies that read sources `s0` to `s2` and repartition topics of each other, perhaps in circles."""
    count = draw(st.integers(1, 6))
    names = st.sampled_from([f"r{n}" for n in range(5)])
    sources = st.lists(st.sampled_from(["s0", "s1", "s2"]), unique=True, max_size=2)
    reads = st.dictionaries(names, st.sampled_from([0, 0, 0, 2, 5]), max_size=2)
    sinks = st.lists(names, unique=True, max_size=3)
    parts = [
        part(str(n), draw(sources), reads=draw(reads), sinks=draw(sinks), logs=draw(st.sampled_from([(), (f"l{n}",)])))
        for n in range(count)
    ]
    return topology(*parts)


@st.composite
def connected_topologies(draw: st.DrawFn) -> Topology:
    """Some subtopologies of which each repartition topic is written by one and read by another, or by the same one.

    So nearly all of them can be sized, and several topics of different sizes meet in one reader.
    """
    count = draw(st.integers(3, 6))
    number = st.integers(0, count - 1)
    sinks: list[list[str]] = [[] for _ in range(count)]
    reads: list[dict[str, int]] = [{} for _ in range(count)]
    for name in [f"r{n}" for n in range(draw(st.integers(2, 8)))]:
        sinks[draw(number)].append(name)
        reads[draw(number)][name] = draw(st.sampled_from([0] * 9 + [2]))
    source = st.sampled_from([(), (), ("s0",), ("s1",), ("s2",)])
    parts = [
        part(str(n), draw(source) or (() if reads[n] else ("s0",)), reads=reads[n], sinks=sinks[n])
        for n in range(count)
    ]
    return topology(*parts)
