"""A target of a large group on a node: computed over many turns, while others are answered."""

from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.core.assignors import sticky_tasks
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.streams_group_heartbeat import StatusCode
from tests.members import StreamsMember
from tests.server.in_memory import InMemory

TASKS = 600  # of each of the two subtopologies of the tests' topology


@pytest.fixture
def server() -> InMemory:
    made = InMemory(
        topics={"lines": TASKS, "words": TASKS, "counts": TASKS},
        group_streams_initial_rebalance_delay_ms=0,
        group_streams_assignment_interval_ms=0,
    )
    seconds = iter(range(1, 1_000_000))
    made.frontend.turn.real_s = lambda: float(next(seconds))  # every look takes as long as a turn
    return made


def member(server: InMemory, name: str) -> StreamsMember:
    found = StreamsMember(server.connect(name), name)
    found.topology = large_topology(found.topology)
    return found


def large_topology(topology: Any) -> Any:
    """The tests' topology with a repartition topic as large as its source."""
    first, second = topology.subtopologies
    words = (type(second.repartition_source_topics[0])("words", TASKS),)
    second = type(second)(
        second.subtopology_id,
        state_changelog_topics=second.state_changelog_topics,
        repartition_source_topics=words,
    )
    return type(topology)(0, (first, second))


def group(server: InMemory) -> Any:
    return server.node.world.partitions.owner("app").shard.groups["app"]


def test_others_are_answered_while_a_target_is_computed(server: InMemory) -> None:
    one, other = member(server, "a"), server.connect()
    (status,) = one.beat().status
    assert status.status_code == StatusCode.ASSIGNMENT_DELAYED
    turns = 0
    while group(server).long_target is not None:
        assert other.ask(ApiVersionsRequest("test", "1"), 3)
        turns += 1
    assert turns > 10
    answer = one.beat()
    assert not answer.status
    assert sum(len(each.partitions) for each in answer.active_tasks) == 2 * TASKS


def test_an_assignor_that_breaks_is_asked_again_at_the_next_heartbeat(
    server: InMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(spec: Any) -> Iterator[None]:
        yield
        raise ArithmeticError("planted")

    one = member(server, "a")
    with monkeypatch.context() as patch:
        patch.setattr(sticky_tasks, "assign", break_down)
        one.beat()
        server.rest()
    assert (group(server).long_target, group(server).state) == (None, "Assigning")
    one.beat()
    server.rest()
    assert one.beat().active_tasks
