"""A topology held against the topics that there are: how many tasks it has, and what is missing.

    every source is there? ─► sizes of the internal topics ─► those that are there fit? ─► those that are missing
        no: status 1              topics of a join do not         no: status 2                some: status 3
                                  fit: status 2

A topology with a status is not ready: no task is assigned.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from coordinator.core.kinds.streams.sizes import WrongSizeError, decide_sizes
from coordinator.core.kinds.streams.topology import Subtopology, Topology, sources_of
from coordinator.core.streams_record_types import StreamsGroupTopologyValueTopicInfo
from coordinator.core.topics import Topics
from protocol.messages.streams_group_heartbeat import StatusCode

_NAMES_SHOWN = 3  # in a status


class InternalTopic(Struct, frozen=True):
    """A repartition or changelog topic with its number of partitions."""

    name: str
    partitions: int
    replication_factor: int = 0  # 0: the broker's default
    configs: Mapping[str, str] = {}


class ConfiguredSubtopology(Struct, frozen=True):
    """A subtopology with the sizes of its topics."""

    task_count: int
    sources: tuple[str, ...]  # sorted, as are all names here
    repartitions: tuple[InternalTopic, ...]
    sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def source_names(self) -> list[str]:
        """The topics that it reads, repartition topics among them."""
        return sorted({*self.sources, *(topic.name for topic in self.repartitions)})


class Problem(Struct, frozen=True):
    """Why a topology is not ready, as its members are told."""

    code: StatusCode
    detail: str


class ConfiguredTopology(Struct, frozen=True):
    """What came of holding a topology against the topics."""

    subtopologies: Mapping[str, ConfiguredSubtopology] = {}  # none while sizes are not known
    missing: tuple[InternalTopic, ...] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure_topology(topology: Topology, topics: Topics) -> ConfiguredTopology:
    """Hold a topology against the topics. Raises InvalidTopologyError."""
    sources = {name for each in topology.subtopologies.values() for name in each.source_topics}
    if gone := sorted(name for name in sources if name not in topics):
        return _not_ready(StatusCode.MISSING_SOURCE_TOPICS, f"missing source topics: {_join_names(gone)}")
    try:
        sizes = decide_sizes(topology, topics)
        configured = {
            number: _configure(topology.subtopologies[number], sizes, topics)
            for number in sorted(topology.subtopologies)
        }
        missing = _find_missing_topics(configured.values(), topics)
    except WrongSizeError as wrong:
        return _not_ready(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(wrong))
    if not missing:
        return ConfiguredTopology(configured)
    detail = f"missing internal topics: {_join_names([topic.name for topic in missing])}"
    return ConfiguredTopology(configured, missing, Problem(StatusCode.MISSING_INTERNAL_TOPICS, detail))


def _not_ready(code: StatusCode, detail: str) -> ConfiguredTopology:
    return ConfiguredTopology(problem=Problem(code, detail))


def _configure(subtopology: Subtopology, sizes: Mapping[str, int], topics: Topics) -> ConfiguredSubtopology:
    def count(name: str) -> int:
        topic = topics.get(name)
        return sizes[name] if topic is None else topic.partitions

    return ConfiguredSubtopology(
        task_count=max(map(count, sources_of(subtopology))),
        sources=tuple(sorted(set(subtopology.source_topics))),
        repartitions=_internal(subtopology.repartition_source_topics, sizes),
        sinks=tuple(sorted(set(subtopology.repartition_sink_topics))),
        changelogs=_internal(subtopology.state_changelog_topics, sizes),
    )


def _internal(
    listed: Iterable[StreamsGroupTopologyValueTopicInfo], sizes: Mapping[str, int]
) -> tuple[InternalTopic, ...]:
    found = {
        topic.name: InternalTopic(
            topic.name,
            topic.partitions or sizes[topic.name],
            topic.replication_factor,
            {config.key: config.value for config in topic.topic_configs},
        )
        for topic in listed
    }
    return tuple(found[name] for name in sorted(found))


def _find_missing_topics(configured: Iterable[ConfiguredSubtopology], topics: Topics) -> tuple[InternalTopic, ...]:
    """Return the internal topics that do not exist. Raises WrongSizeError if one that does is of another size."""
    wanted = {topic.name: topic for each in configured for topic in (*each.repartitions, *each.changelogs)}
    for name in sorted(wanted):
        existing = topics.get(name)
        if existing is not None and existing.partitions != wanted[name].partitions:
            expected = wanted[name].partitions
            raise WrongSizeError(f"topic {name} has {existing.partitions} partitions: expected {expected}")
    return tuple(wanted[name] for name in sorted(wanted) if name not in topics)


def _join_names(names: list[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
