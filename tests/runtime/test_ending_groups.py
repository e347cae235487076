"""A group with many offsets that ends: its requests while the tombstones are written, and a restart meanwhile."""

from itertools import count
from typing import Any

import pytest

from coordinator.core import cleanup
from coordinator.core.decision import Done, Parked
from coordinator.core.moves import MoveGroup
from coordinator.core.result import Call
from protocol.apis import api_of
from protocol.errors import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.control.steered import SteeredNode
from tests.requests import commit, fetch_offsets, join
from tests.server.in_memory import InMemory


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "TOMBSTONES_A_STEP", 4)


class Stepper:
    """A server whose steps are done one at a time, and a group with 40 offsets."""

    def __init__(self) -> None:
        self.server = InMemory(topics={"orders": 40})
        self.server.connect().ask(commit("g", {"orders": dict.fromkeys(range(40), 5)}), 8)
        self.tickets = count(1_000)

    def ask(self, request: Any, version: int) -> Any:
        """Decide a request, and return its response."""
        engine, where = self.server.node.engine, self.server.listeners[0].where
        call = Call(next(self.tickets), self.server.clock.now_ms(), version, "c", "/127.0.0.1", lambda: "id")
        outcome = engine.handle(api_of(request).key, request, call, where)
        engine.flush()
        assert isinstance(outcome, Done)
        return outcome.response

    def end_group(self) -> None:
        assert self.ask(DeleteGroupsRequest(("g",)), 2).results[0].error_code == 0


def left(server: InMemory) -> int:
    """How many offsets there are, those that are about to be removed among them."""
    return sum(partition.shard.offsets.count for partition in server.node.world.partitions)


def test_it_is_gone_at_once_and_there_is_another_when_its_offsets_are_removed() -> None:
    stepper = Stepper()
    stepper.end_group()
    assert left(stepper.server) == 32, "the rest is removed in steps"
    assert not stepper.ask(ListGroupsRequest(), 4).groups
    (found,) = stepper.ask(fetch_offsets("g", {"orders": (39,)}), 8).groups[0].topics[0].partitions
    assert (found.committed_offset, found.error_code) == (-1, 0)
    assert stepper.ask(DeleteGroupsRequest(("g",)), 2).results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (refused,) = stepper.ask(commit("g", {"orders": {39: 7}}), 8).topics[0].partitions
    assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "clients try again"
    assert stepper.ask(join("g"), 5).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert stepper.ask(commit("h", {"orders": {0: 7}}), 8).topics[0].partitions[0].error_code == 0
    counts = [left(stepper.server)]
    while stepper.server.node.engine.unfinished:
        stepper.server.node.engine.long_requests.step()
        counts.append(left(stepper.server))
    assert counts == [33, 29, 25, 21, 17, 13, 9, 5, 1, 1], "a step has so many tombstones"
    assert stepper.ask(commit("g", {"orders": {39: 7}}), 8).topics[0].partitions[0].error_code == 0


def test_a_server_that_is_killed_meanwhile_does_the_rest_at_its_start() -> None:
    stepper = Stepper()
    stepper.end_group()
    stepper.server.node.engine.long_requests.step()
    stepper.server.node.engine.flush()
    assert left(stepper.server) == 28
    again = InMemory(stepper.server.files, topics={"orders": 40})
    assert left(again) == 24, "the first step is done already"
    again.rest()
    assert left(again) == 0
    (done,) = again.connect().ask(commit("g", {"orders": {39: 7}}), 8).topics[0].partitions
    assert done.error_code == 0


def test_a_broker_that_takes_the_group_over_meanwhile_does_the_rest() -> None:
    stepper = Stepper()
    node = stepper.server.node
    stepper.end_group()
    partition = node.world.partitions.owner("g")
    node.command(MoveGroup("g", 0), stepper.server.clock.now_ms(), lambda: "id")
    stepper.server.rest()
    assert partition.is_loaded and left(stepper.server) == 0
    assert not node.world.edge.failures


def test_an_operator_is_told_when_there_can_be_another() -> None:
    server = SteeredNode(topics={"orders": 40})
    peer = server.connect()
    for group in ("g", "h"):
        peer.ask(commit(group, {"orders": dict.fromkeys(range(40), 5)}), 8)
    server.operator.groups.forget("g")
    assert peer.ask(commit("g", {"orders": {39: 7}}), 8).topics[0].partitions[0].error_code == 0
    assert server.operator.groups.forget_all("") == 2
    assert left(server) == 0


def test_the_offsets_of_a_share_group_are_altered_in_steps() -> None:
    """30,000 partitions took half a second in one step."""
    stepper = Stepper()
    partition = AlterShareGroupOffsetsRequestPartition
    topic = AlterShareGroupOffsetsRequestTopic("orders", tuple(partition(index, 3) for index in range(40)))
    request, engine = AlterShareGroupOffsetsRequest("queue", (topic,)), stepper.server.node.engine
    call = Call(7, stepper.server.clock.now_ms(), 0, "c", "/127.0.0.1", lambda: "0" * 32)
    outcome = engine.handle(api_of(request).key, request, call, stepper.server.listeners[0].where)
    assert isinstance(outcome, Parked)
    steps, answers = 0, list[Any]()
    while not answers:
        engine.long_requests.step()
        answers = [one for ticket, one in engine.replies() if ticket == 7]
        steps += 1
    (answered,) = answers[0].response.responses
    assert steps > 2 and [one.error_code for one in answered.partitions] == [0] * 40
    assert engine.share_states.states(), "they have begun"
