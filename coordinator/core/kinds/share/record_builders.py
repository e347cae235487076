"""The records of share groups (types 10 to 15), made from the values that they state."""

from collections.abc import Mapping

from coordinator.core import record_types as t
from coordinator.core.assignors.spec import Assignment
from coordinator.core.kinds.share.group import STABLE, Member, ShareGroup, StateTopics
from coordinator.core.record_types import Record


def epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the group's epoch, and the hash of the topics that it was raised for."""
    return Record(t.ShareGroupMetadataKey(group_id), t.ShareGroupMetadataValue(epoch, metadata_hash))


def member(group_id: str, member_id: str, metadata: t.ShareGroupMemberMetadataValue) -> Record:
    """Return the record of a member and its subscription."""
    return Record(t.ShareGroupMemberMetadataKey(group_id, member_id), metadata)


def target_epoch(group_id: str, epoch: int, at_ms: int) -> Record:
    """Return the epoch of the target assignment, and when it was computed."""
    key = t.ShareGroupTargetAssignmentMetadataKey(group_id)
    return Record(key, t.ShareGroupTargetAssignmentMetadataValue(epoch, at_ms))


def target(group_id: str, member_id: str, assignment: Assignment) -> Record:
    """Return the record of a member's target assignment. An empty one is an empty list, not a tombstone."""
    entry = t.ShareGroupTargetAssignmentMemberValueTopicPartition
    partitions = tuple([entry(topic_id, tuple(assignment[topic_id])) for topic_id in sorted(assignment)])
    key = t.ShareGroupTargetAssignmentMemberKey(group_id, member_id)
    return Record(key, t.ShareGroupTargetAssignmentMemberValue(partitions))


def current(group_id: str, member: Member) -> Record:
    """Return the record of a member's epochs and of the partitions that it reads."""
    entry = t.ShareGroupCurrentMemberAssignmentValueTopicPartitions
    assigned = tuple([entry(topic_id, tuple(member.assigned[topic_id])) for topic_id in sorted(member.assigned)])
    value = t.ShareGroupCurrentMemberAssignmentValue(member.epoch, member.previous_epoch, STABLE, assigned)
    return Record(t.ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def removal(group_id: str, member_id: str) -> tuple[Record, ...]:
    """Return all tombstones of a member that has left, in the order that replay insists on."""
    return (
        Record(t.ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        Record(t.ShareGroupTargetAssignmentMemberKey(group_id, member_id), None),
        Record(t.ShareGroupMemberMetadataKey(group_id, member_id), None),
    )


def states(group_id: str, initializing: StateTopics, initialized: StateTopics, deleting: Mapping[bytes, str]) -> Record:
    """Return the partitions of which the states are begun, exist and are ended."""
    gone = t.ShareGroupStatePartitionMetadataValueTopicInfo
    value = t.ShareGroupStatePartitionMetadataValue(
        _infos(initializing),
        _infos(initialized),
        tuple([gone(topic_id, deleting[topic_id]) for topic_id in sorted(deleting)]),
    )
    return Record(t.ShareGroupStatePartitionMetadataKey(group_id), value)


def tombstones(group: ShareGroup) -> tuple[Record, ...]:
    """Return the records that end the group, in the order that replay insists on."""
    group_id = group.group_id
    members = [record for member_id in group.members for record in removal(group_id, member_id)]
    return (
        *members,
        Record(t.ShareGroupTargetAssignmentMetadataKey(group_id), None),
        Record(t.ShareGroupStatePartitionMetadataKey(group_id), None),
        Record(t.ShareGroupMetadataKey(group_id), None),
    )


def _infos(topics: StateTopics) -> tuple[t.ShareGroupStatePartitionMetadataValueTopicPartitionsInfo, ...]:
    info = t.ShareGroupStatePartitionMetadataValueTopicPartitionsInfo
    return tuple([info(topic_id, topics[topic_id].name, topics[topic_id].partitions) for topic_id in sorted(topics)])
