"""How many offsets a shard has committed, let expire and deleted since the start. For operators only."""

from collections.abc import Iterable

from msgspec import Struct

from coordinator.core.records import OffsetCommitKey, Record


class Tally(Struct):
    """Counts, one a partition of a group. Those of a transaction count when they are asked for, not at its end."""

    commits: int = 0
    expirations: int = 0
    deletions: int = 0  # by OffsetDelete, or with their group

    def plus(self, other: "Tally") -> "Tally":
        """The counts of both."""
        return Tally(
            self.commits + other.commits, self.expirations + other.expirations, self.deletions + other.deletions
        )


def offsets_in(records: Iterable[Record]) -> int:
    """How many of the records are about offsets; a group that ends has one of its own among them."""
    return sum(type(record.key) is OffsetCommitKey for record in records)
