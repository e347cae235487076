"""The tables of the classic group, walked; and that a group moves along them only (C-001, C-002)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.states import COMMIT, HEARTBEAT, NEXT, State
from protocol.errors import ErrorCode


def test_every_state_is_in_every_table() -> None:
    assert set(NEXT) == set(HEARTBEAT) == set(COMMIT) == set(State)


def test_all_states_can_be_reached_and_all_can_die() -> None:
    reached, walk = {State.EMPTY}, [State.EMPTY]
    while walk:
        for state in NEXT[walk.pop()] - reached:
            reached.add(state)
            walk.append(state)
    assert reached == set(State)
    assert all(State.DEAD in NEXT[state] for state in State if state is not State.DEAD)


def test_a_state_is_kafkas_word() -> None:
    assert [state.value for state in State] == ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]


@pytest.mark.rule("C-004")
@given(st.lists(st.sampled_from(State), max_size=12))
def test_a_group_moves_along_the_table(path: list[State]) -> None:
    group = ClassicGroup("g")
    for at_ms, state in enumerate(path):
        if state in NEXT[group.state]:
            group = group.with_state(state, at_ms)
            assert (group.state, group.state_since_ms) == (state, at_ms)  # C-004
        else:
            with pytest.raises(AssertionError):
                group.with_state(state, at_ms)


@pytest.mark.rule("O-024 O-028 C-251")
def test_a_commit_is_refused_only_where_its_fate_is_open() -> None:
    assert {state for state in State if COMMIT[state] is ErrorCode.NONE} == {State.PREPARING_REBALANCE, State.STABLE}
    assert HEARTBEAT[State.DEAD] is COMMIT[State.DEAD] is ErrorCode.COORDINATOR_NOT_AVAILABLE
