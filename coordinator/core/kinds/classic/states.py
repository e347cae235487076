"""The states of a classic group, and all that depends on nothing but the state, as tables.

Shown by tests/core/scripts/classic/{transitions,matrix*}.txt and tests/core/test_states.py.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from coordinator.core.timers import JOIN, SYNC
from protocol.errors import ErrorCode


class State(StrEnum):
    """Kafka's names, as DescribeGroups and ListGroups spell them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"  # members are joining
    COMPLETING_REBALANCE = "CompletingRebalance"  # the leader is assigning
    STABLE = "Stable"
    DEAD = "Dead"  # deleted, or its shard is closing: never seen in a group that can be found


NEXT: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY:                frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE:  frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    State.STABLE:               frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD:                 frozenset(),
}  # fmt: skip

# What a heartbeat of a member with the current generation is answered. All of them keep the session alive.
HEARTBEAT: Final[Mapping[State, ErrorCode]] = {
    State.EMPTY:                ErrorCode.UNKNOWN_MEMBER_ID,  # it has no members
    State.PREPARING_REBALANCE:  ErrorCode.REBALANCE_IN_PROGRESS,
    State.COMPLETING_REBALANCE: ErrorCode.NONE,  # a member may beat between its JoinGroup answer and its SyncGroup
    State.STABLE:               ErrorCode.NONE,
    State.DEAD:                 ErrorCode.COORDINATOR_NOT_AVAILABLE,
}  # fmt: skip

# What OffsetCommit of a member with the current generation is answered.
COMMIT: Final[Mapping[State, ErrorCode]] = {
    State.EMPTY:                ErrorCode.UNKNOWN_MEMBER_ID,
    State.PREPARING_REBALANCE:  ErrorCode.NONE,  # it still owns what it had, until it has joined
    State.COMPLETING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,  # what it has been given, it does not know yet
    State.STABLE:               ErrorCode.NONE,
    State.DEAD:                 ErrorCode.COORDINATOR_NOT_AVAILABLE,
}  # fmt: skip

# The states in which a commit counts as a heartbeat of its member.
RENEWED_BY_COMMIT: Final = State.STABLE, State.PREPARING_REBALANCE

# The timers that a group itself has in a state, beside those of its members. Those of the state that it leaves go.
TIMERS: Final[Mapping[State, frozenset[str]]] = {
    State.EMPTY:                frozenset(),
    State.PREPARING_REBALANCE:  frozenset({JOIN}),
    State.COMPLETING_REBALANCE: frozenset({SYNC}),
    State.STABLE:               frozenset({SYNC}),  # until all members have synced
    State.DEAD:                 frozenset(),
}  # fmt: skip

assert NEXT.keys() == HEARTBEAT.keys() == COMMIT.keys() == TIMERS.keys() == set(State)
