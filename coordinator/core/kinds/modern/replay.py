"""Make groups with epochs of their records, at a start and after each write: what their kinds share.

Tombstones of what is not there are ignored, since compaction may have taken what they delete. What no log of a healthy
coordinator can hold raises `Inconsistent`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from coordinator.core.kinds.kind import Inconsistent
from coordinator.core.kinds.modern.epochs import LEFT
from coordinator.core.records import Record

Apply = Callable[[Any, Any, Any], Any]
"""(group, key, value) to the group after the record, None when it is deleted."""


def record_applier(make_group: Callable[[str], Any], by_key: Mapping[type, Apply]) -> Callable[[Any, Record], Any]:
    """Return the function that applies a record to a group, None where there is none, and returns the new group."""

    def apply_record(group: Any, record: Record) -> Any:
        key: Any = record.key
        if group is None:
            if record.value is None:
                return None
            group = make_group(key.group_id)
        return by_key[type(key)](group, key, record.value)

    return apply_record


def check_deletable(group: Any) -> None:
    """Raise Inconsistent unless all that the group had was deleted before it."""
    if group.members or group.targets or group.assignment_epoch != LEFT:
        raise Inconsistent(f"group {group.group_id} is deleted and still has members or a target")


def apply_member(group: Any, member_id: str, metadata: Any, make_member: Callable[[str, Any], Any]) -> Any:
    """Add a member, replace its metadata, or remove it if these are None."""
    old = group.members.get(member_id)
    if metadata is not None:
        return group.with_member(make_member(member_id, metadata) if old is None else replace(old, metadata=metadata))
    if old is None:
        return group
    if old.epoch != LEFT:
        raise Inconsistent(f"member {member_id} of {group.group_id} is deleted and its assignment was not")
    if member_id in group.targets:
        raise Inconsistent(f"member {member_id} of {group.group_id} is deleted and its target was not")
    return group.without_member(old)


def apply_target_epoch(group: Any, key: Any, value: Any) -> Any:
    """Note the epoch that the target was computed for, or that there is no target."""
    if value is not None:
        return group.with_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
    if group.targets:
        raise Inconsistent(f"the target of {group.group_id} is deleted and members still have theirs")
    return group.with_assignment_epoch(LEFT, 0)


def apply_target(group: Any, member_id: str, target: Any) -> Any:
    """Set the target of a member; None removes it."""
    targets = group.targets
    after = targets.without_key(member_id) if target is None else targets.with_item(member_id, target)
    return replace(group, targets=after)


def drop_assignment(group: Any, member_id: str, **nothing: Any) -> Any:
    """Take the current assignment from a member that is about to be deleted; `nothing` are fields without it."""
    old = group.members.get(member_id)
    if old is None:
        return group
    return group.with_member(replace(old, epoch=LEFT, previous_epoch=LEFT, **nothing))


def read_with_epochs(entries: Iterable[tuple[Any, Any]], epoch: int) -> dict[Any, dict[int, int]]:
    """Return {key: {partition: the epoch in which it came}} of records with their keys.

    Where a record has no epochs, those of older brokers, the member's epoch is used.
    """
    owned = {}
    for key, entry in entries:
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            epochs = (max(epoch, 0),) * len(entry.partitions)
        if entry.partitions:
            owned[key] = dict(zip(entry.partitions, epochs, strict=True))
    return owned
