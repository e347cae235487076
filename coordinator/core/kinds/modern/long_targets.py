"""The target of a large group, which is computed in steps after the request that finds it due.

    due ──► ComputeTarget ──► steps, over the group as it was ──► TakeTarget ──► records

That request is answered at once, as between two targets (KIP-1263), and the members hear of the target at their next
heartbeats. What changes meanwhile raises the group's epoch, and the next target is for that one. KIP-1263 lets Kafka
compute targets beside requests as well (`assignor.offload.enable`): Kafka 4.3.1 has the settings, and no thread yet.

Shown by tests/core/kinds/modern/test_long_targets.py and tests/runtime/test_group_targets.py.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.decision import Steps, finish_steps
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.modern.transition import GroupTransition
from coordinator.core.pace import Pace
from coordinator.core.records import Record
from coordinator.core.result import ComputeTarget, LongTarget, Result, TakeTarget

AT_ONCE: Final = 1_000  # members and what they are assigned: some milliseconds


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
        _write(transition, group.epoch, finish_steps(steps), assignor, records)
        return
    target = LongTarget(group.epoch, assignor, transition.by)
    transition.group = replace(group, long_target=target)
    transition.effects.append(ComputeTarget(group.group_id, target, steps, transition.env.call))


def take(transition: GroupTransition[Any], computed: TakeTarget, records: Any) -> Result[Any]:
    """Take a target that was computed in steps, unless the group has a newer one, or is another one, by now.

    A member that has left meanwhile gets nothing; one that has joined waits for the next target.
    """
    group, target = transition.group, computed.target
    if group.long_target is not target:
        return Result()
    transition.group = replace(group, long_target=None)
    if computed.records is not None and group.assignment_epoch < target.epoch:
        staying = tuple([record for record in computed.records if record.key.member_id in group.members])
        _write(transition, target.epoch, staying, target.assignor, records)
    return transition.result()


def drop(group: Any, computed: TakeTarget, env: Env) -> Result[Any]:
    """Drop a target whose records are more than the log takes at once: the next heartbeat has another one computed."""
    return Result(replace(group, long_target=None))


def target_records(group: Any, targets: Mapping[str, Any], nothing: Any, records: Any) -> Steps[tuple[Record, ...]]:
    """Return the records of the members that a target changes, in steps. A member that is not named gets `nothing`."""
    pace, changed = Pace(), []
    for member_id in group.members:
        target = targets.get(member_id, nothing)
        old = group.targets.get(member_id)
        if pace.is_due():
            yield
        if old is not target and old != target:
            changed.append(records.target(group.group_id, member_id, target))
    return tuple(changed)


def _write(
    transition: GroupTransition[Any], epoch: int, changed: tuple[Record, ...], assignor: str, records: Any
) -> None:
    transition.write(*changed, records.target_epoch(transition.group.group_id, epoch, transition.now_ms))
    transition.tell(Cause.ASSIGNMENT_COMPUTED, protocol=assignor)
