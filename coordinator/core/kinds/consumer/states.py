"""The states of a consumer group and of its members. Neither is ever set: both follow from epochs and partitions."""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final


class GroupState(StrEnum):
    """Kafka's names, as ConsumerGroupDescribe and ListGroups spell them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the inputs have changed, and the target for them is not computed yet
    RECONCILING = "Reconciling"  # members are on their way to their target
    STABLE = "Stable"
    DEAD = "Dead"  # deleted: never seen in a group that can be found


class MemberState(IntEnum):
    """How far a member is, as its record says it."""

    STABLE = 0  # it has all of the target of its epoch
    UNREVOKED_PARTITIONS = 1  # it must give up partitions before it may go on
    UNRELEASED_PARTITIONS = 2  # it is at the target's epoch, and others still hold some of its partitions
    UNKNOWN = 127  # written by a later version of Kafka

    @classmethod
    def read(cls, number: int) -> "MemberState":
        """Return the state of a record; what is not known is UNKNOWN."""
        return _READ.get(number, cls.UNKNOWN)


_READ: Final[Mapping[int, MemberState]] = {state.value: state for state in MemberState}

# Where a member's reconciliation may lead in one step, for the docs and for the tests that walk it.
NEXT: Final[Mapping[MemberState, frozenset[MemberState]]] = dict.fromkeys(
    MemberState, frozenset({MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS})
)
