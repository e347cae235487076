"""The one place where a consumer group changes: by applying a record, at a start and right after it was written.

Shown by tests/core/scripts/consumer/{replay_lenient,unknown_state}.txt and tests/core/kinds/consumer/test_replay.py.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.kinds.consumer.group import ConsumerGroup, Member, ResolvedRegex
from coordinator.core.kinds.consumer.owners import Owned
from coordinator.core.kinds.consumer.states import MemberState
from coordinator.core.kinds.modern.replay import (
    Apply,
    apply_member,
    apply_target,
    apply_target_epoch,
    check_deletable,
    drop_assignment,
    read_with_epochs,
    record_applier,
)
from coordinator.core.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValueTopicPartitions,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)


def _epoch(group: ConsumerGroup, key: Any, value: Any) -> ConsumerGroup | None:
    if value is not None:
        return replace(group, epoch=value.epoch, metadata_hash=value.metadata_hash)
    check_deletable(group)
    return None


def _topics(group: ConsumerGroup, key: Any, value: Any) -> ConsumerGroup:
    return replace(group, has_topics_record=value is not None)


def _member(group: ConsumerGroup, key: Any, value: Any) -> Any:
    if value is not None and value.subscribed_topic_regex is None:
        value = replace(value, subscribed_topic_regex="")
    return apply_member(group, key.member_id, value, Member)


def _target(group: ConsumerGroup, key: Any, value: Any) -> Any:
    entries = None if value is None else value.topic_partitions
    target = None if entries is None else {entry.topic_id: entry.partitions for entry in entries if entry.partitions}
    return apply_target(group, key.member_id, target)


def _current(group: ConsumerGroup, key: Any, value: Any) -> Any:
    if value is None:
        return drop_assignment(group, key.member_id, assigned={}, pending={})
    return group.with_member(
        replace(
            group.members.get(key.member_id) or Member(key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.read(value.state),
            assigned=_read_partitions(value.assigned_partitions, value.member_epoch),
            pending=_read_partitions(value.partitions_pending_revocation, value.member_epoch),
        )
    )


def _pattern(group: ConsumerGroup, key: Any, value: Any) -> ConsumerGroup:
    resolved = dict(group.resolved)
    if value is None:
        resolved.pop(key.regular_expression, None)
    else:
        resolved[key.regular_expression] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    return replace(group, resolved=resolved)


def _read_partitions(
    entries: tuple[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions, ...], epoch: int
) -> Owned:
    return read_with_epochs(((entry.topic_id, entry) for entry in entries), epoch)


_APPLY: Final[Mapping[type, Apply]] = {
    ConsumerGroupMetadataKey: _epoch,
    ConsumerGroupPartitionMetadataKey: _topics,
    ConsumerGroupMemberMetadataKey: _member,
    ConsumerGroupTargetAssignmentMetadataKey: apply_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _target,
    ConsumerGroupCurrentMemberAssignmentKey: _current,
    ConsumerGroupRegularExpressionKey: _pattern,
}
KEYS: Final = frozenset(_APPLY)
apply_record: Final = record_applier(ConsumerGroup, _APPLY)
