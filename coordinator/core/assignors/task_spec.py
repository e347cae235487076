"""The input and the output of a task assignor, which assigns the tasks of a Kafka Streams application (KIP-1071).

A task assignor is one pure function, `assign(spec) -> {member id: assignment}`, as an assignor of partitions is, but in
steps. A task is one partition of a subtopology; an active task processes records, a standby task keeps a copy of its
state.
"""

from collections.abc import Callable, Mapping

import msgspec

from coordinator.core.decision import Steps

Tasks = Mapping[str, tuple[int, ...]]
"""Subtopology id -> partitions in ascending order; no subtopology with no partitions."""

NO_TASKS: Tasks = {}


class TaskMemberSpec(msgspec.Struct, frozen=True, gc=False):
    """One member as a task assignor sees it: its process, and its last target."""

    process_id: str
    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS


class SubtopologyTasks(msgspec.Struct, frozen=True, gc=False):
    """The tasks of a subtopology: one for each partition of its largest source."""

    task_count: int
    is_stateful: bool  # has changelog topics, so that standby tasks are of use


class TaskGroupSpec(msgspec.Struct, frozen=True, gc=False):
    """The whole question. The order of `members` decides ties only where Kafka's own hash order leaves them open."""

    members: Mapping[str, TaskMemberSpec]
    subtopologies: Mapping[str, SubtopologyTasks]
    standby_replicas: int = 0


class TaskAssignment(msgspec.Struct, frozen=True, gc=False):
    """The target of one member. Kafka 4.3 assigns no warm-up tasks."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS


TaskAssignor = Callable[[TaskGroupSpec], Steps[Mapping[str, TaskAssignment]]]
