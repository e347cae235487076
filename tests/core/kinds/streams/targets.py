"""Target assignments of tasks, drawn at random: each task active once, standbys on other processes."""

from collections.abc import Collection, Mapping
from random import Random

from coordinator.core.assignors.task_spec import TaskAssignment

COUNTS: Mapping[str, int] = {"0": 3, "1": 2}  # tasks by subtopology


def task_list(tasks: Mapping[str, Collection[int]]) -> list[tuple[str, int]]:
    return [(number, partition) for number, partitions in tasks.items() for partition in partitions]


def random_target(seed: int, members: Mapping[str, str]) -> dict[str, TaskAssignment]:
    """Draw a target for members with their processes. Some tasks have a standby."""
    dice = Random(seed)
    active: dict[str, dict[str, list[int]]] = {name: {} for name in members}
    standby: dict[str, dict[str, list[int]]] = {name: {} for name in members}
    for number, count in COUNTS.items():
        for partition in range(count):
            owner = dice.choice(sorted(members))
            active[owner].setdefault(number, []).append(partition)
            others = [name for name, process in members.items() if process != members[owner]]
            if others and dice.random() < 0.5:
                standby[dice.choice(others)].setdefault(number, []).append(partition)
    return {name: TaskAssignment(_frozen(active[name]), _frozen(standby[name])) for name in members}


def _frozen(tasks: Mapping[str, list[int]]) -> dict[str, tuple[int, ...]]:
    return {number: tuple(partitions) for number, partitions in tasks.items()}
