"""A share group with many states that ends: they end in steps, and what others ask for meanwhile."""

from itertools import count
from typing import Any

import pytest

from coordinator.core.decision import Done, Parked
from coordinator.core.moves import MoveGroup
from coordinator.core.result import Call
from coordinator.core.shard import Shard
from protocol.apis import api_of
from protocol.errors import ErrorCode
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


class Stepper:
    """A server whose steps are done one at a time, and a share group without members that has 40 states."""

    def __init__(self, server: InMemory | None = None) -> None:
        self.server = server or InMemory(topics={"orders": COUNT}, virtual_brokers=2)
        self.tickets = count(1_000)
        self.engine = self.server.node.engine
        self.codes: dict[int, int] = {}  # by ticket
        if server is None:
            self.begin(JOIN, 1)
            self.finish()
            self.begin(ShareGroupHeartbeatRequest("g", "m", -1), 1)
            assert self.states() == COUNT

    def states(self) -> int:
        return len(list(self.engine.share_states.states()))

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
        (entry,) = getattr(response, "results", None) or getattr(response, "responses", None) or (response,)
        self.codes[ticket] = entry.error_code


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
