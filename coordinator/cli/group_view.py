"""Describe a group of either protocol, for the commands. Not a subcommand."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from coordinator.cli.cluster import BrokerError, Cluster, check
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from protocol.messages.consumer_protocol import read_assignment, read_subscription
from protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponseDescribedGroup,
    DescribeGroupsResponseDescribedGroupMember,
)

NOT_CONSUMER = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID})
"""Errors of ConsumerGroupDescribe that leave DescribeGroups to be asked, which knows a group with an empty id too."""
CONSUMER_PROTOCOL = "consumer"  # the protocol type of classic groups whose opaque bytes can be read
Partitions = Mapping[str, tuple[int, ...]]


class MemberView(Struct, frozen=True):
    """A member of either protocol."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    protocol: str  # "classic" or "consumer"
    epoch: int | None  # None: a classic group's members have none of their own
    topics: tuple[str, ...]
    regex: str | None
    assignment: Partitions
    target: Partitions | None  # None: a classic group has none


class GroupView(Struct, frozen=True):
    """A group of either type."""

    group: str
    type: str  # "classic" or "consumer"
    state: str  # by Kafka's names
    assignor: str
    epoch: int | None  # None: DescribeGroups does not have a classic group's generation
    members: tuple[MemberView, ...]


def describe_group(cluster: Cluster, group: str) -> GroupView | None:
    """Describe a group of either type; None if no group has this id. Raises ClientError."""
    if cluster.any.versions(ConsumerGroupDescribeRequest()):
        response = cluster.ask_coordinator(group, ConsumerGroupDescribeRequest((group,)), _find_codes)
        (found,) = response.groups
        if found.error_code == ErrorCode.NONE:
            return _view_consumer_group(found)
        if found.error_code not in NOT_CONSUMER:
            raise BrokerError(f"describe {group}", found.error_code, found.error_message)
    response = cluster.ask_coordinator(group, DescribeGroupsRequest((group,)), _find_codes)
    (found,) = response.groups
    # Up to version 5 an unknown group is described as dead, without an error.
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND or found.group_state == "Dead":
        return None
    check(f"describe {group}", found.error_code, found.error_message)
    return _view_classic_group(found)


def _find_codes(response: Any) -> list[int]:
    return [one.error_code for one in response.groups]


def _view_consumer_group(found: ConsumerGroupDescribeResponseDescribedGroup) -> GroupView:
    return GroupView(
        group=found.group_id,
        type="consumer",
        state=found.group_state,
        assignor=found.assignor_name,
        epoch=found.group_epoch,
        members=tuple(_view_consumer_member(member) for member in found.members),
    )


def _view_consumer_member(member: ConsumerGroupDescribeResponseMember) -> MemberView:
    return MemberView(
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


def _read_partitions(assignment: ConsumerGroupDescribeResponseAssignment) -> Partitions:
    return {one.topic_name: tuple(sorted(one.partitions)) for one in assignment.topic_partitions}


def _view_classic_group(found: DescribeGroupsResponseDescribedGroup) -> GroupView:
    return GroupView(
        group=found.group_id,
        type="classic",
        state=found.group_state,
        assignor=found.protocol_data,
        epoch=None,
        members=tuple(_view_classic_member(member, found.protocol_type) for member in found.members),
    )


def _view_classic_member(member: DescribeGroupsResponseDescribedGroupMember, protocol_type: str) -> MemberView:
    topics: tuple[str, ...] = ()
    assignment: Partitions = {}
    if protocol_type == CONSUMER_PROTOCOL:
        topics, assignment = _read_protocol(member)
    return MemberView(
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
            assigned = read_assignment(member.member_assignment).assigned_partitions
            assignment = {one.topic: tuple(sorted(one.partitions)) for one in assigned}
    except ProtocolError:
        pass
    return topics, assignment
