"""All groups at a glance, and one group with its lag: what somebody watches. Changes nothing.

However much the server holds, a look is bounded: it lists so many groups, counts the lag of so many offsets, and goes
on in steps, between which clients are served.
"""

from collections.abc import Callable, Iterator
from heapq import nsmallest
from time import monotonic
from typing import Final

from msgspec import Struct

from coordinator.core.group_view import GroupView
from coordinator.core.kinds.kind import Group
from coordinator.core.kinds.registry import kind_of
from coordinator.runtime.node import Node
from coordinator.runtime.partition import Partition

GROUPS_MAX: Final = 1_000  # in a look
LOOKED_AT_ONCE: Final = 5_000  # ids of groups: some milliseconds
OFFSETS_MAX: Final = 20_000  # whose lag is counted in a look
POSITIONS_MAX: Final = 1_000  # of the group that is shown
MEASURE_SECONDS: Final = 0.001  # of a look, to measure logs that nobody has opened since the start


class GroupSummary(Struct, frozen=True):
    """A group in the list.

    `lag` is null where it is not known, or nothing is committed. An offset beyond the end counts as 0.
    """

    group: str
    type: str
    state: str
    generation: int
    members: int
    lag: int | None


class Position(Struct, frozen=True):
    """A partition that has a committed offset, or a member that has it."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None  # below 0 where the offset lies beyond the end
    owners: tuple[str, ...]  # the ids of the members that have it: in a share group there may be several


class Overview(Struct, frozen=True):
    """All groups of a prefix, sorted by id, as many as are listed."""

    total: int
    groups: dict[str, GroupSummary]


class OverviewVerbs:
    """The verbs that look at a running server and change nothing."""

    def __init__(self, node: Callable[[], Node]) -> None:
        self._node = node

    @property
    def node(self) -> Node:
        """The node of the moment."""
        return self._node()

    def look(self, prefix: str) -> Iterator[Overview | None]:
        """Look at all groups, in steps: None, and in the end the overview."""
        node = self._node()
        over_s = monotonic() + MEASURE_SECONDS
        node.world.dataplane.measure(lambda: monotonic() < over_s)
        listed, total = list[str](), 0
        for partition in node.world.partitions:
            group_ids = tuple(partition.shard.groups)
            for at in range(0, len(group_ids), LOOKED_AT_ONCE):
                found = [group_id for group_id in group_ids[at : at + LOOKED_AT_ONCE] if group_id.startswith(prefix)]
                total += len(found)
                listed = nsmallest(GROUPS_MAX, listed + found)
                yield None
        offsets_left, groups = OFFSETS_MAX, {}
        for number, group_id in enumerate(listed):
            partition = node.world.partitions.owner(group_id)
            group = partition.shard.groups.get(group_id)
            if group is not None:  # it may have gone between two steps
                lag, offsets = self._lag(partition, group_id, offsets_left)
                offsets_left -= offsets
                groups[group_id] = _summarize(group, lag)
            if number % 100 == 99:
                yield None
        yield Overview(total, groups)

    def _lag(self, partition: Partition, group_id: str, offsets_max: int) -> tuple[int | None, int]:
        """Return the lag of a group, None if unknown or too costly, and the number of offsets counted."""
        end_offset = self._node().world.dataplane.end_offset
        lag, offsets = None, 0
        for topic, partitions in partition.shard.offsets.of_group(group_id).items():
            offsets += len(partitions)
            if offsets > offsets_max:
                return None, offsets_max
            for index, committed in partitions.items():
                end = end_offset(topic, index)
                if end is not None:
                    lag = (lag or 0) + max(end - committed.offset, 0)
        return lag, offsets

    def positions(self, view: GroupView) -> list[Position]:
        """Return the first `POSITIONS_MAX` partitions of a group, sorted by topic and partition."""
        owners: dict[tuple[str, int], tuple[str, ...]] = {}
        for member in view.members:
            for topic, partitions in member.assignment.items():
                for index in partitions:
                    owners[topic, index] = (*owners.get((topic, index), ()), member.member_id)
        committed = {
            (topic, int(index)): offset
            for topic, partitions in view.offsets.items()
            for index, offset in partitions.items()
        }
        found = []
        for topic, index in nsmallest(POSITIONS_MAX, owners.keys() | committed.keys()):
            offset, end = committed.get((topic, index)), self._node().world.dataplane.end_offset(topic, index)
            lag = None if offset is None or end is None else end - offset
            found.append(Position(topic, index, offset, end, lag, owners.get((topic, index), ())))
        return found


def _summarize(group: Group, lag: int | None) -> GroupSummary:
    kind = kind_of(group)
    return GroupSummary(group.group_id, kind.name, str(group.state), kind.count(group), len(group.members), lag)
