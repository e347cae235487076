"""StreamsGroupDescribe: one streams group with its topology, its members, and their tasks.

Shown by tests/conformance/stories/{streams_join,streams_reconcile}.py.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from coordinator.core.assignors.task_spec import TaskAssignment
from coordinator.core.env import Env
from coordinator.core.kinds.streams.configuration import ConfiguredTopology, InternalTopic
from coordinator.core.kinds.streams.group import Member, StreamsGroup
from coordinator.core.kinds.streams.tasks import HeldTasks
from coordinator.core.kinds.streams.topology import Topology
from coordinator.core.refusal import truncate
from coordinator.core.streams_record_types import StreamsGroupTopologyValueTopicInfo
from protocol.errors import ErrorCode
from protocol.messages.streams_group_describe import (
    StreamsGroupDescribeResponseAssignment,
    StreamsGroupDescribeResponseDescribedGroup,
    StreamsGroupDescribeResponseEndpoint,
    StreamsGroupDescribeResponseKeyValue,
    StreamsGroupDescribeResponseMember,
    StreamsGroupDescribeResponseSubtopology,
    StreamsGroupDescribeResponseTaskIds,
    StreamsGroupDescribeResponseTopicInfo,
    StreamsGroupDescribeResponseTopology,
)

Tasks = TaskAssignment | HeldTasks


def describe(group: Any, group_id: str, env: Env) -> StreamsGroupDescribeResponseDescribedGroup:
    """Describe a group, which may be of another kind, or missing.

    Its topology has the sizes of internal topics as soon as it is ready.
    """
    if type(group) is not StreamsGroup:
        reason = "not found" if group is None else "is not a streams group"
        return _describe_unknown_group(group_id, reason)
    return StreamsGroupDescribeResponseDescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=tuple(_member(group, member) for member in group.members.values()),
    )


def _describe_unknown_group(group_id: str, reason: str) -> StreamsGroupDescribeResponseDescribedGroup:
    """Describe a streams group that does not exist: its error, and nothing else."""
    return StreamsGroupDescribeResponseDescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if group_id else ErrorCode.INVALID_GROUP_ID,
        error_message=truncate(f"Group {group_id} {reason}.") if group_id else None,
        group_id=group_id,
    )


def _topology(group: StreamsGroup) -> StreamsGroupDescribeResponseTopology | None:
    if group.topology is None:
        return None
    configured = group.configured
    if configured is not None and configured.is_ready:
        return StreamsGroupDescribeResponseTopology(group.topology.epoch, _describe_subtopologies(configured))
    return StreamsGroupDescribeResponseTopology(group.topology.epoch, _as_sent(group.topology))


def _describe_subtopologies(configured: ConfiguredTopology) -> tuple[StreamsGroupDescribeResponseSubtopology, ...]:
    return tuple(
        StreamsGroupDescribeResponseSubtopology(
            subtopology_id=number,
            source_topics=each.sources,
            repartition_sink_topics=each.sinks,
            state_changelog_topics=tuple(map(_internal, each.changelogs)),
            repartition_source_topics=tuple(map(_internal, each.repartitions)),
        )
        for number, each in configured.subtopologies.items()
    )


def _internal(topic: InternalTopic) -> StreamsGroupDescribeResponseTopicInfo:
    configs = tuple(StreamsGroupDescribeResponseKeyValue(key, value) for key, value in topic.configs.items())
    return StreamsGroupDescribeResponseTopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def _as_sent(topology: Topology) -> tuple[StreamsGroupDescribeResponseSubtopology, ...]:
    return tuple(
        StreamsGroupDescribeResponseSubtopology(
            subtopology_id=number,
            source_topics=tuple(sorted(topology.subtopologies[number].source_topics)),
            repartition_sink_topics=tuple(sorted(topology.subtopologies[number].repartition_sink_topics)),
            state_changelog_topics=_topic_infos(topology.subtopologies[number].state_changelog_topics),
            repartition_source_topics=_topic_infos(topology.subtopologies[number].repartition_source_topics),
        )
        for number in sorted(topology.subtopologies)
    )


def _topic_infos(
    topics: Iterable[StreamsGroupTopologyValueTopicInfo],
) -> tuple[StreamsGroupDescribeResponseTopicInfo, ...]:
    infos = (
        StreamsGroupDescribeResponseTopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            tuple(StreamsGroupDescribeResponseKeyValue(each.key, each.value) for each in topic.topic_configs),
        )
        for topic in topics
    )
    return tuple(sorted(infos, key=lambda info: info.name))


def _member(group: StreamsGroup, member: Member) -> StreamsGroupDescribeResponseMember:
    metadata, endpoint = member.metadata, member.metadata.user_endpoint
    return StreamsGroupDescribeResponseMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if endpoint is None else StreamsGroupDescribeResponseEndpoint(endpoint.host, endpoint.port),
        client_tags=tuple(StreamsGroupDescribeResponseKeyValue(tag.key, tag.value) for tag in metadata.client_tags),
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target(member.member_id)),
    )


def _assignment(tasks: Tasks) -> StreamsGroupDescribeResponseAssignment:
    return StreamsGroupDescribeResponseAssignment(
        _task_ids(tasks.active), _task_ids(tasks.standby), _task_ids(tasks.warmup)
    )


def _task_ids(tasks: Mapping[str, Collection[int]]) -> tuple[StreamsGroupDescribeResponseTaskIds, ...]:
    return tuple(StreamsGroupDescribeResponseTaskIds(number, tuple(sorted(tasks[number]))) for number in sorted(tasks))
