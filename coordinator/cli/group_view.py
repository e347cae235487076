"""Describe a group of any type, for the commands. Not a subcommand."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from coordinator.cli.cluster import BrokerError, Cluster
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from protocol.messages.consumer_protocol import partitions_by_topic, read_assignment, read_subscription
from protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponseDescribedGroup,
    DescribeGroupsResponseDescribedGroupMember,
)
from protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponseAssignment,
    ShareGroupDescribeResponseDescribedGroup,
)
from protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponseAssignment,
    StreamsGroupDescribeResponseDescribedGroup,
)

NOT_OF_THIS_TYPE = frozenset(
    {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID, ErrorCode.UNSUPPORTED_VERSION}
)
"""With these errors the next API is asked: DescribeGroups knows a group with an empty id too, and a Kafka 3.9 whose
consumer protocol is switched off offers ConsumerGroupDescribe and refuses it."""
CONSUMER_PROTOCOL = "consumer"  # the protocol type of classic groups whose opaque bytes can be read
Partitions = Mapping[str, tuple[int, ...]]


class DescribedMember(Struct, frozen=True):
    """A member, whichever protocol it speaks."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    protocol: str  # classic, consumer, share or streams
    epoch: int | None  # None: a classic group's members have none of their own
    topics: tuple[str, ...]
    regex: str | None
    assignment: Partitions
    target: Partitions | None  # None: the response has none


class DescribedGroup(Struct, frozen=True):
    """A group of any type."""

    group: str
    type: str  # as its protocol
    state: str  # by Kafka's names
    assignor: str
    epoch: int | None  # None: DescribeGroups does not have a classic group's generation
    members: tuple[DescribedMember, ...]


def describe_group(cluster: Cluster, group: str) -> DescribedGroup | None:
    """Describe a group of any type; None if no group has this id. Raises ClientError."""
    for request, entries, view in _DESCRIBED:
        if not cluster.any.versions(request()):
            continue
        response = cluster.ask_coordinator(group, request(**{entries: (group,)}), _find_codes)
        (found,) = response.groups
        # Up to version 5 of DescribeGroups an unknown group is described as dead, without an error.
        if found.error_code == ErrorCode.NONE and found.group_state != "Dead":
            return view(found)
        if found.error_code not in NOT_OF_THIS_TYPE:
            raise BrokerError(f"describe {group}", found.error_code, found.error_message)
    return None


def _find_codes(response: Any) -> list[int]:
    return [one.error_code for one in response.groups]


def _view_consumer_group(found: ConsumerGroupDescribeResponseDescribedGroup) -> DescribedGroup:
    return DescribedGroup(
        group=found.group_id,
        type="consumer",
        state=found.group_state,
        assignor=found.assignor_name,
        epoch=found.group_epoch,
        members=tuple(_view_consumer_member(member) for member in found.members),
    )


def _view_consumer_member(member: ConsumerGroupDescribeResponseMember) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        protocol="classic" if member.member_type == 0 else "consumer",
        epoch=member.member_epoch,
        topics=member.subscribed_topic_names,
        regex=member.subscribed_topic_regex or None,
        assignment=_read_partitions(member.assignment),
        target=_read_partitions(member.target_assignment),
    )


def _view_share_group(found: ShareGroupDescribeResponseDescribedGroup) -> DescribedGroup:
    members = [
        DescribedMember(
            member_id=one.member_id,
            instance_id=None,
            client_id=one.client_id,
            host=one.client_host,
            protocol="share",
            epoch=one.member_epoch,
            topics=one.subscribed_topic_names,
            regex=None,
            assignment=_read_partitions(one.assignment),
            target=None,
        )
        for one in found.members
    ]
    return DescribedGroup(
        found.group_id, "share", found.group_state, found.assignor_name, found.group_epoch, tuple(members)
    )


def _view_streams_group(found: StreamsGroupDescribeResponseDescribedGroup) -> DescribedGroup:
    subtopologies = () if found.topology is None else found.topology.subtopologies or ()
    topics = {
        one.subtopology_id: (*one.source_topics, *(topic.name for topic in one.repartition_source_topics))
        for one in subtopologies
    }
    members = [
        DescribedMember(
            member_id=one.member_id,
            instance_id=one.instance_id,
            client_id=one.client_id,
            host=one.client_host,
            protocol="streams",
            epoch=one.member_epoch,
            topics=(),
            regex=None,
            assignment=_read_tasks(one.assignment, topics),
            target=_read_tasks(one.target_assignment, topics),
        )
        for one in found.members
    ]
    return DescribedGroup(found.group_id, "streams", found.group_state, "", found.group_epoch, tuple(members))


def _read_tasks(
    assignment: StreamsGroupDescribeResponseAssignment, topics: Mapping[str, tuple[str, ...]]
) -> Partitions:
    """Return the partitions that the active tasks read: of each source topic of their subtopology."""
    return {
        topic: tuple(sorted(tasks.partitions))
        for tasks in assignment.active_tasks
        for topic in topics.get(tasks.subtopology_id, ())
    }


def _read_partitions(
    assignment: ConsumerGroupDescribeResponseAssignment | ShareGroupDescribeResponseAssignment,
) -> Partitions:
    return {one.topic_name: tuple(sorted(one.partitions)) for one in assignment.topic_partitions}


def _view_classic_group(found: DescribeGroupsResponseDescribedGroup) -> DescribedGroup:
    return DescribedGroup(
        group=found.group_id,
        type="classic",
        state=found.group_state,
        assignor=found.protocol_data,
        epoch=None,
        members=tuple(_view_classic_member(member, found.protocol_type) for member in found.members),
    )


def _view_classic_member(member: DescribeGroupsResponseDescribedGroupMember, protocol_type: str) -> DescribedMember:
    topics: tuple[str, ...] = ()
    assignment: Partitions = {}
    if protocol_type == CONSUMER_PROTOCOL:
        topics, assignment = _read_protocol(member)
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        protocol="classic",
        epoch=None,
        topics=topics,
        regex=None,
        assignment=assignment,
        target=None,
    )


def _read_protocol(member: DescribeGroupsResponseDescribedGroupMember) -> tuple[tuple[str, ...], Partitions]:
    """Read subscription and assignment. Clients wrote these bytes: unreadable ones are shown as empty."""
    topics: tuple[str, ...] = ()
    assignment: Partitions = {}
    try:
        if member.member_metadata:
            topics = read_subscription(member.member_metadata).topics
        if member.member_assignment:
            assigned = partitions_by_topic(read_assignment(member.member_assignment))
            assignment = {topic: tuple(partitions) for topic, partitions in assigned.items()}
    except ProtocolError:
        pass
    return topics, assignment


_DESCRIBED: Final[tuple[tuple[type[Any], str, Callable[[Any], DescribedGroup]], ...]] = (
    (ConsumerGroupDescribeRequest, "group_ids", _view_consumer_group),
    (DescribeGroupsRequest, "groups", _view_classic_group),
    (StreamsGroupDescribeRequest, "group_ids", _view_streams_group),
    (ShareGroupDescribeRequest, "group_ids", _view_share_group),
)
"""The APIs that describe groups, most common first: the request, its field with the ids, how to read an entry."""
