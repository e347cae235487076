"""All partitions of `__consumer_offsets`, and which of them owns a group."""

from collections.abc import Callable, Iterator
from sys import getsizeof
from typing import Final

from coordinator.runtime.partition import Partition

OWNERS_BYTES_MAX: Final = 8 * 1_048_576  # of group ids whose partition is remembered
ENTRY_BYTES: Final = 128  # of a group id in the table, besides the id itself


def java_hash(text: str) -> int:
    """`String.hashCode()` of Java: over UTF-16 code units, in signed 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    number = 0
    for at in range(0, len(units), 2):
        number = (31 * number + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


def partition_of(group_id: str, partitions: int) -> int:
    """Which partition owns a group, as Kafka has it: |hash| modulo their number, where |-2**31| counts as 0 (G-030)."""
    number = java_hash(group_id)
    return (0 if number == -(1 << 31) else abs(number)) % partitions


class Partitions:
    """The partitions by index, and by the groups that they own."""

    def __init__(self, count: int, make: Callable[[int], Partition]) -> None:
        self._all = [make(index) for index in range(count)]
        self._owners: dict[str, Partition] = {}
        self.owners_bytes = 0  # of memory, for the group ids that are remembered

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, index: int) -> Partition:
        return self._all[index]

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._all)

    def owner(self, group_id: str) -> Partition:
        """The partition that owns a group."""
        partition = self._owners.get(group_id)
        if partition is None:
            size = getsizeof(group_id) + ENTRY_BYTES
            if self.owners_bytes + size > OWNERS_BYTES_MAX:
                self._owners.clear()
                self.owners_bytes = 0
            self.owners_bytes += size
            partition = self._owners[group_id] = self._all[partition_of(group_id, len(self._all))]
        return partition
