"""Server-side assignors: pure functions from members, and topics or tasks, to who owns what.

The modules of the built-in ones are imported when the first group asks for them.
"""

from collections.abc import Mapping

from coordinator.core.assignors.spec import Assignment, Assignor, GroupSpec
from coordinator.core.assignors.task_spec import TaskAssignment, TaskAssignor, TaskGroupSpec
from coordinator.core.decision import Steps


def _assign_uniformly(spec: GroupSpec) -> Mapping[str, Assignment]:
    from coordinator.core.assignors import uniform

    return uniform.assign(spec)


def _assign_ranges(spec: GroupSpec) -> Mapping[str, Assignment]:
    from coordinator.core.assignors import range as range_assignor

    return range_assignor.assign(spec)


def _assign_tasks_stickily(spec: TaskGroupSpec) -> Steps[Mapping[str, TaskAssignment]]:
    from coordinator.core.assignors import sticky_tasks

    return sticky_tasks.assign(spec)


BUILT_IN: Mapping[str, Assignor] = {"uniform": _assign_uniformly, "range": _assign_ranges}
"""Kafka's two, by the names that members ask for; in the order of `group.consumer.assignors`' default."""

TASK_ASSIGNORS: Mapping[str, TaskAssignor] = {"sticky": _assign_tasks_stickily}
"""Kafka's one assignor of Kafka Streams' tasks."""

ENTRY_POINTS = "muster.assignors"
"""The entry point group under which other packages register theirs; `coordinator/runtime/assignors.py` loads them."""
