"""Members on their way to targets: whatever they report, and in whatever order they speak.

No active task has two owners at any time, no process has a task twice, and once the target stands still every member
comes to have exactly its own.
"""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.assignors.task_spec import TaskAssignment
from coordinator.core.kinds.streams.group import Member, Metadata
from coordinator.core.kinds.streams.owners import TaskOwners
from coordinator.core.kinds.streams.reconcile import reconcile
from coordinator.core.kinds.streams.states import MemberState
from coordinator.core.kinds.streams.tasks import NO_HELD_TASKS, Held, HeldTasks, ReportedTasks
from coordinator.core.refusal import Refusal
from coordinator.core.streams_record_types import StreamsGroupTargetAssignmentMemberValueTaskIds as TaskIds
from protocol.errors import ErrorCode
from tests.core.kinds.streams.targets import random_target, task_list

MEMBERS = {"a": "one", "b": "one", "c": "two", "d": "three"}  # with their processes


class Group:
    """Members that act on their own: what each of them really runs, and what the coordinator knows of it."""

    def __init__(self) -> None:
        self.members = {name: Member(name, Metadata(process_id=process), epoch=0) for name, process in MEMBERS.items()}
        self.runs: dict[str, HeldTasks] = dict.fromkeys(MEMBERS, NO_HELD_TASKS)
        self.owners = TaskOwners()
        self.targets: dict[str, TaskAssignment] = {}
        self.epoch = 0

    def retarget(self, seed: int) -> None:
        self.epoch += 1
        self.targets = random_target(seed, MEMBERS)

    def beat(self, name: str, *, reports: bool) -> None:
        """Let a member speak; it runs what it is told at once, and gives up what it is told to."""
        before = self.members[name]
        reported = report(self.runs[name]) if reports else None
        target = self.targets.get(name, TaskAssignment())
        after = reconcile(self.owners, before, target, self.epoch, reported)
        assert isinstance(after, Member)
        self.owners = self.owners.move_tasks(
            before.process_id, (before.assigned, before.pending), after.process_id, (after.assigned, after.pending)
        )
        self.members[name], self.runs[name] = after, after.assigned
        self.check()

    def check(self) -> None:
        held = {name: (member.assigned, member.pending) for name, member in self.members.items()}
        active = Counter(task for both in held.values() for each in both for task in tasks_of(each.active))
        assert all(count == 1 for count in active.values()), f"active twice: {active}"
        of_process = Counter(
            (MEMBERS[name], task)
            for name, both in held.items()
            for each in both
            for role in (each.active, each.standby)
            for task in tasks_of(role)
        )
        assert all(count == 1 for count in of_process.values()), f"twice in one process: {of_process}"


def tasks_of(held: Held) -> list[tuple[str, int]]:
    return [(number, partition) for number, partitions in held.items() for partition in partitions]


def report(tasks: HeldTasks) -> ReportedTasks:
    def list_tasks(held: Held) -> list[TaskIds]:
        return [TaskIds(number, tuple(partitions)) for number, partitions in held.items()]

    return ReportedTasks(list_tasks(tasks.active), list_tasks(tasks.standby), list_tasks(tasks.warmup))


Step = st.one_of(
    st.tuples(st.just("target"), st.integers(0, 10**6)),
    st.tuples(st.just("beat"), st.sampled_from(sorted(MEMBERS)), st.booleans()),
)


@pytest.mark.rule("S-016 S-017")
@given(st.lists(Step, max_size=40), st.integers(0, 10**6))
def test_members_come_to_their_targets_and_never_share_a_task(steps: list[tuple[object, ...]], last: int) -> None:
    group = Group()
    for step in steps:
        if step[0] == "target":
            group.retarget(int(str(step[1])))
        else:
            group.beat(str(step[1]), reports=bool(step[2]))
    group.retarget(last)
    for _ in range(8):
        for name in MEMBERS:
            group.beat(name, reports=True)
    for name, member in group.members.items():
        target = group.targets.get(name, TaskAssignment())
        assert member.is_at(group.epoch)
        assert sorted(tasks_of(member.assigned.active)) == sorted(task_list(target.active))
        assert sorted(tasks_of(member.assigned.standby)) == sorted(task_list(target.standby))


def test_a_task_that_another_process_has_by_now_stays_its_own() -> None:
    """Whichever of two members' records is read first."""
    task = (HeldTasks({"0": {1: 5}}),)
    owners = TaskOwners().move_tasks("one", (), "one", task).move_tasks("two", (), "two", task)
    assert owners.move_tasks("one", task, "one", ()).active_owner("0", 1) == "two"
    assert owners.move_tasks("two", task, "two", ()).active_owner("0", 1) is None


@pytest.mark.rule("S-021")
def test_a_task_keeps_the_epoch_in_which_it_came() -> None:
    """Later targets do not make it younger: commits of that epoch are good as long as the member has the task."""
    target = TaskAssignment(active={"0": (0, 1)})
    member = reconcile(TaskOwners(), Member("m"), target, 2, None)
    assert isinstance(member, Member) and member.assigned.active == {"0": {0: 2, 1: 2}}
    fewer = reconcile(TaskOwners(), member, TaskAssignment(active={"0": (0,)}), 5, report(HeldTasks({"0": {0: 0}})))
    assert isinstance(fewer, Member) and fewer.assigned.active == {"0": {0: 2}} and fewer.epoch == 5


def test_a_member_in_a_state_of_a_later_version_is_fenced_until_it_owns_nothing() -> None:
    member = Member("m", epoch=4, state=MemberState.UNKNOWN)
    for reported in (None, report(HeldTasks({"0": {0: 0}}))):
        refused = reconcile(TaskOwners(), member, TaskAssignment(), 7, reported)
        assert isinstance(refused, Refusal) and refused.error == ErrorCode.FENCED_MEMBER_EPOCH
    back = reconcile(TaskOwners(), member, TaskAssignment(), 7, ReportedTasks())
    assert isinstance(back, Member) and back.is_at(7)
