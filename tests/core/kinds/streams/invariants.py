"""What must be true of a streams group at any time: tasks, the index of their owners, counters, targets."""

from collections.abc import Iterable, Iterator
from typing import Any

from coordinator.core.assignors.task_spec import TaskAssignment
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.core.kinds.streams.owners import TaskOwners
from coordinator.core.kinds.streams.tasks import ROLES, HeldTasks, task_name

Task = tuple[str, str, int]
"""Role, subtopology and partition."""


def tasks_of(tasks: HeldTasks | TaskAssignment) -> Iterator[Task]:
    """List what is held or wanted."""
    for role in ROLES:
        for number, partitions in getattr(tasks, role).items():
            assert partitions, f"subtopology {number} without partitions"
            yield from ((role, number, partition) for partition in partitions)


def tasks_told(answer: Any) -> list[Task]:
    """List the tasks that a response gives to a member."""
    return [
        (role, each.subtopology_id, partition)
        for role in ROLES
        for each in getattr(answer, f"{role}_tasks") or ()
        for partition in each.partitions
    ]


def check(group: StreamsGroup) -> None:
    """No active task has two owners, no copy is beside its task, and what follows from the members agrees with them."""
    held = [(m.process_id, m.member_id, each) for m in group.members.values() for each in tasks_of(m.assigned)]
    held += [(m.process_id, m.member_id, each) for m in group.members.values() for each in tasks_of(m.pending)]
    _check_owners(held, "held")
    wanted = [
        (group.members[member_id].process_id, member_id, each)
        for member_id, target in group.targets.items()
        for each in tasks_of(target)
    ]
    _check_owners(wanted, "wanted")
    _check_target_is_whole(group, {each for _, _, each in wanted})
    for member in group.members.values():
        assert member.epoch <= group.epoch, f"{member.member_id} is ahead of its group"
    assert group.assignment_epoch <= group.epoch, "a target from the future"
    assert group.settled == sum(member.is_at(group.assignment_epoch) for member in group.members.values()), "settled"
    rebuilt = StreamsGroup("g")
    for member in group.members.values():
        rebuilt = rebuilt.with_member(member)
    assert group.owners == rebuilt.owners, "the owners' index"


def _check_owners(all_tasks: Iterable[tuple[str, str, Task]], how: str) -> None:
    active: dict[tuple[str, int], str] = {}
    by_process: dict[tuple[str, str, int], str] = {}
    for process, member, (role, number, partition) in all_tasks:
        name = task_name(number, partition)
        assert (process, number, partition) not in by_process, f"{name} is twice in process {process}, {how}"
        by_process[process, number, partition] = member
        if role == "active":
            owner = active.setdefault((number, partition), member)
            assert owner == member, f"active task {name} is {how} by {owner} and {member}"


def _check_target_is_whole(group: StreamsGroup, wanted: set[Task]) -> None:
    """A target of now leaves no task out, and gives nobody a task that there is not."""
    configured = group.configured
    if configured is None or group.assignment_epoch < group.epoch or not group.members:
        return
    if group.assignment_epoch == 1:
        return  # nobody has computed one yet
    active = {(number, partition) for role, number, partition in wanted if role == "active"}
    if not configured.is_ready:
        assert not wanted, f"tasks of a topology that is not ready: {sorted(wanted)}"
        return
    tasks = {(number, p) for number, each in configured.subtopologies.items() for p in range(each.task_count)}
    assert active == tasks, f"tasks without an owner: {sorted(tasks - active)}, unknown tasks: {sorted(active - tasks)}"


def owned_by(owners: TaskOwners) -> dict[str, dict[tuple[str, int], object]]:
    """Return the index without its empty entries."""
    return {
        role: {
            (number, partition): owner
            for number, partitions in getattr(owners, role).items()
            for partition, owner in partitions.items()
            if owner
        }
        for role in ROLES
    }
