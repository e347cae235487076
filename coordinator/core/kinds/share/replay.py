"""The one place where a share group changes: by applying a record, at a start and right after it was written."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.assignors.spec import Assignment
from coordinator.core.kinds.modern.replay import (
    Apply,
    apply_member,
    apply_target,
    apply_target_epoch,
    check_deletable,
    drop_assignment,
    record_applier,
)
from coordinator.core.kinds.share.group import Member, ShareGroup, StatePartitions, StateTopics
from coordinator.core.record_types import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)


def _epoch(group: ShareGroup, key: Any, value: Any) -> ShareGroup | None:
    if value is not None:
        return replace(group, epoch=value.epoch, metadata_hash=value.metadata_hash)
    check_deletable(group)
    return None


def _member(group: ShareGroup, key: Any, value: Any) -> Any:
    return apply_member(group, key.member_id, value, Member)


def _target(group: ShareGroup, key: Any, value: Any) -> Any:
    return apply_target(group, key.member_id, None if value is None else _assignment(value.topic_partitions))


def _current(group: ShareGroup, key: Any, value: Any) -> Any:
    if value is None:
        return drop_assignment(group, key.member_id, assigned={})
    return group.with_member(
        replace(
            group.members.get(key.member_id) or Member(key.member_id),
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
    """Return an assignment. A topic without partitions stays: its member has lost them, and is told so."""
    return {entry.topic_id: tuple(sorted(entry.partitions)) for entry in entries}


def _topics(entries: Iterable[Any]) -> StateTopics:
    return {entry.topic_id: StatePartitions(entry.topic_name, tuple(sorted(entry.partitions))) for entry in entries}


_APPLY: Final[Mapping[type, Apply]] = {
    ShareGroupMetadataKey: _epoch,
    ShareGroupMemberMetadataKey: _member,
    ShareGroupTargetAssignmentMetadataKey: apply_target_epoch,
    ShareGroupTargetAssignmentMemberKey: _target,
    ShareGroupCurrentMemberAssignmentKey: _current,
    ShareGroupStatePartitionMetadataKey: _states,
}
KEYS: Final = frozenset(_APPLY)
apply_record: Final = record_applier(ShareGroup, _APPLY)
