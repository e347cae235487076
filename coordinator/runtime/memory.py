"""The memory that groups, their members, their offsets and states take, over all partitions, and its bounds."""

from typing import Any

from coordinator.core.growth import Shortage
from coordinator.runtime.error_response import groups_full_response
from coordinator.runtime.world import World


class Memory:
    """Holds the counts of held bytes, and the shortage that all shards read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.shortage = Shortage()
        self.members_bytes = 0  # that the members of all groups take
        self.states_bytes = 0  # that the states of share partitions take
        self.offsets_bytes = 0  # that all committed and pending offsets take
        self._groups_bytes_max: int = world.config["groups.max.bytes"]
        self._members_bytes_max: int = world.config["group.members.max.bytes"]
        self._offsets_bytes_max: int = world.config["offsets.max.bytes"]

    @property
    def groups_bytes(self) -> int:
        """The memory that all groups take at least."""
        return sum(partition.shard.groups_bytes for partition in self._world.partitions)

    def refuse_group(self, more_bytes: int, request: Any, version: int) -> Any:
        """Return the response to a request that would create a group for which there is no room, else None."""
        is_full = self.groups_bytes + more_bytes > self._groups_bytes_max
        return groups_full_response(request, version) if is_full else None

    def hold_members(self, more_bytes: int) -> None:
        """Note that the members of groups take so many bytes more."""
        self.members_bytes += more_bytes
        self._note_shortage()

    def hold_states(self, more_bytes: int) -> None:
        """Note that the states of share partitions take so many bytes more."""
        self.states_bytes += more_bytes
        self._note_shortage()

    def hold_offsets(self, more_bytes: int) -> None:
        """Note that offsets take so many bytes more."""
        self.offsets_bytes += more_bytes
        self._note_shortage()

    def _note_shortage(self) -> None:
        self.shortage.note(
            of_members=self.members_bytes + self.states_bytes > self._members_bytes_max,
            of_offsets=self.offsets_bytes > self._offsets_bytes_max,
        )
