"""Targets that are computed in steps: what the group does meanwhile, and that they are the same as those at once."""

from typing import Any

import pytest

from coordinator.core.decision import finish_steps
from coordinator.core.kinds.modern import long_targets
from coordinator.core.limits import Limits
from coordinator.core.result import ComputeTarget, Result, TakeTarget
from coordinator.core.verbs import Forget, RemoveMember, SetTarget
from protocol.messages.streams_group_heartbeat import StatusCode
from tests.core.driver import ShardDriver
from tests.core.kinds.streams.topologies import topics
from tests.members import StreamsMember

AT_ONCE = long_targets.AT_ONCE
LIMITS = Limits(
    group_streams_initial_rebalance_delay_ms=0,
    group_streams_assignment_interval_ms=0,
    group_streams_num_standby_replicas=1,
)


class Large(ShardDriver):
    """A shard whose groups are all large; the targets that they ask for wait in `wanted`."""

    def __init__(self) -> None:
        super().__init__(LIMITS, topics(lines=3, words=2, counts=2))
        self.wanted: list[ComputeTarget] = []
        self.members = {name: StreamsMember(self, name) for name in "abc"}

    def take(self, result: Result[Any]) -> None:
        super().take(result)
        self.wanted += [effect for effect in result.effects if isinstance(effect, ComputeTarget)]

    def ask(self, request: Any, version: int = 0) -> Any:
        return self.handle(request, self.call(version)).response

    def compute(self, *, fails: bool = False) -> None:
        """Compute the target that was asked for first, and give it to the group."""
        wanted = self.wanted.pop(0)
        records = None if fails else finish_steps(wanted.steps)
        self.handle(TakeTarget(wanted.group_id, wanted.target, records), wanted.call)

    def settle(self, *names: str) -> None:
        for _ in range(6):
            for name in names:
                assert not self.members[name].beat().error_code
                while self.wanted:
                    self.compute()

    @property
    def group(self) -> Any:
        return self.shard.groups["app"]

    def targets(self) -> dict[str, Any]:
        return dict(self.group.targets.items())


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Large:
    monkeypatch.setattr(long_targets, "is_long", lambda work: True)
    return Large()


def test_only_targets_that_take_long_are_computed_in_steps() -> None:
    assert not long_targets.is_long(AT_ONCE)
    assert long_targets.is_long(AT_ONCE + 1)


def test_the_target_is_the_one_that_is_computed_at_once(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    large.settle(*"abc")
    monkeypatch.undo()
    small = Large()
    small.settle(*"abc")
    assert not small.wanted
    assert large.targets() == small.targets()
    assert large.group.state == small.group.state == "Stable"
    large.rebuild()


def test_a_heartbeat_is_answered_before_the_target_is_computed(large: Large) -> None:
    answer = large.members["a"].beat()
    (status,) = answer.status
    assert (status.status_code, answer.active_tasks) == (StatusCode.ASSIGNMENT_DELAYED, ())
    assert status.status_detail == "assignment delayed: the assignment is being computed"
    assert large.group.state == "Assigning"
    large.members["a"].beat()
    assert len(large.wanted) == 1, "one target at a time"
    large.compute()
    assert large.group.state == "Reconciling"
    assert large.members["a"].beat().active_tasks


def test_a_member_that_has_left_meanwhile_gets_nothing_and_one_that_has_joined_waits(large: Large) -> None:
    large.members["a"].beat()
    large.members["b"].beat()
    large.compute()  # for the epoch of a alone
    assert (large.group.assignment_epoch, large.group.epoch) == (2, 3)
    assert set(large.targets()) == {"a-id"}
    large.members["b"].beat()
    large.ask(RemoveMember("app", "a-id"))
    large.compute()
    assert set(large.targets()) == {"b-id"}
    assert (large.group.assignment_epoch, large.group.epoch) == (3, 4)
    large.rebuild()


def test_a_target_that_was_forced_meanwhile_stays(large: Large) -> None:
    large.members["a"].beat()
    assert not large.ask(SetTarget("app", {"a-id": {"0": (1,)}})).refusal
    large.compute()
    assert large.targets()["a-id"].active == {"0": (1,)}
    assert large.group.long_target is None


def test_a_group_that_is_another_one_by_now_takes_nothing(large: Large) -> None:
    large.members["a"].beat()
    large.ask(Forget("app"))
    first = large.wanted.pop()
    answer = Result(response=None)
    assert large.shard.handle(TakeTarget("app", first.target, ()), first.call) == answer, "there is no group"
    large.members["a"].epoch = 0
    large.members["a"].beat()
    assert large.shard.handle(TakeTarget("app", first.target, ()), first.call) == answer, "it waits for its own"
    large.compute()
    assert large.targets()


def test_steps_that_failed_are_done_again_for_the_next_heartbeat(large: Large) -> None:
    large.members["a"].beat()
    large.compute(fails=True)
    assert large.group.state == "Assigning"
    large.members["a"].beat()
    large.compute()
    assert large.group.state == "Reconciling"


def test_after_the_initial_delay_the_target_is_computed_in_steps_too(large: Large) -> None:
    large.shard.limits = Limits(group_streams_initial_rebalance_delay_ms=3_000, group_streams_assignment_interval_ms=0)
    large.members["a"].beat()
    assert not large.wanted
    large.wait(3_000)
    large.compute()
    assert large.members["a"].beat().active_tasks
