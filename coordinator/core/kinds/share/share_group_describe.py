"""ShareGroupDescribe: a share group as it is, with what its members read.

Shown by tests/conformance/stories/share_groups.py.
"""

from typing import Any

from coordinator.core.assignors.spec import Assignment
from coordinator.core.env import Env
from coordinator.core.kinds.share.group import Member, ShareGroup
from coordinator.core.kinds.share.target import ASSIGNOR
from coordinator.core.refusal import truncate
from coordinator.core.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.share_group_describe import (
    ShareGroupDescribeResponseAssignment,
    ShareGroupDescribeResponseDescribedGroup,
    ShareGroupDescribeResponseMember,
    ShareGroupDescribeResponseTopicPartitions,
)


def describe(group: Any, group_id: str, env: Env) -> ShareGroupDescribeResponseDescribedGroup:
    """Describe the group, or say that there is no such share group."""
    if not group_id:
        return ShareGroupDescribeResponseDescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    if not isinstance(group, ShareGroup):
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a share group."
        return ShareGroupDescribeResponseDescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=truncate(message), group_id=group_id
        )
    return ShareGroupDescribeResponseDescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=tuple([_member(member, env.topics) for member in group.members.values()]),
    )


def _member(member: Member, topics: Topics) -> ShareGroupDescribeResponseMember:
    metadata = member.metadata
    return ShareGroupDescribeResponseMember(
        member_id=member.member_id,
        rack_id=metadata.rack_id,
        member_epoch=member.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        assignment=_assignment(member.assigned, topics),
    )


def _assignment(assigned: Assignment, topics: Topics) -> ShareGroupDescribeResponseAssignment:
    """Return partitions by topic id and name. Topics that are gone are left out."""
    found = ((topics.by_id(topic_id), assigned[topic_id]) for topic_id in sorted(assigned))
    entry = ShareGroupDescribeResponseTopicPartitions
    return ShareGroupDescribeResponseAssignment(
        tuple([entry(topic.id, topic.name, tuple(held)) for topic, held in found if topic is not None])
    )
