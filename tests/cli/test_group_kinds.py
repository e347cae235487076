"""The commands know the kinds of groups and their states by heart, as to import them takes a while."""

from coordinator.cli.groups import STATES, TYPES
from coordinator.core import dispatch as dispatch  # registers the kinds
from coordinator.core.kinds.kind import DEAD
from coordinator.core.kinds.registry import KINDS, seen_states


def test_groups_are_filtered_by_each_state_and_each_type_that_there_is() -> None:
    assert {*STATES} == {*seen_states(), DEAD}
    assert {*KINDS} <= {*TYPES}
