"""ConsumerGroupDescribe: a consumer group as it is, with what its members own and what they shall own.

Shown by tests/core/scripts/consumer/deleted_topic_described.txt and tests/conformance/stories/consumer_describe.py.
"""

from collections.abc import Collection, Mapping
from typing import Final

from coordinator.core.env import Env
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.consumer.target import assignor_name
from coordinator.core.refusal import truncate
from coordinator.core.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def describe(group: object, group_id: str, env: Env) -> ConsumerGroupDescribeResponseDescribedGroup:
    """Describe the group. Whether the client may see it, and its topics, is checked elsewhere."""
    if not isinstance(group, ConsumerGroup):
        return _describe_unknown_group(group_id)
    return ConsumerGroupDescribeResponseDescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor_name(group, env.limits),
        members=tuple(_member(group, member, env.topics) for member in group.members.values()),
    )


def _describe_unknown_group(group_id: str) -> ConsumerGroupDescribeResponseDescribedGroup:
    """Describe a consumer group that does not exist: its error, and nothing else."""
    if not group_id:
        return ConsumerGroupDescribeResponseDescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    return ConsumerGroupDescribeResponseDescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=truncate(f"Group {group_id} not found."),
        group_id=group_id,
    )


def _member(group: ConsumerGroup, member: Member, topics: Topics) -> ConsumerGroupDescribeResponseMember:
    metadata = member.metadata
    held = {
        topic_id: {*member.assigned.get(topic_id, ()), *member.pending.get(topic_id, ())}
        for topic_id in {*member.assigned, *member.pending}
    }
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=member.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        subscribed_topic_regex=metadata.subscribed_topic_regex,
        assignment=_assignment(held, topics),
        target_assignment=_assignment(group.target(member.member_id), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Collection[int]], topics: Topics) -> ConsumerGroupDescribeResponseAssignment:
    """Return partitions by topic id and name. Topics that are gone are left out."""
    found = ((topics.by_id(topic_id), partitions[topic_id]) for topic_id in sorted(partitions))
    return ConsumerGroupDescribeResponseAssignment(
        tuple(
            ConsumerGroupDescribeResponseTopicPartitions(topic.id, topic.name, tuple(sorted(held)))
            for topic, held in found
            if topic is not None
        )
    )
