"""`sticky` for tasks: members keep the tasks that they have, and processes get as many for a member as others.

A process is one instance of the application, its members are its threads. Active tasks come first: each stays with the
member that has it, else goes to one that has its standby, while they are below their quota; the rest goes to the least
loaded process. Standby tasks of stateful subtopologies follow, never to a process that has the task.

The targets are those of Kafka's `StickyTaskAssignor`, whose ties fall by the order of its hash maps and queues
(`hash_order`, `java_queue`) and whose quota of a member counts active and standby tasks together.
"""

from collections.abc import Iterable, Mapping

from coordinator.core.assignors.hash_order import (
    buckets_after_inserts,
    buckets_with_capacity,
    members_in_order,
    names_in_order,
)
from coordinator.core.assignors.java_queue import JavaQueue
from coordinator.core.assignors.spec import AssignorError
from coordinator.core.assignors.task_spec import TaskAssignment, TaskGroupSpec, Tasks
from coordinator.core.decision import Steps
from coordinator.core.pace import Pace

Task = tuple[int, int]
"""The place of its subtopology among all in Java's order of strings, and the partition."""


def assign(spec: TaskGroupSpec) -> Steps[Mapping[str, TaskAssignment]]:
    """Assign active tasks, then the standby tasks that are asked for, in steps."""
    subtopologies = sorted(spec.subtopologies, key=_order_as_java)
    counts = [spec.subtopologies[name].task_count for name in subtopologies]
    stateful = [place for place, name in enumerate(subtopologies) if spec.subtopologies[name].is_stateful]
    active = [(place, partition) for place, count in enumerate(counts) for partition in range(count)]
    standby = [(place, partition) for place in stateful for partition in range(counts[place])]
    if not spec.members:
        if active:
            raise AssignorError("a group without members has tasks")
        return {}
    assignment = _Assignment(spec, len(active), len(standby) * spec.standby_replicas)
    yield from assignment.gather_previous_tasks(spec, subtopologies)
    yield from assignment.assign_active(active)
    if spec.standby_replicas:
        yield from assignment.assign_standby(standby, spec.standby_replicas)
    return (yield from assignment.collect(spec, subtopologies))


def _order_as_java(text: str) -> bytes:
    """Return what orders strings as Java does, by their UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


class _Quota:
    """How many tasks a member may have, so that what is left is shared equally by those that have fewer."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = self._share()

    def note(self, member_count: int) -> None:
        """Leave out a member that has just reached the quota."""
        if member_count == self.per_member:
            self._members -= 1
            self._tasks -= member_count
            self.per_member = self._share()

    def _share(self) -> int:
        return max(-(-self._tasks // self._members), 0) if self._members else 0


class _Process:
    """The members of one process, their tasks, and the load: tasks for each member."""

    def __init__(self) -> None:
        self.members: list[int] = []
        self.tasks: set[Task] = set()
        self.task_count = 0
        self.load = 0.0
        self.queue: JavaQueue | None = None  # members by load, dropped when a member that is not the first gets a task

    def has_task(self, task: Task) -> bool:
        return task in self.tasks


class _Assignment:
    """An assignment under way. Members and processes are numbers; `_counts` has the tasks of each member."""

    def __init__(self, spec: TaskGroupSpec, active: int, standby: int) -> None:
        self._ids = members_in_order(spec.members)
        self._counts = [0] * len(self._ids)
        self._active_tasks: list[list[Task]] = [[] for _ in self._ids]
        self._standby_tasks: list[list[Task]] = [[] for _ in self._ids]
        self._active_quota = _Quota(active, len(self._ids))
        self._total_quota = _Quota(active + standby, len(self._ids))
        self._had_active: dict[Task, int] = {}
        self._had_standby: dict[Task, list[int]] = {}
        self._pace = Pace()
        self._gather_processes(spec)

    def _gather_processes(self, spec: TaskGroupSpec) -> None:
        processes: dict[str, _Process] = {}
        self._process_of: list[_Process] = []
        for member, member_id in enumerate(self._ids):
            process = processes.setdefault(spec.members[member_id].process_id, _Process())
            process.members.append(member)
            self._process_of.append(process)
        ordered = names_in_order(list(processes), buckets_with_capacity(len(self._ids), len(processes)))
        self._processes = [processes[process_id] for process_id in ordered]
        numbers = {member_id: member for member, member_id in enumerate(self._ids)}
        for process in self._processes:
            ids = [self._ids[member] for member in process.members]
            process.members = [numbers[name] for name in names_in_order(ids, buckets_after_inserts(len(ids)))]

    def gather_previous_tasks(self, spec: TaskGroupSpec, subtopologies: list[str]) -> Steps[None]:
        """Note which members have a task."""
        places = {name: place for place, name in enumerate(subtopologies)}
        for member, member_id in enumerate(self._ids):
            for task in _list_tasks(spec.members[member_id].active, places):
                if self._pace.is_due():
                    yield
                self._had_active[task] = member
            for task in _list_tasks(spec.members[member_id].standby, places):
                if self._pace.is_due():
                    yield
                self._had_standby.setdefault(task, []).append(member)

    def assign_active(self, tasks: list[Task]) -> Steps[None]:
        """Leave tasks with the members that have them, as active or as standby, then fill up the least loaded."""
        rest = []
        for task in sorted(tasks, key=_by_partition):
            if self._pace.is_due():
                yield
            member = self._had_active.get(task)
            if member is None or not self._give_active_within_quota(member, task):
                rest.append(task)
        tasks, rest = rest, []
        for task in tasks:
            if self._pace.is_due():
                yield
            member = self._find_least_loaded(self._had_standby.get(task))
            if member is None or not self._give_active_within_quota(member, task):
                rest.append(task)
        rest.sort()
        queue = self._queue_processes()
        for task in rest:
            if self._pace.is_due():
                yield
            number = queue.poll()
            self._note_active(self._give_to_least_loaded(self._processes[number], task, self._active_tasks))
            queue.add(self._processes[number].load, number)

    def _give_active_within_quota(self, member: int, task: Task) -> bool:
        if self._counts[member] >= self._active_quota.per_member:
            return False
        self._note_active(self._give(member, task, self._active_tasks))
        return True

    def _note_active(self, member_count: int) -> None:
        self._active_quota.note(member_count)
        self._total_quota.note(member_count)

    def assign_standby(self, tasks: list[Task], replicas: int) -> Steps[None]:
        """Leave copies with the members that have the task, then fill up the least loaded processes."""
        rest: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            if self._pace.is_due(replicas):
                yield
            for number in range(replicas):
                if not self._give_standby_within_quota(task):
                    rest.append((task, replicas - number))
                    break
        rest.sort(reverse=True)
        queue = self._queue_processes()
        for task, copies in rest:
            for _ in range(copies):
                if self._pace.is_due():
                    yield
                if not self._give_standby_to_least_loaded(queue, task):
                    break

    def _give_standby_within_quota(self, task: Task) -> bool:
        """Give a copy to a member that has the task, unless its process has it already."""
        active = self._had_active.get(task)
        if active is not None and not self._process_of[active].has_task(task) and self._is_below_total_quota(active):
            member = active
        else:
            found = self._find_least_loaded(self._had_standby.get(task), task)
            if found is None or not self._is_below_total_quota(found):
                return False
            member = found
        self._total_quota.note(self._give(member, task, self._standby_tasks))
        return True

    def _is_below_total_quota(self, member: int) -> bool:
        return self._counts[member] < self._total_quota.per_member

    def _give_standby_to_least_loaded(self, queue: JavaQueue, task: Task) -> bool:
        """Give a copy to the first process that lacks the task; the processes before it go back into the queue last."""
        polled: list[int] = []
        found = False
        while queue and not found:
            polled.append(queue.poll())
            process = self._processes[polled[-1]]
            if not process.has_task(task):
                self._total_quota.note(self._give_to_least_loaded(process, task, self._standby_tasks))
                found = True
        for number in reversed(polled):
            queue.add(self._processes[number].load, number)
        return found

    def _find_least_loaded(self, members: list[int] | None, task: Task | None = None) -> int | None:
        """Return the member to which a task goes back, None if there is none.

        A later member is taken if both its process and itself have less load. As in Kafka
        (`findPrevMemberWithLeastLoad`), whether the task is there already is asked of the first member's process, even
        if another member is found.
        """
        if not members:
            return None
        found, first = members[0], self._process_of[members[0]]
        process_load, member_load = first.load, self._counts[found]
        for member in members[1:]:
            process = self._process_of[member]
            if process.load < process_load and (task is None or not process.has_task(task)):
                if self._counts[member] < member_load:
                    process_load, member_load, found = process.load, self._counts[member], member
        return None if task is not None and first.has_task(task) else found

    def _give(self, member: int, task: Task, tasks: list[list[Task]]) -> int:
        """Give a task to a member, and return how many it has."""
        self._process_of[member].queue = None
        return self._add(member, task, tasks)

    def _give_to_least_loaded(self, process: _Process, task: Task, tasks: list[list[Task]]) -> int:
        """Give a task to the member of a process that has fewest, and return how many it has."""
        if len(process.members) == 1:
            return self._add(process.members[0], task, tasks)
        if process.queue is None:
            process.queue = JavaQueue((self._counts[member], member) for member in process.members)
        member = process.queue.poll()
        count = self._add(member, task, tasks)
        process.queue.add(count, member)
        return count

    def _add(self, member: int, task: Task, tasks: list[list[Task]]) -> int:
        process = self._process_of[member]
        process.task_count += 1
        process.tasks.add(task)
        process.load = process.task_count / len(process.members)
        tasks[member].append(task)
        self._counts[member] += 1
        return self._counts[member]

    def _queue_processes(self) -> JavaQueue:
        return JavaQueue((process.load, number) for number, process in enumerate(self._processes))

    def collect(self, spec: TaskGroupSpec, subtopologies: list[str]) -> Steps[Mapping[str, TaskAssignment]]:
        """Return what each member got; the mappings of before where they are the same."""
        assigned: dict[str, TaskAssignment] = {}
        for member, member_id in enumerate(self._ids):
            if self._pace.is_due(1 + self._counts[member]):
                yield
            previous = spec.members[member_id]
            active = _group_tasks(self._active_tasks[member], subtopologies)
            standby = _group_tasks(self._standby_tasks[member], subtopologies)
            assigned[member_id] = TaskAssignment(
                previous.active if active == previous.active else active,
                previous.standby if standby == previous.standby else standby,
            )
        return assigned


def _by_partition(task: Task) -> tuple[int, int]:
    return task[1], task[0]


def _list_tasks(tasks: Tasks, places: Mapping[str, int]) -> Iterable[Task]:
    """Yield the tasks of subtopologies that exist."""
    for name, partitions in tasks.items():
        place = places.get(name)
        if place is not None:
            for partition in partitions:
                yield place, partition


def _group_tasks(tasks: list[Task], subtopologies: list[str]) -> Tasks:
    grouped: dict[str, list[int]] = {}
    for place, partition in sorted(tasks):
        grouped.setdefault(subtopologies[place], []).append(partition)
    return {name: tuple(partitions) for name, partitions in grouped.items()}
