"""How a member gets from the tasks that it has to those that it shall have: give up first, then take.

Only the member that speaks is moved. What it has to give up stays its own, unassigned but held, until it reports that
it has given it up. A task comes to a member only when no other process has it as an active one, and its own process has
it in no other role: so no active task has two owners at any time, and no standby is beside its active task.

    STABLE ──► UNREVOKED: told to give up tasks, at its old epoch
      │            │ it owns none of them any more
      ▼            ▼
    STABLE ◄── UNRELEASED: at the new epoch, some tasks not free yet

Shown by tests/core/kinds/streams/test_reconcile.py and tests/conformance/stories/streams_reconcile.py.
"""

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.assignors.task_spec import TaskAssignment
from coordinator.core.kinds.streams.group import Member
from coordinator.core.kinds.streams.owners import TaskOwners
from coordinator.core.kinds.streams.states import MemberState
from coordinator.core.kinds.streams.tasks import NO_HELD_TASKS, Held, HeldTasks, ReportedTasks
from coordinator.core.refusal import Refusal
from protocol.errors import ErrorCode

IsTaken = Callable[[str, int], bool]
"""Given subtopology and partition: whether the member may not have the task yet."""


class _Step(Struct, frozen=True, gc=False):
    """The tasks of one role on the way to the target."""

    kept: Held
    lost: Held
    free: Held
    is_blocked: bool  # some tasks of the target are not free yet


def reconcile(
    owners: TaskOwners, member: Member, target: TaskAssignment, epoch: int, reported: ReportedTasks | None
) -> Member | Refusal:
    """Return the member one step further on its way to a target of that epoch; the very same if it stays."""
    if member.state is MemberState.STABLE:
        return member if member.epoch == epoch else _advance(owners, member, target, epoch, reported, member.epoch)
    if member.state is MemberState.UNREVOKED_TASKS:
        if reported is None or reported.has_any(member.pending):
            return member
        return _advance(owners, member, target, epoch, reported, member.epoch + 1)
    if member.state is MemberState.UNRELEASED_TASKS:
        return _advance(owners, member, target, epoch, reported, member.epoch)
    if reported is None or not reported.is_empty:
        message = "The member is in an unknown state. It must abandon all its tasks and rejoin."
        return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, message)
    return _advance(owners, member, target, epoch, reported, epoch)


def _advance(
    owners: TaskOwners,
    member: Member,
    target: TaskAssignment,
    epoch: int,
    reported: ReportedTasks | None,
    stay_at: int,
) -> Member:
    """Return the member on its way to the target; at epoch `stay_at` while it has to give something up first."""
    mine = member.process_id

    def is_active_or_copied(number: str, partition: int) -> bool:
        return owners.active_owner(number, partition) is not None or owners.has_copy(mine, number, partition)

    def is_mine(number: str, partition: int) -> bool:
        return owners.active_owner(number, partition) == mine or owners.has_copy(mine, number, partition)

    assigned = member.assigned
    active = _step(assigned.active, target.active, epoch, is_active_or_copied)
    standby = _step(assigned.standby, target.standby, 0, is_mine)
    warmup = _step(assigned.warmup, target.warmup, 0, is_mine)
    lost = HeldTasks(active.lost, standby.lost, warmup.lost)
    if not lost.is_empty and (reported is None or reported.has_any(lost)):
        kept = HeldTasks(active.kept, standby.kept, warmup.kept)
        return _move(member, MemberState.UNREVOKED_TASKS, stay_at, kept, lost)
    owned = HeldTasks(*(_merge(step.kept, step.free) for step in (active, standby, warmup)))
    is_blocked = active.is_blocked or standby.is_blocked or warmup.is_blocked
    state = MemberState.UNRELEASED_TASKS if is_blocked else MemberState.STABLE
    return _move(member, state, epoch, owned, NO_HELD_TASKS)


def _move(member: Member, state: MemberState, epoch: int, assigned: HeldTasks, pending: HeldTasks) -> Member:
    return replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, pending=pending)


def _step(held: Held, target: Mapping[str, Collection[int]], epoch: int, is_taken: IsTaken) -> _Step:
    """Compare what a member has in one role with its target; a task that comes to it comes in `epoch`."""
    kept, lost, free = {}, {}, {}
    is_blocked = False
    for number, partitions in held.items():
        wanted = set(target.get(number, ()))
        if stays := {partition: since for partition, since in partitions.items() if partition in wanted}:
            kept[number] = stays
        if goes := {partition: since for partition, since in partitions.items() if partition not in wanted}:
            lost[number] = goes
    for number, wants in target.items():
        has = held.get(number, {})
        new = [partition for partition in wants if partition not in has]
        takes = {partition: epoch for partition in new if not is_taken(number, partition)}
        is_blocked = is_blocked or len(takes) < len(new)
        if takes:
            free[number] = takes
    return _Step(kept, lost, free, is_blocked)


def _merge(kept: Held, free: Held) -> Held:
    if not free:
        return kept
    merged = {number: dict(partitions) for number, partitions in kept.items()}
    for number, partitions in free.items():
        merged.setdefault(number, {}).update(partitions)
    return merged
