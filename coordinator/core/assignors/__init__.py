"""Server-side assignors: pure functions from members, and topics or tasks, to who owns what.

The modules of the built-in ones are imported when the first group asks for them.
"""

from collections.abc import Callable, Mapping

from coordinator.core.assignors.spec import Assignment, Assignor, GroupSpec
from coordinator.core.assignors.task_spec import TaskAssignment, TaskAssignor, TaskGroupSpec
from coordinator.core.decision import Steps
from protocol.steps import finish_steps


class SteppedAssignor:
    """An assignor as any other, which can also be done in steps."""

    def __init__(self, in_steps: Callable[[GroupSpec], Steps[Mapping[str, Assignment]]]) -> None:
        self.in_steps = in_steps

    def __call__(self, spec: GroupSpec) -> Mapping[str, Assignment]:
        """Return the assignments, found in one piece."""
        return finish_steps(self.in_steps(spec))


def _assign_uniformly(spec: GroupSpec) -> Steps[Mapping[str, Assignment]]:
    from coordinator.core.assignors import uniform

    return uniform.assign(spec)


def _assign_ranges(spec: GroupSpec) -> Steps[Mapping[str, Assignment]]:
    from coordinator.core.assignors import range as range_assignor

    return range_assignor.assign(spec)


def _assign_tasks_stickily(spec: TaskGroupSpec) -> Steps[Mapping[str, TaskAssignment]]:
    from coordinator.core.assignors import sticky_tasks

    return sticky_tasks.assign(spec)


BUILT_IN: Mapping[str, Assignor] = {
    "uniform": SteppedAssignor(_assign_uniformly),
    "range": SteppedAssignor(_assign_ranges),
}
"""Kafka's two, by the names that members ask for; in the order of `group.consumer.assignors`' default."""

TASK_ASSIGNORS: Mapping[str, TaskAssignor] = {"sticky": _assign_tasks_stickily}
"""Kafka's one assignor of Kafka Streams' tasks."""

ENTRY_POINTS = "muster.assignors"
"""The entry point group under which other packages register theirs; `coordinator/runtime/assignors.py` loads them."""
