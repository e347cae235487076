"""The target of a large group, which is computed in steps after the request that finds it due.

    due ──► ComputeTarget ──► steps, over the group as it was ──► TakeTarget ──► records
             assign, build records, encode them, apply them

That request is answered at once, as between two targets (KIP-1263), and the members hear of the target at their next
heartbeats. What changes meanwhile raises the group's epoch, and the next target is for that one. KIP-1263 lets Kafka
compute targets beside requests as well (`assignor.offload.enable`): Kafka 4.3.1 has the settings, and no thread yet.

All records of a target are one batch of the log, as Kafka writes them: a reader of the log sees the old target or the
new one. The steps have encoded and applied them, so that little is left to be done when the target is taken.

Shown by tests/core/kinds/modern/test_long_targets.py and tests/runtime/test_group_targets.py.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.decision import Steps
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.modern.transition import GroupTransition
from coordinator.core.kinds.registry import kind_of
from coordinator.core.pace import Pace
from coordinator.core.records import EncodedRecord, Record, encode
from coordinator.core.result import ComputedTarget, ComputeTarget, LongTarget, Result, TakeTarget
from protocol.steps import finish_steps

AT_ONCE: Final = 1_000  # members, and what they are assigned, as far as that takes as long: some milliseconds

_UNITS_A_RECORD: Final = 3

FindHeir = Callable[[Any, Any], str | None]
"""(group, a member that is gone) to the id of the member that took its place, None if none has."""


def is_long(work: int) -> bool:
    """Return whether a target of so many members and tasks, or partitions, is computed in steps."""
    return work > AT_ONCE


def compute(
    transition: GroupTransition[Any], work: int, steps: Steps[tuple[Record, ...]], assignor: str, records: Any
) -> None:
    """Compute the target for the group's epoch: at once if it is little work, else in steps, after this operation.

    The steps return the records of members. `records` is the module that makes the records of the kind.
    """
    group = transition.group
    if not is_long(work):
        transition.write(*finish_steps(steps))
        _write_epoch(transition, group.epoch, assignor, records)
        return
    target = LongTarget(group.epoch, assignor, transition.by)
    transition.group = replace(group, long_target=target)
    wanted = ComputeTarget(group.group_id, target, _prepare(group, steps), transition.env.call)
    transition.effects.append(wanted)


def _prepare(group: Any, steps: Steps[tuple[Record, ...]]) -> Steps[ComputedTarget]:
    """Encode and apply the records that the steps return, in steps too."""
    pace, encoded, apply_by_key, before = Pace(), [], kind_of(group).keys, group
    for record in (yield from steps):
        if pace.is_due(_UNITS_A_RECORD):
            yield
        encoded.append(EncodedRecord(record.key, record.value, encode(record)))
        group = apply_by_key[type(record.key)](group, record)
    return ComputedTarget(tuple(encoded), before, group.targets)


def take(
    transition: GroupTransition[Any], taken: TakeTarget, records: Any, find_heir: FindHeir = lambda group, gone: None
) -> Result[Any]:
    """Take a target that was computed in steps, unless the group has a newer one, or is another one, by now.

    A member that has left meanwhile gets nothing, unless another one took its place and has its target; one that has
    joined waits for the next target.
    """
    group, target = transition.group, taken.target
    if group.long_target is not target:
        return Result()
    transition.group = replace(group, long_target=None)
    if taken.computed is not None and group.assignment_epoch < target.epoch:
        _write_target_records(transition, taken.computed, records, find_heir)
        _write_epoch(transition, target.epoch, target.assignor, records)
    return transition.result()


def _write_target_records(
    transition: GroupTransition[Any], computed: ComputedTarget, records: Any, find_heir: FindHeir
) -> None:
    """Write the records that the steps have applied, but those of members whose targets are others meanwhile."""
    group, targets, before = transition.group, computed.targets, computed.before.targets
    gone = [member_id for member_id in targets if member_id not in group.members]
    others = set(gone)
    if group.targets is not before:
        others |= {each for each in (*before, *group.targets) if before.get(each) is not group.targets.get(each)}
    for member_id in others:
        target = group.targets.get(member_id)
        targets = targets.without_key(member_id) if target is None else targets.with_item(member_id, target)
    transition.group = replace(group, targets=targets)
    transition.records += [record for record in computed.records if record.key.member_id not in others]
    for member_id in gone:
        if (heir := find_heir(group, computed.before.members[member_id])) is not None:
            transition.write(records.target(group.group_id, heir, computed.targets[member_id]))


def give_up(group: Any, taken: TakeTarget, env: Env) -> Result[Any]:
    """Give up a target whose records are more than the log takes at once: it is not computed again for this epoch."""
    transition = GroupTransition(group, env, taken.target.by)
    transition.group = replace(group, long_target=replace(taken.target, is_too_large=True))
    transition.tell(Cause.ASSIGNMENT_TOO_LARGE, protocol=taken.target.assignor)
    return transition.result()


def target_records(group: Any, targets: Mapping[str, Any], nothing: Any, records: Any) -> Steps[tuple[Record, ...]]:
    """Return the records of the members that a target changes, in steps. A member that is not named gets `nothing`."""
    pace, changed = Pace(), []
    for member_id in group.members:
        target = targets.get(member_id, nothing)
        old = group.targets.get(member_id)
        if pace.is_due():
            yield
        if old is None or (old is not target and old != target):
            changed.append(records.target(group.group_id, member_id, target))
    return tuple(changed)


def _write_epoch(transition: GroupTransition[Any], epoch: int, assignor: str, records: Any) -> None:
    transition.write(records.target_epoch(transition.group.group_id, epoch, transition.now_ms))
    transition.tell(Cause.ASSIGNMENT_COMPUTED, protocol=assignor)
