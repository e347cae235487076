"""The endpoints of members for interactive queries, with the partitions whose state each of them has."""

from collections.abc import Collection, Mapping

from coordinator.core.kinds.streams.configuration import ConfiguredTopology
from coordinator.core.kinds.streams.group import Member, StreamsGroup
from coordinator.core.topics import Topics
from protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatResponseEndpoint,
    StreamsGroupHeartbeatResponseEndpointToPartitions,
    StreamsGroupHeartbeatResponseTopicPartition,
)


def list_endpoints(
    group: StreamsGroup, configured: ConfiguredTopology, topics: Topics
) -> tuple[StreamsGroupHeartbeatResponseEndpointToPartitions, ...]:
    """Return the endpoints of all members that have one."""
    return tuple(
        StreamsGroupHeartbeatResponseEndpointToPartitions(
            StreamsGroupHeartbeatResponseEndpoint(
                member.metadata.user_endpoint.host, member.metadata.user_endpoint.port
            ),
            _partitions(member.assigned.active, configured, topics),
            _partitions(member.assigned.standby, configured, topics),
        )
        for member in group.members.values()
        if member.metadata.user_endpoint is not None
    )


def has_endpoint(member: Member) -> bool:
    """Return whether others can query the member."""
    return member.metadata.user_endpoint is not None


def _partitions(
    tasks: Mapping[str, Collection[int]], configured: ConfiguredTopology, topics: Topics
) -> tuple[StreamsGroupHeartbeatResponseTopicPartition, ...]:
    """Return the partitions of sources and repartition topics that these tasks read.

    A topic with fewer partitions than there are tasks is shown with as many of them, as in Kafka. A member may still
    have tasks of topics that have gone; they are left out.
    """
    found = []
    for number in sorted(tasks):
        subtopology = configured.subtopologies.get(number)
        if subtopology is None:
            continue
        numbers = tuple(sorted(tasks[number]))
        for name in subtopology.source_names:
            topic = topics.get(name)
            if topic is not None:
                found.append(StreamsGroupHeartbeatResponseTopicPartition(name, numbers[: topic.partitions]))
    return tuple(found)
