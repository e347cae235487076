"""Track which process has each task of a group, by role.

A process may have several members. Only one process may have a task as an active one; others may have it as a standby.
A process has what its members are assigned and what they have yet to give up.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from msgspec import Struct

from coordinator.core.kinds.streams.tasks import Held, HeldTasks

Actives = Mapping[str, Mapping[int, str]]
Copies = Mapping[str, Mapping[int, frozenset[str]]]
_NOBODY: Final[frozenset[str]] = frozenset()
V = TypeVar("V")


class TaskOwners(Struct, frozen=True, gc=False):
    """Subtopology id -> partition -> the process, or the processes, that have the task in a role."""

    active: Actives = {}
    standby: Copies = {}
    warmup: Copies = {}

    def active_owner(self, subtopology_id: str, partition: int) -> str | None:
        """Return the process that has the task as an active one, None if no process has."""
        held = self.active.get(subtopology_id)
        return None if held is None else held.get(partition)

    def has_copy(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Return whether the process has the task as a standby or a warm-up."""
        copies = (self.standby, self.warmup)
        return any(process_id in role.get(subtopology_id, {}).get(partition, _NOBODY) for role in copies)

    def move_tasks(
        self,
        process_before: str,
        before: tuple[HeldTasks, ...],
        process_after: str,
        after: tuple[HeldTasks, ...],
    ) -> "TaskOwners":
        """Return the index when a member of one process that held `before` holds `after`, as one of another perhaps."""
        return TaskOwners(
            _move_active(self.active, process_before, [each.active for each in before],
                         process_after, [each.active for each in after]),
            _move_copies(self.standby, process_before, [each.standby for each in before],
                         process_after, [each.standby for each in after]),
            _move_copies(self.warmup, process_before, [each.warmup for each in before],
                         process_after, [each.warmup for each in after]),
        )  # fmt: skip


def _move_active(owners: Actives, old: str, before: list[Held], new: str, after: list[Held]) -> Actives:
    """Move an active task, unless another process has it by now."""
    changed: dict[str, dict[int, str]] = {}
    for held in before:
        for number, partitions in held.items():
            mine = _own_copy(owners, changed, number)
            for partition in partitions:
                if mine.get(partition) == old:
                    del mine[partition]
    for held in after:
        for number, partitions in held.items():
            _own_copy(owners, changed, number).update(dict.fromkeys(partitions, new))
    return _merge(owners, changed)


def _move_copies(owners: Copies, old: str, before: list[Held], new: str, after: list[Held]) -> Copies:
    changed: dict[str, dict[int, frozenset[str]]] = {}
    for held in before:
        for number, partitions in held.items():
            mine = _own_copy(owners, changed, number)
            for partition in partitions:
                if left := mine.pop(partition, _NOBODY) - {old}:
                    mine[partition] = left
    for held in after:
        for number, partitions in held.items():
            mine = _own_copy(owners, changed, number)
            for partition in partitions:
                mine[partition] = mine.get(partition, _NOBODY) | {new}
    return _merge(owners, changed)


def _merge(owners: Mapping[str, Mapping[int, V]], changed: dict[str, dict[int, V]]) -> Mapping[str, Mapping[int, V]]:
    """Return the index with what has changed, without subtopologies of which nobody has a task."""
    if not changed:
        return owners
    return {number: held for number, held in {**owners, **changed}.items() if held}


def _own_copy(owners: Mapping[str, Mapping[int, V]], changed: dict[str, dict[int, V]], number: str) -> dict[int, V]:
    mine = changed.get(number)
    if mine is None:
        mine = changed[number] = dict(owners.get(number, ()))
    return mine
