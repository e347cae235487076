"""The target assignment: the tasks that each member shall have, computed when the group's epoch has run ahead of it.

It is computed by the request that finds it due, at most once an interval (KIP-1263), or by the timer that ends the
initial delay; for a large group in steps, after that (`modern/long_targets`). While the topology is not ready, the
target is that nobody has any task.
"""

from collections.abc import Mapping
from typing import Any, Final

from coordinator.core.assignors import TASK_ASSIGNORS
from coordinator.core.assignors.spec import AssignorError
from coordinator.core.assignors.task_spec import SubtopologyTasks, TaskAssignment, TaskGroupSpec, TaskMemberSpec
from coordinator.core.decision import Steps
from coordinator.core.env import Env
from coordinator.core.kinds.modern import long_targets
from coordinator.core.kinds.streams import record_builders
from coordinator.core.kinds.streams.configuration import ConfiguredTopology
from coordinator.core.kinds.streams.group import NO_TARGET, StreamsGroup
from coordinator.core.kinds.streams.transition import GroupTransition
from coordinator.core.limits import Limits
from coordinator.core.pace import Pace
from coordinator.core.records import Record
from coordinator.core.result import Result, TakeTarget

ASSIGNOR: Final = "sticky"
STANDBYS: Final = "num.standby.replicas"  # the setting of an assignment that is kept in the group's record


def settings_of(limits: Limits) -> Mapping[str, str]:
    """Return the settings of which a change makes a new target necessary."""
    return {STANDBYS: str(limits.group_streams_num_standby_replicas)}


def compute_target(transition: GroupTransition, configured: ConfiguredTopology) -> None:
    """Compute a new target, or have it computed in steps. Raises AssignorError."""
    group = transition.group
    copies = 1 + int(group.settings.get(STANDBYS, "0"))
    work = len(group.members) + copies * sum([each.task_count for each in configured.subtopologies.values()])
    long_targets.compute(transition, work, _find_target(group, configured), ASSIGNOR, record_builders)


def take_target(group: StreamsGroup, taken: TakeTarget, env: Env) -> Result[Any]:
    """Take a target that was computed in steps."""
    return long_targets.take(GroupTransition(group, env, taken.target.by), taken, record_builders)


def _find_target(group: StreamsGroup, configured: ConfiguredTopology) -> Steps[tuple[Record, ...]]:
    """Return the records of the members that a new target changes, in steps."""
    targets: Mapping[str, TaskAssignment] = {}
    if configured.is_ready:
        spec = yield from spec_of(group, configured, group.settings)
        targets = yield from TASK_ASSIGNORS[ASSIGNOR](spec)
    return (yield from target_records(group, targets))


def target_records(group: StreamsGroup, targets: Mapping[str, TaskAssignment]) -> Steps[tuple[Record, ...]]:
    """Return the records of the members that a target changes, in steps. A member that is not named gets nothing."""
    return (yield from long_targets.target_records(group, targets, NO_TARGET, record_builders))


def spec_of(group: StreamsGroup, configured: ConfiguredTopology, settings: Mapping[str, str]) -> Steps[TaskGroupSpec]:
    """Return the question for the assignor, in steps."""
    pace, members = Pace(), {}
    for member_id, member in group.members.items():
        if pace.is_due():
            yield
        last = group.target(member_id)
        members[member_id] = TaskMemberSpec(member.process_id, last.active, last.standby)
    subtopologies = {
        number: SubtopologyTasks(each.task_count, bool(each.changelogs))
        for number, each in configured.subtopologies.items()
    }
    return TaskGroupSpec(members, subtopologies, int(settings.get(STANDBYS, "0")))


def check_target(spec: TaskGroupSpec, targets: Mapping[str, TaskAssignment]) -> None:
    """Raise AssignorError for a target that no group could follow."""
    taken: set[tuple[str, int]] = set()
    copies: set[tuple[str, str, int]] = set()  # by process
    for member_id, target in targets.items():
        if member_id not in spec.members:
            raise AssignorError(f"{member_id} is no member")
        process_id = spec.members[member_id].process_id
        for role in (target.active, target.standby, target.warmup):
            for number, partitions in role.items():
                tasks = spec.subtopologies.get(number)
                for partition in partitions:
                    if tasks is None or not 0 <= partition < tasks.task_count:
                        raise AssignorError(f"there is no task {number}_{partition}")
                    if role is target.active and (number, partition) in taken:
                        raise AssignorError(f"task {number}_{partition} is active twice")
                    if (process_id, number, partition) in copies:
                        raise AssignorError(f"process {process_id} has task {number}_{partition} twice")
                    copies.add((process_id, number, partition))
                    if role is target.active:
                        taken.add((number, partition))
