"""Random histories of Kafka Streams applications: what an assignor is asked, one question after the other."""

import base64
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from coordinator.core.assignors import TASK_ASSIGNORS
from coordinator.core.assignors.task_spec import SubtopologyTasks, TaskGroupSpec, TaskMemberSpec
from protocol.steps import finish_steps


def play(dice: Random, questions: int) -> Iterator[TaskGroupSpec]:
    """Yield the questions of one application, whose members, topics and number of copies change."""
    subtopologies = _draw_subtopologies(dice)
    members = {_draw_id(dice): TaskMemberSpec(process) for process in _draw_processes(dice)}
    replicas = dice.choice((0, 0, 1, 1, 2, 3))
    for _ in range(questions):
        yield (spec := TaskGroupSpec(members, subtopologies, replicas))
        targets = finish_steps(TASK_ASSIGNORS["sticky"](spec))
        members = {
            member_id: TaskMemberSpec(member.process_id, targets[member_id].active, targets[member_id].standby)
            for member_id, member in members.items()
        }
        members = _change_members(dice, members)
        if dice.random() < 0.2:
            subtopologies = _change_subtopologies(dice, subtopologies)
        if dice.random() < 0.2:
            replicas = dice.randrange(3)


def _draw_subtopologies(dice: Random) -> Mapping[str, SubtopologyTasks]:
    names = dice.sample(("0", "1", "2", "3", "10", "11", "a", "B", "é", "\uff5e", "\U0001f600"), dice.randint(1, 5))
    most = dice.choice((1, 4, 16, 40))
    return {name: SubtopologyTasks(dice.randint(1, most), dice.random() < 0.6) for name in names}


def _change_subtopologies(dice: Random, old: Mapping[str, SubtopologyTasks]) -> Mapping[str, SubtopologyTasks]:
    if dice.random() < 0.3:
        return _draw_subtopologies(dice)
    name = dice.choice(list(old))
    return {**old, name: SubtopologyTasks(old[name].task_count + dice.randint(1, 5), old[name].is_stateful)}


def _draw_id(dice: Random) -> str:
    if dice.random() < 0.2:
        return f"member-{dice.randrange(10**6)}"
    return base64.urlsafe_b64encode(dice.randbytes(16)).decode().rstrip("=")


def _draw_processes(dice: Random) -> list[str]:
    processes = [_draw_id(dice) for _ in range(dice.choice((1, 2, 3, 5, 8, 20, 40)))]
    threads = dice.choice((1, 1, 2, 4))
    return [process for process in processes for _ in range(dice.randint(1, threads))]


def _change_members(dice: Random, members: Mapping[str, TaskMemberSpec]) -> Mapping[str, TaskMemberSpec]:
    """Let some leave, some join (of a process that is there, or of a new one), or some forget what they had."""
    ids = list(members)
    leaving = dice.sample(ids, dice.randint(0, len(ids) // 2))
    changed = {member_id: member for member_id, member in members.items() if member_id not in leaving}
    for _ in range(dice.choice((0, 1, 1, 3)) + (not changed)):
        process = members[dice.choice(ids)].process_id if dice.random() < 0.4 else _draw_id(dice)
        changed[_draw_id(dice)] = TaskMemberSpec(process)
    if dice.random() < 0.2:
        forgetful = dice.choice(list(changed))
        changed[forgetful] = TaskMemberSpec(changed[forgetful].process_id)
    return changed


def as_question(spec: TaskGroupSpec) -> dict[str, Any]:
    """Return a question as `AssignTasks.java` reads it."""
    return {
        "replicas": spec.standby_replicas,
        "subtopologies": {name: (tasks.task_count, tasks.is_stateful) for name, tasks in spec.subtopologies.items()},
        "members": [
            {"id": member_id, "process": member.process_id, "active": member.active, "standby": member.standby}
            for member_id, member in spec.members.items()
        ],
    }


def as_answer(spec: TaskGroupSpec) -> dict[str, Any]:
    """Return our targets in the form of Kafka's."""
    targets = finish_steps(TASK_ASSIGNORS["sticky"](spec))
    return {
        member_id: [
            {name: list(partitions) for name, partitions in tasks.items()}
            for tasks in (targets[member_id].active, targets[member_id].standby)
        ]
        for member_id in targets
    }
