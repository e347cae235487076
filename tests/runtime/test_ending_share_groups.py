"""A share group with many states that ends: they end in steps, and what others ask for meanwhile."""

from itertools import count
from typing import Any

import pytest

from coordinator.core.decision import Done, Parked
from coordinator.core.moves import MoveGroup
from coordinator.core.result import Call
from coordinator.core.shard import Shard
from coordinator.core.share_state.values import StateKey
from protocol.apis import api_of
from protocol.errors import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.server.in_memory import InMemory

DELETE = DeleteGroupsRequest(("g",))
DELETE_OFFSETS = DeleteShareGroupOffsetsRequest("g", (DeleteShareGroupOffsetsRequestTopic("orders"),))
JOIN = ShareGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=("orders",))
COUNT = 40


def alter(*topics: str, indexes: range = range(COUNT)) -> AlterShareGroupOffsetsRequest:
    """Begin partitions of topics at offset 5."""
    partitions = tuple([AlterShareGroupOffsetsRequestPartition(index, 5) for index in indexes])
    return AlterShareGroupOffsetsRequest(
        "g", tuple([AlterShareGroupOffsetsRequestTopic(name, partitions) for name in topics])
    )


class Stepper:
    """A server whose steps are done one at a time, and a share group without members that has 40 states."""

    def __init__(self, server: InMemory | None = None) -> None:
        self.server = server or InMemory(topics={"orders": COUNT}, virtual_brokers=2)
        self.tickets = count(1_000)
        self.engine = self.server.node.engine
        self.codes: dict[int, int] = {}  # by ticket
        self.responses: dict[int, Any] = {}
        if server is None:
            self.begin(JOIN, 1)
            self.finish()
            self.begin(ShareGroupHeartbeatRequest("g", "m", -1), 1)
            assert self.states() == COUNT

    def states(self) -> int:
        return len(list(self.engine.share_states.states()))

    def known_states(self) -> set[StateKey]:
        """Return the states that the group, if there is one, has or has begun."""
        group = self.engine.world.partitions.owner("g").shard.groups.get("g")
        return {
            StateKey("g", topic_id, index)
            for topics in ("initializing", "initialized")
            for topic_id, one in getattr(group, topics, {}).items()
            for index in one.partitions
        }

    def begin(self, request: Any, version: int) -> int:
        """Do the first step of a request. Returns its ticket."""
        ticket, key = next(self.tickets), api_of(request).key
        at = self.engine.world.coordinators.of_groups[self.engine.world.partitions.owner("g").index]
        call = Call(ticket, self.server.clock.now_ms(), version, "c", "/127.0.0.1", lambda: "id")
        outcome = self.engine.handle(key, request, call, self.server.listeners[at].where)
        self.engine.flush()
        if isinstance(outcome, Done):
            self._note(ticket, outcome.response)
        else:
            assert isinstance(outcome, Parked)
        return ticket

    def step(self) -> None:
        self.engine.long_requests.step()
        self.engine.flush()
        for ticket, outcome in self.engine.replies():
            self._note(ticket, outcome.response)

    def finish(self) -> int:
        """Do all steps. Returns how many they were."""
        steps = 0
        while self.engine.unfinished:
            steps += 1
            self.step()
        return steps

    def _note(self, ticket: int, response: Any) -> None:
        self.responses[ticket] = response
        entry, *_ = getattr(response, "results", None) or getattr(response, "responses", None) or (response,)
        self.codes[ticket] = getattr(entry, "error_code", 0)


@pytest.mark.parametrize(("request_", "version"), [(DELETE, 2), (DELETE_OFFSETS, 0)])
def test_states_end_in_steps(request_: Any, version: int) -> None:
    stepper = Stepper()
    ticket = stepper.begin(request_, version)
    assert 0 < stepper.states() < COUNT
    assert stepper.finish() >= 3
    assert stepper.codes[ticket] == 0 and not stepper.states()


@pytest.mark.parametrize(("request_", "version"), [(DELETE, 2), (DELETE_OFFSETS, 0)])
def test_a_member_that_joins_meanwhile_has_all_states(request_: Any, version: int) -> None:
    stepper = Stepper()
    ticket = stepper.begin(request_, version)
    joined = stepper.begin(JOIN, 1)
    stepper.finish()
    assert (stepper.codes[joined], stepper.codes[ticket]) == (0, ErrorCode.NON_EMPTY_GROUP)
    group = stepper.engine.world.partitions.owner("g").shard.groups["g"]
    assert stepper.states() == sum(len(one.partitions) for one in group.initialized.values()) == COUNT
    assert not group.deleting


@pytest.mark.parametrize("ahead", [0, 3])
@pytest.mark.parametrize(("request_", "version"), [(DELETE, 2), (DELETE_OFFSETS, 0)])
def test_states_that_are_altered_meanwhile_are_there_or_told_to_be_gone(
    request_: Any, version: int, ahead: int
) -> None:
    """The group knows of all states that there are, and has no others."""
    stepper = Stepper(InMemory(topics={"bills": COUNT, "orders": COUNT}, virtual_brokers=2))
    for request in (JOIN, ShareGroupHeartbeatRequest("g", "m", -1)):
        stepper.begin(request, 1)
        stepper.finish()
    altered = stepper.begin(alter("orders", "bills"), 0)
    for _ in range(ahead):
        stepper.step()
    ended = stepper.begin(request_, version)
    stepper.finish()
    assert stepper.codes[ended] == 0
    group: Any = stepper.engine.world.partitions.owner("g").shard.groups.get("g")
    known = stepper.known_states()
    assert {key for key, _ in stepper.engine.share_states.states()} == known
    assert len(known) == (0 if group is None else COUNT) and not getattr(group, "deleting", ())
    told = {one.error_code for topic in stepper.responses[altered].responses for one in topic.partitions}
    assert told - {0} == ({ErrorCode.GROUP_ID_NOT_FOUND} if ahead < 3 or request_ is DELETE else set())


@pytest.mark.parametrize("indexes", [range(COUNT // 2), range(COUNT - 5, COUNT)])
@pytest.mark.parametrize(("request_", "version"), [(DELETE, 2), (DELETE_OFFSETS, 0)])
def test_what_is_altered_while_states_end_is_all_that_stays(request_: Any, version: int, indexes: range) -> None:
    stepper = Stepper()
    ended = stepper.begin(request_, version)
    stepper.step()
    stepper.begin(alter("orders", indexes=indexes), 0)
    stepper.finish()
    assert stepper.codes[ended] == 0
    states = {key: state.start_offset for key, state in stepper.engine.share_states.states()}
    assert states == dict.fromkeys(stepper.known_states(), 5)
    assert request_ is DELETE or len(states) == len(indexes)


def test_partitions_that_cannot_be_are_refused_and_hold_nobody_up() -> None:
    stepper = Stepper()
    ticket = stepper.begin(alter("orders", indexes=range(-2, COUNT + 2)), 0)
    stepper.finish()
    (topic,) = stepper.responses[ticket].responses
    assert {one.partition_index: one.error_code for one in topic.partitions} == {
        index: 0 if 0 <= index < COUNT else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for index in range(-2, COUNT + 2)
    }
    assert len(stepper.known_states()) == COUNT
    ended = stepper.begin(DELETE, 2)
    stepper.finish()
    assert stepper.codes[ended] == 0 and not stepper.states()


def test_two_administrators_alter_the_same_offsets_at_once() -> None:
    stepper = Stepper()
    tickets = [stepper.begin(alter("orders"), 0) for _ in range(2)]
    stepper.finish()
    for ticket in tickets:
        assert {one.error_code for topic in stepper.responses[ticket].responses for one in topic.partitions} == {0}
    assert {key for key, _ in stepper.engine.share_states.states()} == stepper.known_states()


def test_of_two_that_end_a_group_both_are_answered_and_the_next_group_has_new_states() -> None:
    stepper = Stepper()
    first, second = stepper.begin(DELETE, 2), stepper.begin(DELETE, 2)
    while not stepper.codes.keys() & {first, second}:
        stepper.step()
    assert not stepper.states(), "the first one that is answered has found nothing left"
    joined = stepper.begin(JOIN, 1)
    stepper.finish()
    assert {stepper.codes[first], stepper.codes[second]} in (
        {0, ErrorCode.NON_EMPTY_GROUP},
        {0, ErrorCode.GROUP_ID_NOT_FOUND},
    )
    assert stepper.codes[joined] == 0 and stepper.states() == COUNT


def test_a_server_that_is_killed_meanwhile_ends_the_rest_when_it_is_asked_again() -> None:
    stepper = Stepper()
    stepper.begin(DELETE, 2)
    stepper.engine.append()
    again = Stepper(InMemory(stepper.server.files, virtual_brokers=2))
    assert 0 < again.states() < COUNT
    ticket = again.begin(DELETE, 2)
    again.finish()
    assert again.codes[ticket] == 0 and not again.states()


@pytest.mark.parametrize(("request_", "version"), [(DELETE, 2), (DELETE_OFFSETS, 0)])
def test_a_group_that_moves_meanwhile_is_deleted_elsewhere(request_: Any, version: int) -> None:
    stepper = Stepper()
    ticket = stepper.begin(request_, version)
    at = stepper.engine.world.coordinators.of_groups[stepper.engine.world.partitions.owner("g").index]
    stepper.server.node.command(MoveGroup("g", 1 - at, 10_000), stepper.server.clock.now_ms(), str)
    stepper.finish()
    assert stepper.codes[ticket] == ErrorCode.NOT_COORDINATOR and stepper.states()


def test_a_topic_that_goes_meanwhile_takes_its_states_along(monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper()
    monkeypatch.setattr(Shard, "forget_topics", lambda *_: iter(()))  # it has not come to the group yet
    ticket = stepper.begin(DELETE, 2)
    stepper.begin(DeleteTopicsRequest(topic_names=("orders",), timeout_ms=1_000), 5)
    stepper.finish()
    assert stepper.codes[ticket] == 0 and not stepper.states()
