"""The records of consumer groups (types 3 to 8 and 16), made from the values that they state."""

from coordinator.core.assignors.spec import Assignment
from coordinator.core.kinds.consumer.group import Member, Metadata, ResolvedRegex
from coordinator.core.kinds.consumer.owners import Owned
from coordinator.core.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupCurrentMemberAssignmentValueTopicPartitions,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMemberValueTopicPartition,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    Record,
)


def epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the group's epoch, and the hash of the topics that it was raised for."""
    return Record(ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash))


def no_epoch(group_id: str) -> Record:
    """State that there is no such group any more."""
    return Record(ConsumerGroupMetadataKey(group_id), None)


def no_topics(group_id: str) -> Record:
    """Build the tombstone for the subscription metadata that Kafka 4.0 kept."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id), None)


def member(group_id: str, member_id: str, metadata: Metadata) -> Record:
    """Build the record of a member and its subscription."""
    return Record(ConsumerGroupMemberMetadataKey(group_id, member_id), metadata)


def no_member(group_id: str, member_id: str) -> Record:
    """Build the tombstone of a member that has left; its target and its assignment were deleted before."""
    return Record(ConsumerGroupMemberMetadataKey(group_id, member_id), None)


def target_epoch(group_id: str, epoch: int, at_ms: int) -> Record:
    """Return the epoch that the target assignment was computed for, and when."""
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id)
    return Record(key, ConsumerGroupTargetAssignmentMetadataValue(epoch, at_ms))


def no_target_epoch(group_id: str) -> Record:
    """State that there is no target assignment any more."""
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id), None)


def target(group_id: str, member_id: str, assignment: Assignment) -> Record:
    """Build the record of a member's target assignment. An empty one is an empty list, not a tombstone."""
    partitions = tuple(
        ConsumerGroupTargetAssignmentMemberValueTopicPartition(topic_id, assignment[topic_id])
        for topic_id in sorted(assignment)
    )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)
    return Record(key, ConsumerGroupTargetAssignmentMemberValue(partitions))


def no_target(group_id: str, member_id: str) -> Record:
    """Build the tombstone of a member's target assignment."""
    return Record(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None)


def current(group_id: str, member: Member) -> Record:
    """Build the record of a member's epochs and of the partitions that it owns."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member.epoch,
        member.previous_epoch,
        member.state.value,
        _partitions(member.assigned),
        _partitions(member.pending),
    )
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def no_current(group_id: str, member_id: str) -> Record:
    """Build the tombstone of a member's current assignment."""
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None)


def pattern(group_id: str, pattern: str, resolved: ResolvedRegex) -> Record:
    """Build the record of the topics that a regular expression matched."""
    value = ConsumerGroupRegularExpressionValue(tuple(sorted(resolved.topics)), resolved.version, resolved.at_ms)
    return Record(ConsumerGroupRegularExpressionKey(group_id, pattern), value)


def no_pattern(group_id: str, pattern: str) -> Record:
    """State that nobody subscribes to the regular expression any more."""
    return Record(ConsumerGroupRegularExpressionKey(group_id, pattern), None)


def removal(group_id: str, member_id: str) -> tuple[Record, ...]:
    """Build all tombstones of a member that has left, in the order that replay insists on."""
    return no_current(group_id, member_id), no_target(group_id, member_id), no_member(group_id, member_id)


def _partitions(owned: Owned) -> tuple[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions, ...]:
    entries = []
    for topic_id in sorted(owned):
        partitions = tuple(sorted(owned[topic_id]))
        epochs = tuple(owned[topic_id][partition] for partition in partitions)
        entries.append(ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(topic_id, partitions, epochs))
    return tuple(entries)
