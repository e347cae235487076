"""All partitions of `__consumer_offsets`, and which of them owns a group."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from coordinator.core.limits import Limits
from coordinator.core.weights import weigh_text
from coordinator.runtime.partition import Partition
from protocol.java_hash import partition_of
from storage.log import Log

OWNERS_BYTES_MAX: Final = 8 * 1_048_576  # of group ids whose partition is remembered, unless told otherwise
ENTRY_BYTES: Final = 128  # of a group id in the table, besides the id itself


class _Owners(dict[str, Partition]):
    """The partitions that own groups, by group id. When the group ids would take too many bytes, all are dropped."""

    def __init__(self, partitions: Sequence[Partition], bytes_max: int) -> None:
        self._partitions = partitions
        self._bytes_max = bytes_max
        self.bytes = 0

    def __missing__(self, group_id: str) -> Partition:
        size = weigh_text(group_id) + ENTRY_BYTES
        if self.bytes + size > self._bytes_max:
            self.clear()
            self.bytes = 0
        self.bytes += size
        partition = self[group_id] = self._partitions[partition_of(group_id, len(self._partitions))]
        return partition


class Partitions:
    """The partitions by index, and by the groups that they own."""

    def __init__(self, count: int, make: Callable[[int], Partition], owners_bytes_max: int = OWNERS_BYTES_MAX) -> None:
        self._all = [make(index) for index in range(count)]
        self._owners = _Owners(self._all, owners_bytes_max)
        self.owner: Callable[[str], Partition] = self._owners.__getitem__
        """Return the partition that owns a group."""

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, index: int) -> Partition:
        return self._all[index]

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._all)

    def limits_of(self, group_id: str) -> Limits:
        """Return the settings of a group: its own, or those of the server."""
        return self.owner(group_id).shard.limits_of(group_id)

    def find_log(self, index: int) -> Log | None:
        """Return the log of a partition, None where nothing was ever written."""
        partition = self._all[index]
        return partition.log if partition.has_log else None

    @property
    def loading(self) -> int:
        """How many partitions are still to be loaded."""
        return sum(not partition.is_loaded for partition in self._all)

    @property
    def owners_bytes(self) -> int:
        """The memory that the group ids in the table of owners take."""
        return self._owners.bytes
