"""The sticky assignor of tasks: Kafka's own targets, and what any targets must keep to."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from coordinator.core.assignors import TASK_ASSIGNORS
from coordinator.core.assignors.spec import AssignorError
from coordinator.core.assignors.task_spec import SubtopologyTasks, TaskAssignment, TaskGroupSpec, TaskMemberSpec
from protocol.steps import finish_steps
from tests.core.assignors.kafka_assignors.sticky import as_answer, play

GOLDEN = Path(__file__).parent / "golden" / "sticky-tasks-4.3.1.jsonl"


def assign(spec: TaskGroupSpec) -> Mapping[str, TaskAssignment]:
    return finish_steps(TASK_ASSIGNORS["sticky"](spec))


def read_question(question: dict[str, Any]) -> TaskGroupSpec:
    def tasks(named: dict[str, list[int]]) -> dict[str, tuple[int, ...]]:
        return {name: tuple(partitions) for name, partitions in named.items()}

    members = {
        member["id"]: TaskMemberSpec(member["process"], tasks(member["active"]), tasks(member["standby"]))
        for member in question["members"]
    }
    subtopologies = {name: SubtopologyTasks(*described) for name, described in question["subtopologies"].items()}
    return TaskGroupSpec(members, subtopologies, question["replicas"])


def test_targets_are_those_of_kafka_s_class() -> None:
    """The questions and Kafka's answers are written by `python -m tests.core.assignors.kafka_assignors sticky`."""
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        assert as_answer(read_question(case["question"])) == case["answer"], line


@pytest.mark.parametrize("seed", range(20))
def test_each_task_is_active_once_and_no_process_has_a_copy_of_its_own_task(seed: int) -> None:
    for spec in play(Random(seed), 6):
        check(spec, assign(spec))


def check(spec: TaskGroupSpec, targets: Any) -> None:
    active = Counter(task for target in targets.values() for task in list_tasks(target.active))
    wanted = {(name, at) for name, tasks in spec.subtopologies.items() for at in range(tasks.task_count)}
    assert active == dict.fromkeys(wanted, 1)
    by_process: Counter[tuple[str, str, int]] = Counter()
    for member_id, target in targets.items():
        for name, at in (*list_tasks(target.active), *list_tasks(target.standby)):
            by_process[spec.members[member_id].process_id, name, at] += 1
    assert not by_process or max(by_process.values()) == 1
    copies = Counter(task for target in targets.values() for task in list_tasks(target.standby))
    processes = len({member.process_id for member in spec.members.values()})
    most = min(spec.standby_replicas, processes - 1)
    assert copies == {task: most for task in wanted if spec.subtopologies[task[0]].is_stateful and most}


def list_tasks(tasks: Any) -> list[tuple[str, int]]:
    return [(name, at) for name, partitions in tasks.items() for at in partitions]


def test_a_second_thread_gets_half_and_nothing_else_moves() -> None:
    alone = assign(TaskGroupSpec({"a": TaskMemberSpec("p")}, {"0": SubtopologyTasks(4, False)}))
    assert alone == {"a": TaskAssignment({"0": (0, 1, 2, 3)})}
    both = {"a": TaskMemberSpec("p", alone["a"].active), "b": TaskMemberSpec("q")}
    assert assign(TaskGroupSpec(both, {"0": SubtopologyTasks(4, False)})) == {
        "a": TaskAssignment({"0": (0, 1)}),
        "b": TaskAssignment({"0": (2, 3)}),
    }


def test_what_does_not_change_is_the_same_object() -> None:
    members = {"a": TaskMemberSpec("p", {"0": (0,)}), "b": TaskMemberSpec("q", {"0": (1,)}, {"0": (0,)})}
    targets = assign(TaskGroupSpec(members, {"0": SubtopologyTasks(2, True)}, 1))
    assert targets["a"].active is members["a"].active
    assert targets["b"].standby is members["b"].standby


def test_tasks_without_members_are_an_error() -> None:
    with pytest.raises(AssignorError, match="without members"):
        assign(TaskGroupSpec({}, {"0": SubtopologyTasks(1, False)}))
    assert assign(TaskGroupSpec({}, {})) == {}
