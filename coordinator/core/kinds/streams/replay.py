"""The one place where a streams group changes: by applying a record, at a start and right after it was written.

Tombstones of what is not there are ignored, since compaction may have taken what they delete. What no log of a healthy
coordinator can hold raises `Inconsistent`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core import streams_record_types as t
from coordinator.core.assignors.task_spec import TaskAssignment, Tasks
from coordinator.core.kinds.kind import Inconsistent
from coordinator.core.kinds.modern.epochs import LEFT
from coordinator.core.kinds.streams.group import Member, StreamsGroup
from coordinator.core.kinds.streams.states import MemberState
from coordinator.core.kinds.streams.tasks import NO_HELD_TASKS, Held, HeldTasks
from coordinator.core.kinds.streams.topology import read_topology
from coordinator.core.records import Record


def apply_record(group: StreamsGroup | None, record: Record) -> StreamsGroup | None:
    """Return the group after a record of its own; None when there is none (any more)."""
    key: Any = record.key
    value = record.value
    if group is None:
        if value is None:
            return None
        group = StreamsGroup(key.group_id)
    return _APPLY[type(key)](group, key, value)


def _epoch(group: StreamsGroup, key: Any, value: Any) -> StreamsGroup | None:
    if value is not None:
        return replace(
            group,
            epoch=value.epoch,
            metadata_hash=value.metadata_hash,
            validated_epoch=value.validated_topology_epoch,
            settings={config.key: config.value for config in value.last_assignment_configs or ()},
        )
    if group.members:
        raise Inconsistent(f"group {group.group_id} is deleted and still has members")
    if group.assignment_epoch != LEFT:
        raise Inconsistent(f"group {group.group_id} is deleted and its target was not")
    return None


def _topology(group: StreamsGroup, key: Any, value: Any) -> StreamsGroup:
    return replace(group, topology=None if value is None else read_topology(value), configured=None)


def _member(group: StreamsGroup, key: Any, value: Any) -> StreamsGroup:
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


def _target_epoch(group: StreamsGroup, key: Any, value: Any) -> StreamsGroup:
    if value is not None:
        return group.with_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
    if group.targets:
        raise Inconsistent(f"the target of {group.group_id} is deleted and members still have theirs")
    return group.with_assignment_epoch(LEFT, 0)


def _target(group: StreamsGroup, key: Any, value: Any) -> StreamsGroup:
    if value is None:
        return replace(group, targets=group.targets.without_key(key.member_id))
    assignment = TaskAssignment(_tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks))
    return replace(group, targets=group.targets.with_item(key.member_id, assignment))


def _current(group: StreamsGroup, key: Any, value: Any) -> StreamsGroup:
    old = group.members.get(key.member_id)
    if value is None:
        if old is None:
            return group
        left = replace(old, epoch=LEFT, previous_epoch=LEFT, assigned=NO_HELD_TASKS, pending=NO_HELD_TASKS)
        return group.with_member(left)
    return group.with_member(
        replace(
            old or Member(key.member_id),
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
    """Read active tasks with the epochs in which they came; where there are none the member epoch is used."""
    held = {}
    for entry in entries:
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            epochs = (max(epoch, 0),) * len(entry.partitions)
        if entry.partitions:
            held[entry.subtopology_id] = dict(zip(entry.partitions, epochs, strict=True))
    return held


def _copies(entries: Iterable[t.StreamsGroupCurrentMemberAssignmentValueTaskIds]) -> Held:
    return {entry.subtopology_id: dict.fromkeys(entry.partitions, 0) for entry in entries if entry.partitions}


_APPLY: Final[Mapping[type, Callable[[StreamsGroup, Any, Any], StreamsGroup | None]]] = {
    t.StreamsGroupMetadataKey: _epoch,
    t.StreamsGroupTopologyKey: _topology,
    t.StreamsGroupMemberMetadataKey: _member,
    t.StreamsGroupTargetAssignmentMetadataKey: _target_epoch,
    t.StreamsGroupTargetAssignmentMemberKey: _target,
    t.StreamsGroupCurrentMemberAssignmentKey: _current,
}
KEYS: Final = frozenset(_APPLY)
