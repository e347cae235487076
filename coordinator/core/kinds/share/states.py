"""The states of a share group: it has members, or it has none."""

from enum import StrEnum


class GroupState(StrEnum):
    """Kafka's names, as ShareGroupDescribe and ListGroups spell them."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"  # deleted: never seen in a group that can be found
