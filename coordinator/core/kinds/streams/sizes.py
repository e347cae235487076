"""How many partitions the internal topics of a topology have.

A repartition topic has as many as it asks for. If it leaves that open, it has as many as the largest topic that its
writer reads; that may be a repartition topic too, so sizes pass from one subtopology to the next. Topics that are
joined with each other must be of one size. A changelog has as many partitions as its subtopology has tasks.

Shown by tests/core/kinds/streams/test_sizes.py and tests/conformance/stories/streams_topology.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush

from coordinator.core.assignors.hash_order import members_in_order
from coordinator.core.kinds.streams.topology import Subtopology, Topology, sources_of
from coordinator.core.topics import Topics

PartitionCount = Callable[[str], int | None]


class InvalidTopologyError(Exception):
    """A topology for which no topics of any size would do."""


class WrongSizeError(Exception):
    """Topics that must be of one size are not."""


def decide_sizes(topology: Topology, topics: Topics) -> dict[str, int]:
    """Return the partitions of each repartition topic, sink and changelog.

    All sources exist. Raises InvalidTopologyError or WrongSizeError.
    """
    # Kafka walks its hash map of subtopologies, and the order decides where a writer reads two topics, one of which is
    # not sized yet.
    parts = [topology.subtopologies[number] for number in members_in_order(topology.subtopologies)]
    sizes = _size_repartitions(parts, topics)
    count = _count_in(topics, sizes)
    fixed = {topic.name for each in parts for topic in each.repartition_source_topics if topic.partitions}
    flexible = {topic.name for each in parts for topic in each.repartition_source_topics if not topic.partitions}
    for each in parts:
        for names in copartition_groups(each):
            sizes.update(_copartition(names, fixed, flexible, count))
    for each in parts:
        found = [count(name) or 0 for name in sources_of(each)]
        if not found:
            raise InvalidTopologyError(f"subtopology {each.subtopology_id} reads no topic")
        sizes.update((changelog.name, max(found)) for changelog in each.state_changelog_topics)
    return sizes


def copartition_groups(subtopology: Subtopology) -> list[set[str]]:
    """Return the sets of topics of a subtopology that must be of one size."""
    sources, repartitions = subtopology.source_topics, subtopology.repartition_source_topics
    return [
        {
            *(sources[at] for at in group.source_topics),
            *(repartitions[at].name for at in group.repartition_source_topics),
        }
        for group in subtopology.copartition_groups
    ]


def _count_in(topics: Topics, sizes: Mapping[str, int]) -> PartitionCount:
    """Return a function that says how many partitions a topic has, or will have; None where that is not known."""

    def count(name: str) -> int | None:
        topic = topics.get(name)
        return sizes.get(name) if topic is None else topic.partitions

    return count


def _size_repartitions(parts: Sequence[Subtopology], topics: Topics) -> dict[str, int]:
    """Return the sizes of repartition topics and sinks, before any of them is joined with another topic.

    Kafka passes over all subtopologies again and again, and sizes the sinks of those of which it knows a topic that
    they read. Here a subtopology is looked at when that becomes so, in the same order, so no chain takes more than one
    step for each of its links.
    """
    sizes = {
        topic.name: topic.partitions for each in parts for topic in each.repartition_source_topics if topic.partitions
    }
    readers: dict[str, list[int]] = {}
    for at, each in enumerate(parts):
        for topic in each.repartition_source_topics:
            readers.setdefault(topic.name, []).append(at)
    queue = [(0, at) for at, each in enumerate(parts) if _largest(each, topics, sizes) is not None]
    seen = {at for _, at in queue}
    while queue:
        turn, at = heappop(queue)
        size = _largest(parts[at], topics, sizes)
        assert size is not None, "only subtopologies that read a sized topic are in the queue"
        for sink in parts[at].repartition_sink_topics:
            if sink in sizes:
                continue
            sizes[sink] = size
            for reader in readers.get(sink, ()):
                if reader not in seen:
                    seen.add(reader)
                    heappush(queue, (turn if reader > at else turn + 1, reader))
    unsized = (sink for each in parts for sink in each.repartition_sink_topics if sink not in sizes)
    if (circular := next(unsized, None)) is not None:
        raise InvalidTopologyError(f"the size of {circular} depends on itself")
    unwritten = (name for name in readers if name not in sizes)
    if (unsized_source := next(unwritten, None)) is not None:
        raise InvalidTopologyError(f"no subtopology writes to repartition topic {unsized_source}")
    return sizes


def _largest(subtopology: Subtopology, topics: Topics, sizes: Mapping[str, int]) -> int | None:
    """Return the size of the largest topic that a subtopology reads, of those whose size is known."""
    found = [sizes[each.name] for each in subtopology.repartition_source_topics if each.name in sizes]
    found += [topic.partitions for name in subtopology.source_topics if (topic := topics.get(name)) is not None]
    return max(found, default=None)


def _copartition(names: set[str], fixed: set[str], flexible: set[str], count: PartitionCount) -> dict[str, int]:
    """Return the sizes of the repartition topics of a copartition group."""
    repartitions = {name for name in names if name in fixed or name in flexible}
    deciding = names - repartitions or names & fixed
    if deciding:
        size = _common_size(deciding, count)
    else:
        size = max((count(name) or 0 for name in names), default=0)
    for name in sorted(repartitions & fixed):
        if count(name) != size:
            raise WrongSizeError(f"repartition topic {name} has {count(name)} partitions: expected {size}")
    return dict.fromkeys(repartitions, size)


def _common_size(names: Iterable[str], count: PartitionCount) -> int:
    found = {name: count(name) or 0 for name in sorted(names)}
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in found.items())
        raise WrongSizeError(f"topics that must be of one size have so many partitions: {listed}")
    return next(iter(found.values()))
