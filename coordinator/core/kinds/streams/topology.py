"""The topology of a Kafka Streams application: its subtopologies, as its first member has sent them.

A subtopology reads source topics and repartition topics, writes to sinks, and keeps its state in changelogs. It stays
as it was sent; `configuration` finds how many tasks it has with the topics that there are.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from coordinator.core.catalog.names import INTERNAL, reason_invalid
from coordinator.core.refusal import Refusal
from coordinator.core.streams_record_types import (
    StreamsGroupTopologyValue,
    StreamsGroupTopologyValueCopartitionGroup,
    StreamsGroupTopologyValueSubtopology,
    StreamsGroupTopologyValueTopicConfig,
    StreamsGroupTopologyValueTopicInfo,
)
from protocol.errors import ErrorCode
from protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTopicInfo,
    StreamsGroupHeartbeatRequestTopology,
)

Subtopology = StreamsGroupTopologyValueSubtopology


class Topology(Struct, frozen=True, dict=True):
    """A topology. Two are equal if they have the same epoch and the same subtopologies, in any order."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]  # by id

    @cached_property
    def readers(self) -> Mapping[str, str]:
        """Source and repartition topic -> the id of a subtopology that reads it."""
        return {topic: each.subtopology_id for each in self.subtopologies.values() for topic in sources_of(each)}

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """The topics that must be there before any task is assigned."""
        changelogs = (topic.name for each in self.subtopologies.values() for topic in each.state_changelog_topics)
        return frozenset((*self.readers, *changelogs))


def sources_of(subtopology: Subtopology) -> Iterator[str]:
    """Yield the topics that a subtopology reads, repartition topics among them."""
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def read_topology(value: StreamsGroupTopologyValue) -> Topology:
    """Return the topology that a record states."""
    return Topology(value.epoch, {each.subtopology_id: each for each in value.subtopologies})


def to_record(topology: StreamsGroupHeartbeatRequestTopology) -> StreamsGroupTopologyValue:
    """Return the record of a topology that a member has sent."""
    return StreamsGroupTopologyValue(topology.epoch, tuple(map(_subtopology, topology.subtopologies)))


def names_in(topology: StreamsGroupHeartbeatRequestTopology) -> Iterator[str]:
    """Yield the names of all topics of a request, some of them perhaps more than once."""
    for each in topology.subtopologies:
        yield from each.source_topics
        yield from each.repartition_sink_topics
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics):
            yield topic.name


def refuse_names(topology: StreamsGroupHeartbeatRequestTopology) -> Refusal | None:
    """Return why topics of these names cannot be in a topology; None if all of them can."""
    names = dict.fromkeys(names_in(topology))
    if internal := [name for name in names if name in INTERNAL]:
        return _invalid(f"internal topics of Kafka in a topology: {', '.join(internal)}")
    if invalid := [name for name in names if reason_invalid(name)]:
        return _invalid(f"invalid names of topics in a topology: {', '.join(invalid)}")
    return None


def validate_topology(topology: StreamsGroupHeartbeatRequestTopology) -> Refusal | None:
    """Return what is wrong with a topology as such, whatever topics there are; None if nothing is.

    Kafka 4.3.1 looks at changelogs alone, and answers the other mistakes with UNKNOWN_SERVER_ERROR.
    """
    for each in topology.subtopologies:
        for changelog in each.state_changelog_topics:
            if changelog.partitions:
                return _invalid(f"changelog {changelog.name} has {changelog.partitions} partitions: expected 0")
        for topic in each.repartition_source_topics:
            if topic.partitions < 0:
                return _invalid(f"repartition topic {topic.name} has {topic.partitions} partitions: expected 0 or more")
    if topology.epoch < 0:
        return _invalid(f"topology epoch {topology.epoch}: expected 0 or more")
    ((number, times),) = Counter(each.subtopology_id for each in topology.subtopologies).most_common(1) or [("", 1)]
    if times > 1:
        return _invalid(f"subtopology {number} is there {times} times")
    for each in topology.subtopologies:
        if _has_index_out_of_range(each):
            return _invalid(f"subtopology {each.subtopology_id} has a copartition group with an index out of range")
    return None


def _has_index_out_of_range(subtopology: StreamsGroupHeartbeatRequestSubtopology) -> bool:
    lists = (
        ("source_topics", subtopology.source_topics),
        ("repartition_source_topics", subtopology.repartition_source_topics),
    )
    return any(
        not 0 <= index < len(topics)
        for group in subtopology.copartition_groups
        for field, topics in lists
        for index in getattr(group, field)
    )


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def _subtopology(sent: StreamsGroupHeartbeatRequestSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=sent.subtopology_id,
        source_topics=sent.source_topics,
        source_topic_regex=sent.source_topic_regex,
        state_changelog_topics=tuple(map(_topic, sent.state_changelog_topics)),
        repartition_sink_topics=sent.repartition_sink_topics,
        repartition_source_topics=tuple(map(_topic, sent.repartition_source_topics)),
        copartition_groups=tuple(map(_copartition_group, sent.copartition_groups)),
    )


def _topic(sent: StreamsGroupHeartbeatRequestTopicInfo) -> StreamsGroupTopologyValueTopicInfo:
    configs = tuple(StreamsGroupTopologyValueTopicConfig(each.key, each.value) for each in sent.topic_configs)
    return StreamsGroupTopologyValueTopicInfo(sent.name, sent.partitions, sent.replication_factor, configs)


def _copartition_group(sent: Any) -> StreamsGroupTopologyValueCopartitionGroup:
    return StreamsGroupTopologyValueCopartitionGroup(
        sent.source_topics, sent.source_topic_regex, sent.repartition_source_topics
    )
