"""The one place where a consumer group changes: by applying a record, at a start and right after it was written.

Tombstones of what is not there are ignored, since compaction may have taken what they delete. What no log of a healthy
coordinator can hold raises `Inconsistent`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.kinds.consumer.group import ConsumerGroup, Member, ResolvedRegex
from coordinator.core.kinds.consumer.owners import Owned
from coordinator.core.kinds.consumer.states import MemberState
from coordinator.core.kinds.kind import Inconsistent
from coordinator.core.kinds.modern.epochs import LEFT
from coordinator.core.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValueTopicPartitions,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    Record,
)


def apply_record(group: ConsumerGroup | None, record: Record) -> ConsumerGroup | None:
    """Return the group after a record of its own; None when there is none (any more)."""
    key, value = record.key, record.value
    if group is None:
        if value is None:
            return None
        group = ConsumerGroup(key.group_id)  # type: ignore[union-attr]  # consumer groups' keys all have it
    return _APPLY[type(key)](group, key, value)


def _epoch(group: ConsumerGroup, key: Any, value: Any) -> ConsumerGroup | None:
    if value is not None:
        return replace(group, epoch=value.epoch, metadata_hash=value.metadata_hash)
    if group.members or group.targets or group.assignment_epoch != LEFT:
        raise Inconsistent(f"group {group.group_id} is deleted and still has members or a target")
    return None


def _topics(group: ConsumerGroup, key: Any, value: Any) -> ConsumerGroup:
    return replace(group, has_topics_record=value is not None)


def _member(group: ConsumerGroup, key: Any, value: Any) -> ConsumerGroup:
    old = group.members.get(key.member_id)
    if value is not None:
        if value.subscribed_topic_regex is None:
            value = replace(value, subscribed_topic_regex="")
        return group.with_member(Member(key.member_id, value) if old is None else replace(old, metadata=value))
    if old is None:
        return group
    if old.epoch != LEFT:
        raise Inconsistent(f"member {key.member_id} of {group.group_id} is deleted and its assignment was not")
    if key.member_id in group.targets:
        raise Inconsistent(f"member {key.member_id} of {group.group_id} is deleted and its target was not")
    return group.without_member(old)


def _target_epoch(group: ConsumerGroup, key: Any, value: Any) -> ConsumerGroup:
    if value is not None:
        return group.with_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
    if group.targets:
        raise Inconsistent(f"the target of {group.group_id} is deleted and members still have theirs")
    return group.with_assignment_epoch(LEFT, 0)


def _target(group: ConsumerGroup, key: Any, value: Any) -> ConsumerGroup:
    if value is None:
        return replace(group, targets=group.targets.without_key(key.member_id))
    assignment = {entry.topic_id: entry.partitions for entry in value.topic_partitions if entry.partitions}
    return replace(group, targets=group.targets.with_item(key.member_id, assignment))


def _current(group: ConsumerGroup, key: Any, value: Any) -> ConsumerGroup:
    old = group.members.get(key.member_id)
    if value is None:
        if old is None:
            return group
        return group.with_member(replace(old, epoch=LEFT, previous_epoch=LEFT, assigned={}, pending={}))
    return group.with_member(
        replace(
            old or Member(key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.read(value.state),
            assigned=_read_assigned_partitions(value.assigned_partitions, value.member_epoch),
            pending=_read_assigned_partitions(value.partitions_pending_revocation, value.member_epoch),
        )
    )


def _pattern(group: ConsumerGroup, key: Any, value: Any) -> ConsumerGroup:
    resolved = dict(group.resolved)
    if value is None:
        resolved.pop(key.regular_expression, None)
    else:
        resolved[key.regular_expression] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    return replace(group, resolved=resolved)


def _read_assigned_partitions(
    entries: tuple[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions, ...], epoch: int
) -> Owned:
    """Read partitions with their assignment epochs; records of older brokers have none, so the member epoch is used."""
    owned: dict[bytes, dict[int, int]] = {}
    for entry in entries:
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            epochs = (max(epoch, 0),) * len(entry.partitions)
        if entry.partitions:
            owned[entry.topic_id] = dict(zip(entry.partitions, epochs, strict=True))
    return owned


_APPLY: Final[Mapping[type, Callable[[ConsumerGroup, Any, Any], ConsumerGroup | None]]] = {
    ConsumerGroupMetadataKey: _epoch,
    ConsumerGroupPartitionMetadataKey: _topics,
    ConsumerGroupMemberMetadataKey: _member,
    ConsumerGroupTargetAssignmentMetadataKey: _target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _target,
    ConsumerGroupCurrentMemberAssignmentKey: _current,
    ConsumerGroupRegularExpressionKey: _pattern,
}
KEYS: Final = frozenset(_APPLY)
