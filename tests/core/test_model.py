"""The shard against `model`, step by step, and the promises that hold whatever happens (R9 a, b, c, e, f)."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.limits import Limits
from coordinator.core.result import Result
from coordinator.core.topics import Topic, Topics
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.core.driver import ShardDriver
from tests.core.model import COMPLETING, EMPTY, PREPARING, Member, Model
from tests.core.weighing import weigh_members

TOPICS = Topics([Topic("t", b"t" * 16, 2)])
PROTOCOLS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",)])
LONGEST_MS = 40_000 + 3_000 + 1_000  # a rebalance timeout, the initial delay, and a second


class Driver(ShardDriver):
    """The shard, whose replies and timers are compared with the model's."""

    def __init__(self, machine: "ClassicMachine", limits: Limits) -> None:
        super().__init__(limits, TOPICS)
        self.machine = machine
        self.parked: dict[int, int] = {}  # ticket -> since when
        self.answered: dict[int, Any] = {}  # in this step, by ticket

    def take(self, result: Result[Any]) -> None:
        super().take(result)
        for reply in result.replies:
            assert reply.ticket in self.parked, "answered twice"
            del self.parked[reply.ticket]
            self.answered[reply.ticket] = reply.response

    def fire(self) -> None:
        machine = self.machine
        assert (machine.model.next_ms() or 0) <= self.now_ms
        machine.step()
        super().fire()
        while (due := machine.model.next_ms()) is not None and due <= self.now_ms:
            machine.model.fire(self.now_ms)
        machine.adopt()
        machine.compare()


class ClassicMachine(RuleBasedStateMachine):
    """Members come, rejoin, sync, beat, commit, leave and fall silent; the server restarts; time passes.

    C-400: at most one member has an instance id.
    """

    @initialize(delay_ms=st.sampled_from([0, 3_000]))
    def begin(self, delay_ms: int) -> None:
        limits = Limits(group_initial_rebalance_delay_ms=delay_ms, offsets_retention_check_interval_ms=10**12)
        self.driver = Driver(self, limits)
        self.model = Model(delay_ms=delay_ms)
        self.ids: list[tuple[str, str | None]] = [("nobody-0", None), ("nobody-0", "i")]
        self.acked: dict[tuple[int, str], bytes] = {}  # (generation, member) -> assignment
        self.last_generation = 0
        self.committed: dict[int, int] = {}

    # -- the outside ---------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        return self.driver.now_ms

    @property
    def tickets(self) -> int:
        return self.driver.tickets

    def ask(self, request: Any, version: int) -> Any:
        """The response, None while parked. What else is answered must be what the model answers."""
        call = self.driver.call(version)
        self.driver.parked[call.ticket] = self.now
        result = self.driver.handle(request, call)
        if result.response is not None:
            del self.driver.parked[call.ticket]
            return result.response
        return self.driver.answered.get(call.ticket)

    def step(self) -> None:
        self.driver.answered, self.model.answers = {}, {}

    def compare(self, response: Any = None) -> None:
        """All that was answered in this step."""
        answered = {ticket: each.error_code for ticket, each in self.driver.answered.items()}
        if response is not None:
            answered[self.tickets] = response.error_code
        assert answered == self.model.answers

    # -- what clients do -----------------------------------------------------------------------------------------------

    @rule(protocols=PROTOCOLS, instance=st.sampled_from([None, None, "i", "j"]), version=st.sampled_from([3, 9]))
    def join_new(self, protocols: tuple[str, ...], instance: str | None, version: int) -> None:
        version = 9 if instance else version
        self.step()
        session = 10_007 + 13 * self.driver.ids
        response = self.ask(self.join_request("", instance, protocols, session, 25_000), version)
        id_ = f"{instance or 'c'}-{self.driver.ids}"
        self.ids.append((id_, instance))
        self.model.join_new(self.tickets, id_, Member(id_, instance, protocols, session, 25_000), version, self.now)
        self.compare(response)

    @rule(data=st.data(), protocols=PROTOCOLS, rebalance_ms=st.sampled_from([25_000, 40_000]))
    def join_known(self, data: st.DataObject, protocols: tuple[str, ...], rebalance_ms: int) -> None:
        id_, instance = self.somebody(data)
        member = self.model.members.get(id_)
        if member is not None and data.draw(st.booleans()):
            protocols = member.protocols
        if id_ not in self.model.pending or instance is None:
            self.rejoin(id_, instance, protocols, rebalance_ms)

    def rejoin(self, id_: str, instance: str | None, protocols: tuple[str, ...], rebalance_ms: int = 25_000) -> None:
        session = 10_009 + 17 * self.tickets
        self.step()
        response = self.ask(self.join_request(id_, instance, protocols, session, rebalance_ms), 9)
        self.model.join_known(self.tickets, Member(id_, instance, protocols, session, rebalance_ms), self.now)
        self.compare(response)

    @rule(data=st.data(), behind=st.sampled_from([0, 0, 0, 1]))
    def sync(self, data: st.DataObject, behind: int) -> None:
        id_, instance = self.somebody(data)
        self.syncs(id_, instance, self.model.generation - behind)

    def syncs(self, id_: str, instance: str | None, generation: int) -> None:
        given = {each: f"t{number}" for number, each in enumerate(self.model.members)}
        request = SyncGroupRequest(
            "g",
            generation,
            id_,
            instance,
            assignments=tuple(SyncGroupRequestAssignment(each, part.encode()) for each, part in given.items()),
        )
        self.step()
        response = self.ask(request, 4)
        if not self.model.exists or self.model.state == EMPTY:
            self.model.answers[self.tickets] = 25
        else:
            self.model.sync(self.tickets, id_, instance, generation, given, self.now)
        self.compare(response)
        self.owned(generation)

    @rule(all_of_them=st.booleans())
    def everybody_behaves(self, all_of_them: bool) -> None:
        """Who was given an id joins, who is a member rejoins, then all of them (or all but one) sync."""
        for id_ in list(self.model.pending):
            self.rejoin(id_, None, ("range", "sticky"))
            self.the_group_is_the_models()
        for member in list(self.model.members.values()):
            if self.model.state == PREPARING and member.id in self.model.members and member.join is None:
                self.rejoin(member.id, member.instance, member.protocols, member.rebalance_ms)
                self.the_group_is_the_models()
        while self.model.state == PREPARING and self.model.initial and self.model.members:
            self.advance(3_000)
            self.the_group_is_the_models()
        behaving = [member.id for member in self.model.members.values()][0 if all_of_them else 1 :]
        for id_ in behaving if self.model.state == COMPLETING else ():
            self.syncs(id_, None, self.model.generation)

    def owned(self, generation: int) -> None:
        """(a): what members hold in one generation never overlaps, and never changes."""
        if self.model.state != "Stable" or generation != self.model.generation:
            return
        group = self.driver.shard.groups["g"]
        assert isinstance(group, ClassicGroup)
        for member in group.members.values():
            if not member.assignment:
                continue
            who = member.instance_id or member.member_id
            assert self.acked.setdefault((generation, who), member.assignment) == member.assignment
        held = [part for (of, _), part in self.acked.items() if of == generation]
        assert len(held) == len(set(held)), f"a partition belongs to two in generation {generation}"

    @rule(data=st.data(), behind=st.sampled_from([0, 0, 0, 1]))
    def beat(self, data: st.DataObject, behind: int) -> None:
        id_, instance = self.somebody(data)
        generation = self.model.generation - behind
        response = self.ask(HeartbeatRequest("g", generation, id_, instance), 4)
        expected = self.model.beat(id_, instance, generation, self.now) if self.model.exists else 25
        assert response.error_code == (25 if self.model.state == EMPTY else expected)

    @rule(data=st.data(), behind=st.sampled_from([0, 0, 0, 1]), partition=st.integers(0, 1), alone=st.booleans())
    def commit(self, data: st.DataObject, behind: int, partition: int, alone: bool) -> None:
        id_, instance = ("", None) if alone else self.somebody(data)
        generation = -1 if alone else self.model.generation - behind
        offset = self.tickets
        request = OffsetCommitRequest(
            "g",
            generation,
            id_,
            instance,
            topics=(OffsetCommitRequestTopic("t", partitions=(OffsetCommitRequestPartition(partition, offset),)),),
        )
        error = self.ask(request, 9).topics[0].partitions[0].error_code
        assert error == self.model.commit(id_, instance, generation, self.now)
        if not error:
            self.committed[partition] = offset
            self.model.exists = True

    @rule(data=st.data(), count=st.integers(1, 3), by_instance=st.booleans())
    def leave(self, data: st.DataObject, count: int, by_instance: bool) -> None:
        named = [self.somebody(data) for _ in range(count)]
        named = [("", instance) if by_instance and instance else (id_, instance) for id_, instance in named]
        request = LeaveGroupRequest("g", members=tuple(LeaveGroupRequestMemberIdentity(*each) for each in named))
        self.step()
        response = self.ask(request, 5)
        assert [each.error_code for each in response.members] == self.model.leave(named, self.now)
        self.compare()

    @rule(ms=st.sampled_from([0, 100, 1_000, 3_000, 9_000, 12_000, 30_000, 301_000]))
    def advance(self, ms: int) -> None:
        self.driver.wait(ms)
        assert (self.model.next_ms() or self.now + 1) > self.now

    @precondition(lambda self: self.driver.log)
    @rule()
    def restart(self) -> None:
        self.driver.rebuild()
        self.driver.load()
        self.driver.parked = {}
        self.model.restart(self.now)

    # -- what holds ----------------------------------------------------------------------------------------------------

    def somebody(self, data: st.DataObject) -> tuple[str, str | None]:
        """A member more often than not, or somebody who was one; with or without the instance id."""
        members = [(member.id, member.instance) for member in self.model.members.values()]
        id_, instance = data.draw(st.sampled_from([*members, *members, *self.ids[-4:]]))
        return id_, instance if data.draw(st.booleans()) else None

    def join_request(
        self, id_: str, instance: str | None, protocols: tuple[str, ...], session_ms: int, rebalance_ms: int
    ) -> JoinGroupRequest:
        offered = tuple(JoinGroupRequestProtocol(name, b"m") for name in protocols)
        return JoinGroupRequest("g", session_ms, rebalance_ms, id_, instance, "consumer", offered)

    def adopt(self) -> None:
        """Where the rules leave a choice, the model goes on with the shard's."""
        group = self.driver.shard.groups.get("g")
        if group is None:
            return
        assert isinstance(group, ClassicGroup)
        assert group.leader is None or group.leader in self.model.members
        self.model.leader = group.leader

    @invariant()
    def the_group_is_the_models(self) -> None:
        group = self.driver.shard.groups.get("g")
        assert (group is not None) == self.model.exists
        if group is None:
            return
        assert isinstance(group, ClassicGroup)
        self.adopt()
        assert (group.state.value, group.generation) == (self.model.state, self.model.generation)
        assert set(group.members) == set(self.model.members)
        assert set(group.pending) == set(self.model.pending)
        if group.state.value not in (PREPARING, COMPLETING):
            assert group.protocol == self.model.protocol
        for member in group.members.values():
            known = self.model.members[member.member_id]
            assert member.assignment.decode() == known.assignment
            assert member.protocols == tuple((name, b"m") for name in known.protocols)
            assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (known.session_ms, known.rebalance_ms)
            assert (member.join_ticket, member.sync_ticket) == (known.join, known.sync)

    @invariant()
    def counters_count(self) -> None:
        group = self.driver.shard.groups.get("g")
        if isinstance(group, ClassicGroup):
            members = list(group.members.values())
            assert group.joined == sum(member.join_ticket is not None for member in members)
            assert group.unsynced == sum(member.unsynced for member in members)
            offered = [name for member in members for name in dict(member.protocols)]
            assert group.supports == {name: offered.count(name) for name in offered}
            static = {member.instance_id: member.member_id for member in members if member.instance_id is not None}
            assert dict(group.instances.items()) == static
            assert group.leader in (group.members or {None})

    @invariant()
    def what_members_take_is_counted(self) -> None:
        assert self.driver.shard.members_bytes == weigh_members(self.driver.shard)

    @invariant()
    def generations_never_decrease(self) -> None:
        """(c): of those that members have heard an assignment of, also across a restart."""
        generation = self.model.written[0]
        assert generation >= self.last_generation
        self.last_generation = generation

    @invariant()
    def a_commit_is_kept_and_a_refused_one_is_not(self) -> None:
        """(b) and (f)."""
        found = self.driver.shard.offsets.of_group("g").get("t", {})
        assert {partition: value.offset for partition, value in found.items()} == self.committed

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        """(e): within the longest rebalance timeout and a second."""
        assert all(self.now - since <= LONGEST_MS for since in self.driver.parked.values())


def lives(count: int, steps: int) -> settings:
    return settings(
        max_examples=count, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )


TestClassic = ClassicMachine.TestCase
TestClassic.settings = lives(60, 50)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_and_long_lives() -> None:
    """R10."""
    run_state_machine_as_test(ClassicMachine, settings=lives(20_000, 100))
