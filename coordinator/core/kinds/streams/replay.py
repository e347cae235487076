"""The one place where a streams group changes: by applying a record, at a start and right after it was written."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core import streams_record_types as t
from coordinator.core.assignors.task_spec import TaskAssignment, Tasks
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
from coordinator.core.kinds.streams.group import Member, StreamsGroup
from coordinator.core.kinds.streams.states import MemberState
from coordinator.core.kinds.streams.tasks import NO_HELD_TASKS, Held, HeldTasks
from coordinator.core.kinds.streams.topology import read_topology


def _epoch(group: StreamsGroup, key: Any, value: Any) -> StreamsGroup | None:
    if value is not None:
        return replace(
            group,
            epoch=value.epoch,
            metadata_hash=value.metadata_hash,
            validated_epoch=value.validated_topology_epoch,
            settings={config.key: config.value for config in value.last_assignment_configs or ()},
        )
    check_deletable(group)
    return None


def _topology(group: StreamsGroup, key: Any, value: Any) -> StreamsGroup:
    return replace(group, topology=None if value is None else read_topology(value), configured=None)


def _member(group: StreamsGroup, key: Any, value: Any) -> Any:
    return apply_member(group, key.member_id, value, Member)


def _target(group: StreamsGroup, key: Any, value: Any) -> Any:
    if value is None:
        return apply_target(group, key.member_id, None)
    target = TaskAssignment(_tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks))
    return apply_target(group, key.member_id, target)


def _current(group: StreamsGroup, key: Any, value: Any) -> Any:
    if value is None:
        return drop_assignment(group, key.member_id, assigned=NO_HELD_TASKS, pending=NO_HELD_TASKS)
    return group.with_member(
        replace(
            group.members.get(key.member_id) or Member(key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.read(value.state),
            assigned=HeldTasks(
                _active(value.active_tasks, value.member_epoch),
                _copies(value.standby_tasks),
                _copies(value.warmup_tasks),
            ),
            pending=HeldTasks(
                _active(value.active_tasks_pending_revocation, value.member_epoch),
                _copies(value.standby_tasks_pending_revocation),
                _copies(value.warmup_tasks_pending_revocation),
            ),
        )
    )


def _tasks(entries: Iterable[t.StreamsGroupTargetAssignmentMemberValueTaskIds]) -> Tasks:
    return {entry.subtopology_id: entry.partitions for entry in entries if entry.partitions}


def _active(entries: Iterable[t.StreamsGroupCurrentMemberAssignmentValueTaskIds], epoch: int) -> Held:
    return read_with_epochs(((entry.subtopology_id, entry) for entry in entries), epoch)


def _copies(entries: Iterable[t.StreamsGroupCurrentMemberAssignmentValueTaskIds]) -> Held:
    return {entry.subtopology_id: dict.fromkeys(entry.partitions, 0) for entry in entries if entry.partitions}


_APPLY: Final[Mapping[type, Apply]] = {
    t.StreamsGroupMetadataKey: _epoch,
    t.StreamsGroupTopologyKey: _topology,
    t.StreamsGroupMemberMetadataKey: _member,
    t.StreamsGroupTargetAssignmentMetadataKey: apply_target_epoch,
    t.StreamsGroupTargetAssignmentMemberKey: _target,
    t.StreamsGroupCurrentMemberAssignmentKey: _current,
}
KEYS: Final = frozenset(_APPLY)
apply_record: Final = record_applier(StreamsGroup, _APPLY)
