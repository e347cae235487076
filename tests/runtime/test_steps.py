"""Requests that are decided in steps: others are decided in between, and the end is as if nothing had been."""

from collections import Counter
from collections.abc import Generator
from itertools import count
from typing import Any

import pytest

from coordinator.control.inputs import StepInput
from coordinator.core.decision import SILENT
from coordinator.core.pace import UNITS, map_in_steps, name_units
from coordinator.runtime.steps import (
    ACTIVE_MAX,
    LEFT_MAX,
    STEPS_MAX,
    Checkpoints,
    ProcessorTime,
    UnfinishedRequest,
    UnfinishedRequests,
)
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from tests.requests import commit, fetch_offsets
from tests.server.in_memory import InMemory
from tests.steps import count_steps

GROUPS = 1_000
NAMES = tuple(f"g{number:04}" for number in range(GROUPS))


@pytest.fixture
def server() -> InMemory:
    made = InMemory(offsets_topic_num_partitions=3)
    peer = made.connect()
    for name in NAMES:
        assert peer.ask(commit(name, {"orders": {0: 1}}), 8).topics[0].partitions[0].error_code == 0
    made.frontend.turn.real_s = count(1.0).__next__  # every look takes as long as a turn
    return made


def asked(server: InMemory, message: Any, version: int) -> tuple[Any, int]:
    """The response, and how many turns it took. In each of them another client is answered."""
    peer, other = server.connect(), server.connect()
    peer.send((message, version))
    turns = 0
    while not peer.answers:
        other.send((ApiVersionsRequest("test", "1"), 3))
        server.turn()
        turns += 1
        assert len(other.answers) >= turns - 2, "it waits for no more than what a turn must do"
    return peer.answers[0][1], turns


def test_a_list_of_many_groups_is_made_in_steps(server: InMemory) -> None:
    response, turns = asked(server, ListGroupsRequest(), 4)
    assert sorted(group.group_id for group in response.groups) == list(NAMES)
    assert turns >= 4


def test_many_groups_are_described_in_steps(server: InMemory) -> None:
    response, turns = asked(server, DescribeGroupsRequest(NAMES), 4)
    assert [group.group_id for group in response.groups] == list(NAMES)
    assert turns >= 4


def test_many_groups_are_deleted_in_steps(server: InMemory) -> None:
    response, turns = asked(server, DeleteGroupsRequest((*NAMES, "nobody", *NAMES)), 2)
    codes = {result.group_id: result.error_code for result in response.results}
    assert codes == {**dict.fromkeys(NAMES, ErrorCode.NONE), "nobody": ErrorCode.GROUP_ID_NOT_FOUND}
    assert turns >= 4
    assert not any(partition.shard.groups for partition in server.node.world.partitions)


@pytest.mark.parametrize(("version", "is_named"), [(1, True), (7, True), (7, False), (9, True), (9, False)])
def test_many_offsets_of_a_group_are_fetched_in_steps(
    version: int, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.runtime.long_commits.PART_PARTITIONS", 10)
    monkeypatch.setattr("coordinator.runtime.group_requests.PART_PARTITIONS", 10)
    numbers = {"a": range(35), "b": range(4), "c": range(17)}
    server = InMemory(topics={name: len(each) for name, each in numbers.items()})
    peer = server.connect()
    peer.send((commit("g", {name: dict(zip(each, each, strict=True)) for name, each in numbers.items()}), 8))
    while not peer.answers:
        server.turn()
    server.frontend.turn.real_s = count(1.0).__next__
    if version < 8:
        named = tuple(OffsetFetchRequestTopic(name, tuple(each)) for name, each in numbers.items())
        response, turns = asked(server, OffsetFetchRequest("g", named if is_named else None), version)
        found = response.topics
    else:
        response, turns = asked(server, fetch_offsets("g", numbers if is_named else None), version)
        found = response.groups[0].topics
    assert turns >= 4
    assert {one.name: [each.committed_offset for each in one.partitions] for one in found} == {
        name: list(each) for name, each in numbers.items()
    }


def test_groups_that_come_and_go_between_steps_harm_no_list(server: InMemory) -> None:
    listing, deleting = server.connect(), server.connect()
    listing.send((ListGroupsRequest(), 4))
    deleting.send((DeleteGroupsRequest(NAMES), 2))
    while server.frontend.has_work or not listing.answers:
        server.turn()
    assert listing.answers[0][1].error_code == ErrorCode.NONE
    assert len(deleting.answers[0][1].results) == GROUPS


def test_few_requests_are_active_and_all_of_them_are_answered(server: InMemory) -> None:
    peers = [server.connect() for _ in range(3 * ACTIVE_MAX)]
    for peer in peers:
        peer.send((ListGroupsRequest(), 4), (ApiVersionsRequest("test", "1"), 3))
    while not all(len(peer.answers) == 2 for peer in peers):
        server.turn()
        assert len(server.node.engine.unfinished._active) <= ACTIVE_MAX
    assert all([number for number, _ in peer.answers] == [1, 2] for peer in peers)


def test_steps_end_with_their_client(server: InMemory) -> None:
    peer = server.connect()
    peer.send((ListGroupsRequest(), 4))
    server.turn()
    assert server.frontend.has_work
    server.frontend.disconnect(peer.connection)
    server.turn()
    assert not server.frontend.has_work


@pytest.mark.parametrize("leaving", range(ACTIVE_MAX + 3))
def test_a_client_that_leaves_ends_its_own_steps_wherever_they_wait(leaving: int) -> None:
    """Some requests are active, others wait until these have ended."""
    requests, done = UnfinishedRequests(Checkpoints()), Counter[int]()

    def count_steps(ticket: int) -> Generator[None, None, Any]:
        while True:
            done[ticket] += 1
            yield

    def step() -> None:
        unfinished = requests.pop()
        assert requests.advance(unfinished, StepInput(unfinished.ticket)) is None

    for ticket in range(ACTIVE_MAX + 3):
        requests.keep(UnfinishedRequest("Any", ticket, None, 0, count_steps(ticket)))
    for _ in range(ACTIVE_MAX):
        step()
    requests.forget(leaving)
    before = done[leaving]
    for ticket in range(ACTIVE_MAX + 3):
        for _ in range(ACTIVE_MAX + 3):
            if requests:
                step()
        assert done[leaving] == before, "nothing more is done for a client that has left"
        requests.forget(ticket)
    assert not requests


def test_only_so_many_requests_are_done_to_their_end_for_clients_that_have_left() -> None:
    """What they keep in memory has a bound; each that ends makes room for another one."""
    requests = UnfinishedRequests(Checkpoints())

    def leave(ticket: int, name: str = "DeleteTopics") -> int:
        requests.keep(UnfinishedRequest(name, ticket, None, 0, (None for _ in range(2))))
        requests.forget(ticket)
        assert requests.find(ticket) is None, "nobody is answered"
        return len(requests._waiting) + len(requests._active)

    assert leave(1) == 1
    assert leave(2, "DescribeGroups") == leave(3, "ShareFetch") == 1, "they change nothing that lasts"
    assert [leave(ticket) for ticket in range(4, LEFT_MAX + 5)] == [*range(2, LEFT_MAX + 1), LEFT_MAX, LEFT_MAX]
    requests.remove(requests.pop())
    assert leave(1) == leave(2) == LEFT_MAX


def test_a_step_ends_at_the_first_checkpoint_after_its_processor_time() -> None:
    """A clock that shows a millisecond more at each look: of 2 ms that a step has, the second look is the last."""
    requests = UnfinishedRequests(ProcessorTime(count(0, 0.001).__next__, seconds=0.002))
    passed = Counter[str]()

    def work() -> Generator[None, None, Any]:
        for _ in range(5):
            passed["checkpoint"] += 1
            yield
        return SILENT

    unfinished, noted = UnfinishedRequest("Any", 1, None, 0, work()), StepInput(1)
    requests.meter.begin()
    assert requests.advance(unfinished, noted) is None
    assert (passed["checkpoint"], noted.checkpoints) == (2, 2)
    again = StepInput(1)
    assert requests.advance(unfinished, again, most=1) is None
    assert (passed["checkpoint"], again.checkpoints) == (3, 1), "a replay does as many as a journal says"
    assert requests.advance(unfinished, StepInput(1), most=100) is SILENT


def test_what_a_step_begins_is_a_part_of_it() -> None:
    """As the end of a topic, of which groups forget their offsets in steps of their own: the step has no more time."""
    requests = UnfinishedRequests(ProcessorTime(count(0, 0.001).__next__, seconds=0.002))

    def begun() -> Generator[None, None, Any]:
        yield

    def work() -> Generator[None, None, Any]:
        for _ in range(5):
            assert requests.advance(UnfinishedRequest("Any", 2, None, 0, begun()), StepInput(2), most=1) is None
            yield
        return SILENT

    noted = StepInput(1)
    requests.meter.begin()
    assert requests.advance(UnfinishedRequest("Any", 1, None, 0, work()), noted) is None
    assert noted.checkpoints == 2


@pytest.mark.parametrize("before", [0, 8 * UNITS])
def test_a_step_that_fails_is_answered_with_an_error(
    server: InMemory, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    calls = iter(range(GROUPS))
    describe = server.node.world.partitions[0].shard.__class__.describe

    def fail_late(shard: Any, group_id: str, version: int) -> Any:
        if next(calls) == before:
            raise RuntimeError("boom")
        return describe(shard, group_id, version)

    monkeypatch.setattr("coordinator.core.shard.Shard.describe", fail_late)
    response, _ = asked(server, DescribeGroupsRequest(NAMES), 4)
    assert {group.error_code for group in response.groups} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert server.node.world.edge.failures == {"DescribeGroups": 1}


def test_offsets_of_many_groups_are_fetched_in_steps(server: InMemory) -> None:
    response, turns = asked(server, OffsetFetchRequest(groups=tuple(map(OffsetFetchRequestGroup, NAMES))), 8)
    assert [(group.group_id, len(group.topics)) for group in response.groups] == [(name, 0) for name in NAMES]
    assert turns >= 2


def test_requests_have_their_turns_one_after_the_other() -> None:
    requests, turns = UnfinishedRequests(Checkpoints()), Counter[int]()
    for ticket in range(ACTIVE_MAX):
        requests.keep(UnfinishedRequest("Any", ticket, None, 0, iter(())))  # type: ignore[arg-type]  # it is not run
    for _ in range(10 * ACTIVE_MAX):
        turns[requests.pop().ticket] += 1
    assert len(turns) == ACTIVE_MAX
    assert min(turns.values()) >= 8, turns


def test_active_requests_that_wait_for_another_one_let_it_in() -> None:
    """As acknowledgements of a share partition wait for the one that holds it, and that has begun after them."""
    requests, held = UnfinishedRequests(Checkpoints()), [True]

    def wait() -> Generator[None, None, Any]:
        while held:
            yield
        return SILENT

    def hold() -> Generator[None, None, Any]:
        yield
        held.clear()
        return SILENT

    for ticket, steps in enumerate([*[wait() for _ in range(ACTIVE_MAX)], hold()]):
        requests.keep(UnfinishedRequest("Any", ticket, None, 0, steps))
    for _ in range(2 * STEPS_MAX):
        if requests:
            unfinished = requests.pop()
            if requests.advance(unfinished, StepInput(unfinished.ticket)) is not None:
                requests.remove(unfinished)
    assert not requests


def test_a_step_of_a_server_is_over_after_two_milliseconds_of_processor_time() -> None:
    used_s = [5.0]
    meter = ProcessorTime(lambda: used_s[0])
    meter.begin()
    used_s[0] = 5.0019
    assert not meter.is_over()
    used_s[0] = 5.0021
    assert meter.is_over()


def test_the_longest_names_are_looked_up_with_a_checkpoint_before_each() -> None:
    assert count_steps(map_in_steps(["x" * 32_000] * 10, len, name_units)) == (11, [32_000] * 10)
    assert count_steps(map_in_steps(["x" * 32] * 10, len, name_units)) == (1, [32] * 10)
