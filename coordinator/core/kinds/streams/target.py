"""The target assignment: the tasks that each member shall have, computed when the group's epoch has run ahead of it.

It is computed inside the request that finds it due, at most once an interval (KIP-1263), or by the timer that ends the
initial delay. While the topology is not ready, the target is that nobody has any task.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.core.assignors import TASK_ASSIGNORS
from coordinator.core.assignors.spec import AssignorError
from coordinator.core.assignors.task_spec import SubtopologyTasks, TaskAssignment, TaskGroupSpec, TaskMemberSpec
from coordinator.core.kinds.streams import record_builders
from coordinator.core.kinds.streams.configuration import ConfiguredTopology
from coordinator.core.kinds.streams.group import NO_TARGET, StreamsGroup
from coordinator.core.limits import Limits
from coordinator.core.records import Record

ASSIGNOR: Final = "sticky"
STANDBYS: Final = "num.standby.replicas"  # the setting of an assignment that is kept in the group's record


def settings_of(limits: Limits) -> Mapping[str, str]:
    """Return the settings of which a change makes a new target necessary."""
    return {STANDBYS: str(limits.group_streams_num_standby_replicas)}


def compute_target(
    group: StreamsGroup, configured: ConfiguredTopology, settings: Mapping[str, str], now_ms: int
) -> tuple[Record, ...]:
    """Return the records of a new target: of each member that it changes for, and of its epoch. Raises
    AssignorError."""
    answer = TASK_ASSIGNORS[ASSIGNOR](spec_of(group, configured, settings)) if configured.is_ready else {}
    return target_records(group, answer, now_ms)


def target_records(group: StreamsGroup, targets: Mapping[str, TaskAssignment], now_ms: int) -> tuple[Record, ...]:
    """Return the records of a target for the group's epoch. A member that is not named gets nothing."""
    records = []
    for member_id in group.members:
        target = targets.get(member_id, NO_TARGET)
        if group.targets.get(member_id) != target:
            records.append(record_builders.target(group.group_id, member_id, target))
    return (*records, record_builders.target_epoch(group.group_id, group.epoch, now_ms))


def spec_of(group: StreamsGroup, configured: ConfiguredTopology, settings: Mapping[str, str]) -> TaskGroupSpec:
    """Return the question for the assignor."""
    members = {}
    for member_id, member in group.members.items():
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
