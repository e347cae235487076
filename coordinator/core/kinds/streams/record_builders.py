"""The records of streams groups (types 17 and 19 to 23), made from the values that they state."""

from collections.abc import Collection, Mapping
from typing import Any

from coordinator.core import streams_record_types as t
from coordinator.core.assignors.task_spec import TaskAssignment
from coordinator.core.kinds.streams.group import Member, Metadata, StreamsGroup
from coordinator.core.kinds.streams.tasks import Held
from coordinator.core.records import Record


def epoch(group_id: str, epoch: int, metadata_hash: int, validated_epoch: int, settings: Mapping[str, str]) -> Record:
    """Return the group's epoch, and the topics, topology and settings that it was raised for."""
    configs = tuple(t.StreamsGroupMetadataValueLastAssignmentConfig(key, settings[key]) for key in sorted(settings))
    value = t.StreamsGroupMetadataValue(epoch, metadata_hash, validated_epoch, configs)
    return Record(t.StreamsGroupMetadataKey(group_id), value)


def topology(group_id: str, value: t.StreamsGroupTopologyValue) -> Record:
    """Build the record of the group's topology."""
    return Record(t.StreamsGroupTopologyKey(group_id), value)


def member(group_id: str, member_id: str, metadata: Metadata) -> Record:
    """Build the record of a member and of what it says about itself."""
    return Record(t.StreamsGroupMemberMetadataKey(group_id, member_id), metadata)


def target_epoch(group_id: str, epoch: int, at_ms: int) -> Record:
    """Return the epoch that the target assignment was computed for, and when."""
    key = t.StreamsGroupTargetAssignmentMetadataKey(group_id)
    return Record(key, t.StreamsGroupTargetAssignmentMetadataValue(epoch, at_ms))


def target(group_id: str, member_id: str, assignment: TaskAssignment) -> Record:
    """Build the record of a member's target assignment. An empty one has empty lists, and is no tombstone."""
    value = t.StreamsGroupTargetAssignmentMemberValue(
        _target(assignment.active), _target(assignment.standby), _target(assignment.warmup)
    )
    return Record(t.StreamsGroupTargetAssignmentMemberKey(group_id, member_id), value)


def current(group_id: str, member: Member) -> Record:
    """Build the record of a member's epochs and of the tasks that it has."""
    assigned, pending = member.assigned, member.pending
    value = t.StreamsGroupCurrentMemberAssignmentValue(
        member.epoch,
        member.previous_epoch,
        member.state.value,
        _active(assigned.active),
        _copies(assigned.standby),
        _copies(assigned.warmup),
        _active(pending.active),
        _copies(pending.standby),
        _copies(pending.warmup),
    )
    return Record(t.StreamsGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def removal(group_id: str, member_id: str) -> tuple[Record, ...]:
    """Build all tombstones of a member that has left, in the order that replay insists on."""
    return (
        Record(t.StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        Record(t.StreamsGroupTargetAssignmentMemberKey(group_id, member_id), None),
        Record(t.StreamsGroupMemberMetadataKey(group_id, member_id), None),
    )


def tombstones(group: StreamsGroup) -> tuple[Record, ...]:
    """Build the records that end a group."""
    group_id, member_ids = group.group_id, tuple(group.members)
    keys: tuple[Any, ...] = (
        *(t.StreamsGroupCurrentMemberAssignmentKey(group_id, member_id) for member_id in member_ids),
        *(t.StreamsGroupTargetAssignmentMemberKey(group_id, member_id) for member_id in member_ids),
        t.StreamsGroupTargetAssignmentMetadataKey(group_id),
        *(t.StreamsGroupMemberMetadataKey(group_id, member_id) for member_id in member_ids),
        t.StreamsGroupMetadataKey(group_id),
        t.StreamsGroupTopologyKey(group_id),
    )
    return tuple(Record(key, None) for key in keys)


def _target(tasks: Mapping[str, Collection[int]]) -> tuple[t.StreamsGroupTargetAssignmentMemberValueTaskIds, ...]:
    return tuple(
        t.StreamsGroupTargetAssignmentMemberValueTaskIds(number, tuple(sorted(tasks[number])))
        for number in sorted(tasks)
    )


def _active(held: Held) -> tuple[t.StreamsGroupCurrentMemberAssignmentValueTaskIds, ...]:
    entries = []
    for number in sorted(held):
        partitions = tuple(sorted(held[number]))
        epochs = tuple(held[number][partition] for partition in partitions)
        entries.append(t.StreamsGroupCurrentMemberAssignmentValueTaskIds(number, partitions, epochs))
    return tuple(entries)


def _copies(held: Held) -> tuple[t.StreamsGroupCurrentMemberAssignmentValueTaskIds, ...]:
    return tuple(
        t.StreamsGroupCurrentMemberAssignmentValueTaskIds(number, tuple(sorted(held[number])))
        for number in sorted(held)
    )
