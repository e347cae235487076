"""The one place where a share group changes: by applying a record, at a start and right after it was written.

Tombstones of what is not there are ignored, since compaction may have taken what they delete. What no log of a healthy
coordinator can hold raises `Inconsistent`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.assignors.spec import Assignment
from coordinator.core.kinds.kind import Inconsistent
from coordinator.core.kinds.share.group import LEFT, Member, ShareGroup, StatePartitions, StateTopics
from coordinator.core.record_types import (
    Record,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)


def apply_record(group: ShareGroup | None, record: Record) -> ShareGroup | None:
    """Return the group after a record of its own; None when there is none (any more)."""
    key: Any = record.key
    value = record.value
    if group is None:
        if value is None:
            return None
        group = ShareGroup(key.group_id)
    return _APPLY[type(key)](group, key, value)


def _epoch(group: ShareGroup, key: Any, value: Any) -> ShareGroup | None:
    if value is not None:
        return replace(group, epoch=value.epoch, metadata_hash=value.metadata_hash)
    if group.members or group.targets or group.assignment_epoch != LEFT:
        raise Inconsistent(f"group {group.group_id} is deleted and still has members or a target")
    return None


def _member(group: ShareGroup, key: Any, value: Any) -> ShareGroup:
    old = group.members.get(key.member_id)
    if value is not None:
        return group.with_member(Member(key.member_id, value) if old is None else replace(old, metadata=value))
    if old is None:
        return group
    if old.epoch != LEFT:
        raise Inconsistent(f"member {key.member_id} of {group.group_id} is deleted and its assignment was not")
    if key.member_id in group.targets:
        raise Inconsistent(f"member {key.member_id} of {group.group_id} is deleted and its target was not")
    return group.without_member(old)


def _target_epoch(group: ShareGroup, key: Any, value: Any) -> ShareGroup:
    if value is not None:
        return replace(group, assignment_epoch=value.assignment_epoch, assignment_at_ms=value.assignment_timestamp)
    if group.targets:
        raise Inconsistent(f"the target of {group.group_id} is deleted and members still have theirs")
    return replace(group, assignment_epoch=LEFT, assignment_at_ms=0)


def _target(group: ShareGroup, key: Any, value: Any) -> ShareGroup:
    if value is None:
        return replace(group, targets=group.targets.without_key(key.member_id))
    return replace(group, targets=group.targets.with_item(key.member_id, _assignment(value.topic_partitions)))


def _current(group: ShareGroup, key: Any, value: Any) -> ShareGroup:
    old = group.members.get(key.member_id)
    if value is None:
        if old is None:
            return group
        return group.with_member(replace(old, epoch=LEFT, previous_epoch=LEFT, assigned={}))
    return group.with_member(
        replace(
            old or Member(key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=_assignment(value.assigned_partitions),
        )
    )


def _states(group: ShareGroup, key: Any, value: Any) -> ShareGroup:
    if value is None:
        return replace(group, initializing={}, initialized={}, deleting={})
    return replace(
        group,
        initializing=_topics(value.initializing_topics),
        initialized=_topics(value.initialized_topics),
        deleting={one.topic_id: one.topic_name for one in value.deleting_topics},
    )


def _assignment(entries: Iterable[Any]) -> Assignment:
    """A topic without partitions stays: its member has lost them, and is told so."""
    return {entry.topic_id: tuple(sorted(entry.partitions)) for entry in entries}


def _topics(entries: Iterable[Any]) -> StateTopics:
    return {entry.topic_id: StatePartitions(entry.topic_name, tuple(sorted(entry.partitions))) for entry in entries}


_APPLY: Final[Mapping[type, Callable[[ShareGroup, Any, Any], ShareGroup | None]]] = {
    ShareGroupMetadataKey: _epoch,
    ShareGroupMemberMetadataKey: _member,
    ShareGroupTargetAssignmentMetadataKey: _target_epoch,
    ShareGroupTargetAssignmentMemberKey: _target,
    ShareGroupCurrentMemberAssignmentKey: _current,
    ShareGroupStatePartitionMetadataKey: _states,
}
KEYS: Final = frozenset(_APPLY)
