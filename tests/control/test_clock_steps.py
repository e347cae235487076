"""A move of the clock is made in steps, and is one step for all who look: clients, and calls of the control API."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from coordinator.admin.control import control_operations
from coordinator.admin.operations import Input
from coordinator.core.pace import SORTED_AT_ONCE, sort_in_steps
from coordinator.events import Ring
from coordinator.server.verbs.clock import keep_everybody, keep_nobody
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.waits import finish_waits
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.control.steered import SteeredNode
from tests.steps import count_steps

MEMBERS = 120


@pytest.fixture
def server() -> SteeredNode:
    """A server with many sessions."""
    made = SteeredNode(group_consumer_max_size=1_000)
    for number in range(MEMBERS):
        heartbeat = ConsumerGroupHeartbeatRequest(
            f"g{number % 4}", f"m{number}", 0,
            rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",), topic_partitions=(),
        )  # fmt: skip
        made.connect().ask(heartbeat, 1)
    return made


def members(server: SteeredNode) -> int:
    return sum(len(view.members) for view in server.operator.groups.views())


def test_sessions_end_in_steps_while_no_client_is_read(server: SteeredNode) -> None:
    clock, left = server.operator.clock, list[int]()
    for _ in clock.advance_in_steps(60_000, keep_nobody):
        assert server.poller.is_held and clock.is_moving
        left.append(members(server))
    assert not server.poller.is_held and not clock.is_moving
    assert left[-1] == 0 < left[0] < MEMBERS, "100 at a time"


def test_sessions_are_renewed_in_steps(server: SteeredNode) -> None:
    steps, move = count_steps(partial(server.operator.clock.advance_in_steps, 40_000, keep_everybody)())
    assert steps > 3 and not [one for one in move.fired if one.kind == "session"]
    after = [one.at_ms for one in server.operator.clock.state().deadlines if one.kind == "session"]
    assert len(after) == MEMBERS and min(after) == move.now_ms + 45_000


def test_one_move_at_a_time(server: SteeredNode) -> None:
    clock = server.operator.clock
    moving = clock.step_in_steps(keep_nobody)
    next(moving)
    with pytest.raises(Refusal, match="the clock is being moved"):
        clock.advance(1, keep_nobody)
    assert finish_waits(moving).fired
    clock.advance(1, keep_nobody)


def test_a_move_that_is_given_up_serves_clients_again(server: SteeredNode) -> None:
    moving = server.operator.clock.step_in_steps(keep_nobody)
    next(moving)
    moving.close()
    assert not server.poller.is_held and not server.operator.clock.is_moving
    server.operator.clock.advance(1, keep_nobody)


def call(server: SteeredNode, method: str, path: str) -> Any:
    (operation,) = [
        one for one in control_operations(server.operator, Ring(), 9092) if (one.method, one.path) == (method, path)
    ]
    return operation.handle(Input({}, operation.query(), operation.body()))


async def test_calls_and_waits_see_what_was_before_a_move_or_after_it(server: SteeredNode) -> None:
    found, woken = list[int](), list[int]()

    async def look() -> None:
        found.append(sum(len(one.members) for one in (await call(server, "GET", "/v1/groups")).groups))

    async def wait() -> None:
        await server.operator.next_turn()
        woken.append(members(server))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        for _ in server.operator.clock.advance_in_steps(60_000, keep_nobody):
            nursery.start_soon(look)
            server.operator.wake()
            await trio.testing.wait_all_tasks_blocked()
            assert not found and not woken
        server.operator.wake()
    assert woken == [0] and set(found) == {0}


async def test_moves_follow_each_other(server: SteeredNode) -> None:
    before, moves = server.clock.now_ms(), list[int]()

    async def step() -> None:
        moves.append((await call(server, "POST", "/v1/clock/step")).now_ms)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(step)
    assert sorted(set(moves)) == moves and moves[0] > before and len(moves) == 3


@pytest.mark.parametrize("limit", [0, 1, 7, None])
def test_deadlines_are_listed_in_steps_the_earliest_first(server: SteeredNode, limit: int | None) -> None:
    steps, state = count_steps(server.operator.clock.state_in_steps(limit))
    every = server.operator.clock.state().deadlines
    assert steps > 2 and state.deadlines == every[:limit]
    assert [one.at_ms for one in every] == sorted(one.at_ms for one in every)
    assert len(set(every)) == len(every) > MEMBERS


def numbers(count: int) -> Iterator[tuple[int, int]]:
    for number in range(count):
        yield (number * 7919) % 97, number


@pytest.mark.parametrize("count", [0, 1, SORTED_AT_ONCE, SORTED_AT_ONCE + 1, 5 * SORTED_AT_ONCE + 3])
@pytest.mark.parametrize("key", [None, lambda one: one[0]])
def test_what_is_sorted_in_steps_is_sorted(count: int, key: Any) -> None:
    entries = list(numbers(count))
    steps, found = count_steps(sort_in_steps(entries, key))
    assert found == sorted(entries, key=key)
    assert (steps > 1) == (count > SORTED_AT_ONCE)
