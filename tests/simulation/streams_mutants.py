"""Servers with one mistake each in what they do for applications of Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.assignors.task_spec import TaskAssignment, TaskGroupSpec
from coordinator.core.decision import Steps
from coordinator.core.kinds.streams import reconcile, replay, steps, streams_group_heartbeat, target, timers
from coordinator.core.kinds.streams.owners import TaskOwners
from coordinator.core.kinds.streams.tasks import ReportedTasks
from coordinator.core.result import Result
from tests.mistakes import Faulty, Plant, replacing

MUTANTS: Final[dict[str, Plant]] = {}


def instead(owner: Any, name: str, *, every: int = 1) -> Callable[[Faulty], Faulty]:
    """Register a mistake: call it in place of a function or method, at one of so many calls."""

    def register(faulty: Faulty) -> Faulty:
        MUTANTS[faulty.__name__] = replacing(owner, name, faulty, every)
        return faulty

    return register


# -- the target --------------------------------------------------------------------------------------------------------


@instead(target, "target_records")
def leaves_a_task_out(method: Any, group: Any, targets: dict[str, TaskAssignment]) -> Any:
    """Give nobody some of the tasks."""
    changed = dict(targets)
    for member_id in sorted(targets):
        if active := targets[member_id].active:
            changed[member_id] = replace(targets[member_id], active=dict(list(active.items())[1:]))
            break
    return method(group, changed)


@instead(target, "target_records")
def gives_a_task_to_two(method: Any, group: Any, targets: dict[str, TaskAssignment]) -> Any:
    """Give one member the tasks of another one as well."""
    changed = dict(targets)
    for one, other in pairwise(sorted(targets)):
        changed[other] = replace(targets[other], active={**targets[other].active, **targets[one].active})
    return method(group, changed)


@instead(target, "target_records")
def puts_standbys_beside_their_task(method: Any, group: Any, targets: dict[str, TaskAssignment]) -> Any:
    """Give each member the copies of its own tasks."""
    return method(group, {name: replace(one, standby=one.active) for name, one in targets.items()})


@instead(target, "spec_of")
def asks_for_no_standbys(method: Any, *args: Any) -> Steps[TaskGroupSpec]:
    """Forget the setting of standbys."""
    return replace((yield from method(*args)), standby_replicas=0)


@instead(steps, "_have_topics_changed")
def sees_no_topic_grow(method: Any, *args: Any) -> bool:
    """Believe that the topics of a topology stay what they are."""
    return False


# -- on the way to it --------------------------------------------------------------------------------------------------


@instead(TaskOwners, "active_owner")
def takes_tasks_that_are_not_free(method: Any, *args: Any) -> None:
    """Give a member active tasks that another one has not given up."""


@instead(TaskOwners, "has_copy")
def takes_tasks_beside_their_copies(method: Any, *args: Any) -> bool:
    """Give a process a task of which it still has the standby."""
    return False


@instead(ReportedTasks, "has_any")
def waits_for_nobody_to_give_up(method: Any, *args: Any) -> bool:
    """Believe that every member has given up what it was told to."""
    return False


@instead(ReportedTasks, "lacks_any")
def tells_lost_tasks_never_again(method: Any, *args: Any) -> bool:
    """Do not tell a member again what a lost response has said."""
    return False


@instead(reconcile, "_merge", every=5)
def forgets_what_a_member_keeps(method: Any, kept: Any, free: Any) -> Any:
    """Give a member what is new to it alone."""
    return method({}, free) if free else kept


@instead(TaskOwners, "move_tasks", every=5)
def keeps_no_index_of_owners(method: Any, owners: TaskOwners, *args: Any) -> TaskOwners:
    """Leave the index as it is when a member moves."""
    return owners


@instead(streams_group_heartbeat, "_has_nothing_new")
def never_computes_for_those_who_stay(method: Any, group: Any, member: Any, request: Any, env: Any) -> bool:
    """Take every heartbeat of a member that stays for one with nothing new."""
    return bool(request.member_epoch > 0 and request.active_tasks is None)


# -- what a start finds ------------------------------------------------------------------------------------------------


@instead(replay, "_active", every=7)
def reads_no_tasks(method: Any, *args: Any) -> dict[str, Any]:
    """Read now and then that a member has no active tasks."""
    return {}


@instead(replay, "_copies", every=7)
def reads_no_standbys(method: Any, *args: Any) -> dict[str, Any]:
    """Read now and then that a member has no standbys."""
    return {}


@instead(timers, "restart_timers")
def starts_no_sessions_of_members(method: Any, group: Any, env: Any) -> Result[Any]:
    """Start without the sessions of the members that are in the log."""
    return Result(group)


@instead(timers, "_still_owes")
def lets_nobody_be_late(method: Any, member: Any) -> bool:
    """Keep members that do not give up their tasks in time."""
    return False
