"""Verbs over all groups give way between groups, and say the same as at once."""

import pytest

from coordinator.server.verbs.state import State
from tests.control.steered import SteeredNode
from tests.requests import commit
from tests.steps import count_steps

GROUPS = 130
STATE = State({"orders": 1}, {f"g{number:03}": {"orders": {"0": number}} for number in range(GROUPS)})


def test_groups_are_viewed_in_steps_and_those_that_go_meanwhile_are_left_out() -> None:
    server = SteeredNode(topics={"orders": 1})
    server.operator.state.seed(STATE)
    steps, views = count_steps(server.operator.groups.views_in_steps("g"))
    assert views == server.operator.groups.views() and len(views) == GROUPS
    assert steps > 3
    assert server.operator.state.contents() == STATE
    going = server.operator.groups.views_in_steps()
    next(going)
    server.operator.groups.forget(f"g{GROUPS - 1:03}")
    assert [view.group for view in count_steps(going)[1]] == [f"g{number:03}" for number in range(GROUPS - 1)]


def test_groups_are_removed_in_steps_and_others_are_not_waited_for() -> None:
    server = SteeredNode(topics={"orders": 1})
    server.operator.state.seed(STATE)
    removal = server.operator.groups.forget_all_in_steps("g", ("g00",))
    counts = [GROUPS]
    while counts[-1] == GROUPS:
        next(removal)
        counts.append(len(server.operator.groups.names()))
    assert 10 < counts[-1] < GROUPS
    server.operator.groups.forget(f"g{GROUPS - 1:03}")
    assert count_steps(removal)[1] == GROUPS - 10
    assert server.operator.groups.names() == [f"g00{number}" for number in range(10)]


@pytest.mark.parametrize("verb", ["reset", "restore"])
def test_no_client_is_served_between_the_members_that_are_kept_out_and_the_next_node(verb: str) -> None:
    server = SteeredNode(topics={"orders": 1})
    server.operator.state.seed(STATE)
    server.operator.state.take_snapshot("kept")
    old, seen = server.node, list[tuple[bool, bool]]()
    state = server.operator.state
    for wait in state.reset_in_steps() if verb == "reset" else state.restore_in_steps("kept"):
        seen.append((server.node is old, server.poller.is_held))
        if wait is not None:
            wait()
    assert (True, True) in seen and (False, True) not in seen
    assert not server.poller.is_held and server.node is not old
    server.connect().ask(commit("g", {"orders": {0: 1}}), 8)
