"""The states of a streams group and of its members. Neither is ever set: both follow from epochs and tasks."""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final


class GroupState(StrEnum):
    """Kafka's names, as StreamsGroupDescribe and ListGroups spell them."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"  # topics of its topology are missing or do not fit
    ASSIGNING = "Assigning"  # the inputs have changed, and the target for them is not computed yet
    RECONCILING = "Reconciling"  # members are on their way to their target
    STABLE = "Stable"
    DEAD = "Dead"  # deleted: never seen in a group that can be found


class MemberState(IntEnum):
    """How far a member is, as its record says it."""

    STABLE = 1  # it has all of the target of its epoch
    UNREVOKED_TASKS = 2  # it must give up tasks before it may go on
    UNRELEASED_TASKS = 3  # it is at the target's epoch, and others still hold some of its tasks
    UNKNOWN = 127  # written by a later version of Kafka

    @classmethod
    def read(cls, number: int) -> "MemberState":
        """Return the state of a record; what is not known is UNKNOWN."""
        return _READ.get(number, cls.UNKNOWN)


_READ: Final[Mapping[int, MemberState]] = {state.value: state for state in MemberState}
