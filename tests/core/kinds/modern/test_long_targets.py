"""Targets that are computed in steps: what the group does meanwhile, and that they are the same as those at once."""

from typing import Any

import pytest

from coordinator.core.assignors import BUILT_IN
from coordinator.core.kinds.modern import long_targets
from coordinator.core.limits import Limits
from coordinator.core.records import EncodedRecord, Record
from coordinator.core.result import ComputeTarget, NoteBegunStates, Result, TakeTarget
from coordinator.core.verbs import Forget, RemoveMember, SetTarget
from protocol import codec
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions as Owned
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.messages.streams_group_heartbeat import StatusCode
from protocol.steps import finish_steps
from tests.core.driver import ShardDriver
from tests.core.kinds.streams.topologies import topics
from tests.members import StreamsMember
from tests.steps import count_steps

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
        computed = None if fails else finish_steps(wanted.steps)
        self.handle(TakeTarget(wanted.group_id, wanted.target, computed), wanted.call)

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
    monkeypatch.setattr(long_targets, "is_long", lambda work: work > 0)
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
    assert large.shard.handle(TakeTarget("app", first.target, None), first.call) == answer, "there is no group"
    large.members["a"].epoch = 0
    large.members["a"].beat()
    assert large.shard.handle(TakeTarget("app", first.target, None), first.call) == answer, "it waits for its own"
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


class LargeGroup(ShardDriver):
    """A shard with one large group of consumers, or of share consumers, whose topic has six partitions."""

    def __init__(self, kind: str) -> None:
        interval = {"group_consumer_assignment_interval_ms": 0, "group_share_assignment_interval_ms": 0}
        super().__init__(Limits(**interval), topics(orders=6))
        self.kind = kind
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, tuple[Owned, ...]] = {}  # by consumers, as they were told
        self.wanted: list[ComputeTarget] = []
        self.has_states = False

    def take(self, result: Result[Any]) -> None:
        super().take(result)
        self.wanted += [effect for effect in result.effects if isinstance(effect, ComputeTarget)]

    def beat(self, name: str, epoch: int | None = None, instance: str | None = None) -> Any:
        epoch = self.epochs.get(name, 0) if epoch is None else epoch
        names = ("orders",) if epoch == 0 else None
        if self.kind == "share":
            request: Any = ShareGroupHeartbeatRequest("g", name, epoch, subscribed_topic_names=names)
        else:
            owned = self.owned[name] = () if epoch == 0 else self.owned[name]
            request = ConsumerGroupHeartbeatRequest(
                "g", name, epoch, instance, None, 1_000, names, topic_partitions=owned
            )
        response = self.handle(request, self.call(1)).response
        assert not response.error_code, response
        self.epochs[name] = max(response.member_epoch, 0)
        if self.kind == "consumer" and response.assignment is not None:
            given = response.assignment.topic_partitions
            self.owned[name] = tuple([Owned(one.topic_id, one.partitions) for one in given])
        if self.kind == "share" and not self.has_states:
            self.has_states = True
            partitions = {self.topics.id_of("orders"): tuple(range(6))}
            self.handle(NoteBegunStates("g", partitions), self.call(1))
        return response

    def compute(self) -> None:
        wanted = self.wanted.pop(0)
        self.handle(TakeTarget(wanted.group_id, wanted.target, finish_steps(wanted.steps)), wanted.call)

    def settle(self, *names: str) -> None:
        for _ in range(6):
            for name in names:
                self.beat(name)
                while self.wanted:
                    self.compute()

    @property
    def group(self) -> Any:
        return self.shard.groups["g"]

    def targets(self) -> dict[str, tuple[int, ...]]:
        return {member_id: sum(target.values(), ()) for member_id, target in self.group.targets.items()}


@pytest.fixture(params=["consumer", "share"])
def group(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> LargeGroup:
    monkeypatch.setattr(long_targets, "is_long", lambda work: work > 0)
    return LargeGroup(request.param)


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> LargeGroup:
    monkeypatch.setattr(long_targets, "is_long", lambda work: work > 0)
    return LargeGroup("consumer")


def test_partitions_are_assigned_as_at_once(group: LargeGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    group.settle(*"abc")
    monkeypatch.undo()
    small = LargeGroup(group.kind)
    small.settle(*"abc")
    assert not small.wanted
    assert group.targets() == small.targets()
    assert sorted(sum(group.targets().values(), ())) == [*range(6)]
    assert group.group.state == small.group.state == "Stable"
    group.rebuild()


def test_a_heartbeat_is_answered_before_partitions_are_assigned(group: LargeGroup) -> None:
    group.beat("a")
    group.beat("a")
    assert len(group.wanted) == 1, "one target at a time"
    assert not group.group.targets
    group.compute()
    assert set(group.targets()) == {"a"}
    group.rebuild()


def test_records_of_a_target_are_encoded_before_it_is_taken(group: LargeGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        group.beat(f"m{number}")
    wanted = group.wanted.pop(0)
    group.handle(TakeTarget("g", wanted.target, finish_steps(wanted.steps)), wanted.call)
    group.beat("m0")
    wanted = group.wanted.pop(0)
    steps, computed = count_steps(wanted.steps)
    assert steps > 20, "200 members are seen by each part of the work, and after 50 it gives way"
    codec_writes = []
    write = codec.write
    monkeypatch.setattr(
        codec, "write", lambda schema, *args, **flags: codec_writes.append(1) or write(schema, *args, **flags)
    )
    result = group.handle(TakeTarget("g", wanted.target, computed), wanted.call)
    assert len(result.records) > 100
    assert [type(record) for record in result.records[-2:]] == [EncodedRecord, Record]
    assert len(codec_writes) <= 2, "the epoch of the target, its key and its value"
    group.rebuild()


def test_a_member_that_comes_back_under_its_id_waits_for_the_next_target(group: LargeGroup) -> None:
    group.settle(*"ab")
    group.beat("c")
    group.beat("a", -1)
    group.beat("a", 0)
    group.compute()
    assert "a" not in group.targets(), "the target was computed for the one that has left"
    group.rebuild()
    group.settle(*"abc")
    assert group.targets()["a"]
    group.rebuild()


def test_who_takes_over_from_a_static_member_has_its_new_target(consumers: LargeGroup) -> None:
    consumers.beat("a", instance="one")
    consumers.compute()
    consumers.settle("a")
    consumers.beat("b")  # the target of all partitions is now to be divided
    consumers.beat("a", -2, instance="one")
    consumers.beat("c", 0, instance="one")
    consumers.compute()
    targets = consumers.targets()
    assert set(targets) == {"b", "c"}
    assert sorted(targets["b"] + targets["c"]) == [*range(6)], "nothing is meant for both"
    assert consumers.group.assignment_epoch == consumers.group.epoch
    consumers.rebuild()


def test_an_assignor_of_another_package_is_called_at_once(consumers: LargeGroup) -> None:
    mine = {**BUILT_IN, "uniform": lambda spec: {"a": dict.fromkeys(spec.partition_counts, (0,))}}
    consumers.shard.assignors = mine
    assert consumers.beat("a").assignment.topic_partitions
    assert not consumers.wanted
