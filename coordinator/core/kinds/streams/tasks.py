"""Tasks by their role: active ones process records, standby ones keep a copy of the state, warm-up ones build one up.

Kafka 4.3 assigns no warm-up tasks. They are in the records, so they are read, handed over and written like the others.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from msgspec import Struct

Held = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the epoch in which the member got the task; 0 for tasks that are not active. No
subtopology without partitions."""

ROLES: Final = ("active", "standby", "warmup")


class HeldTasks(Struct, frozen=True, gc=False):
    """The tasks that a member has, or has to give up."""

    active: Held = {}
    standby: Held = {}
    warmup: Held = {}

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


NO_HELD_TASKS: Final = HeldTasks()


class TaskIds(Protocol):
    """Some tasks of one subtopology, in a request or a record."""

    @property
    def subtopology_id(self) -> str: ...

    @property
    def partitions(self) -> tuple[int, ...]: ...


class RequestedTasks(Protocol):
    """The lists of a heartbeat; None where the member says that nothing has changed."""

    @property
    def active_tasks(self) -> tuple[TaskIds, ...] | None: ...

    @property
    def standby_tasks(self) -> tuple[TaskIds, ...] | None: ...

    @property
    def warmup_tasks(self) -> tuple[TaskIds, ...] | None: ...


class ReportedTasks(Struct, frozen=True, gc=False):
    """The tasks that a member reports to own. It acknowledges with it that it has given up all others."""

    active: Iterable[TaskIds] = ()
    standby: Iterable[TaskIds] = ()
    warmup: Iterable[TaskIds] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def has_any(self, tasks: HeldTasks) -> bool:
        """Return whether the member still owns one of these, in the same role."""
        return any(_has_any(getattr(self, role), getattr(tasks, role)) for role in ROLES)

    def is_within(self, tasks: HeldTasks) -> bool:
        """Return whether all that the member owns is among these, in the same role."""
        return all(_is_within(getattr(self, role), getattr(tasks, role)) for role in ROLES)

    def lacks_any(self, tasks: HeldTasks) -> bool:
        """Return whether the member does not own one of these, in that role."""
        return any(_lacks_any(getattr(self, role), getattr(tasks, role)) for role in ROLES)


def reported_tasks(request: RequestedTasks) -> ReportedTasks | None:
    """Return what a heartbeat reports; None if it has no lists, which acknowledges nothing."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return ReportedTasks(active, standby, warmup)


def task_name(subtopology_id: str, partition: int) -> str:
    """Return the name of a task as Kafka Streams spells it: `0_1`."""
    return f"{subtopology_id}_{partition}"


def task_names(tasks: Mapping[str, Collection[int]]) -> list[str]:
    """Return the names of all these tasks, in order."""
    return [task_name(number, partition) for number in sorted(tasks) for partition in sorted(tasks[number])]


def describe_given(before: HeldTasks, after: HeldTasks) -> tuple[str, ...]:
    """Return the tasks that are new to a member: `0_1` for an active one, else with the role behind it."""
    return tuple(
        task_name(number, partition) + ("" if role == ROLES[0] else f" {role}")
        for role in ROLES
        for number, partitions in sorted(getattr(after, role).items())
        for partition in sorted(partitions)
        if partition not in getattr(before, role).get(number, {})
    )


def _has_any(listed: Iterable[TaskIds], held: Held) -> bool:
    return any(
        partition in partitions
        for entry in listed
        if (partitions := held.get(entry.subtopology_id)) is not None
        for partition in entry.partitions
    )


def _lacks_any(listed: Iterable[TaskIds], held: Held) -> bool:
    owned = {(entry.subtopology_id, partition) for entry in listed for partition in entry.partitions}
    return any((number, partition) not in owned for number, partitions in held.items() for partition in partitions)


def _is_within(listed: Iterable[TaskIds], held: Held) -> bool:
    return all(
        (partitions := held.get(entry.subtopology_id)) is not None
        and all(each in partitions for each in entry.partitions)
        for entry in listed
    )
