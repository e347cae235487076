"""How many offsets a shard has committed, let expire and deleted since the start. For operators only."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from coordinator.core.records import OffsetCommitKey, Record


class Tally(Struct):
    """Counts, one a partition of a group. Those of a transaction count when they are asked for, not at its end."""

    commits: int = 0
    expirations: int = 0
    deletions: int = 0  # by OffsetDelete, or with their group

    def count(self, records: Sequence[Record]) -> None:
        """Count what a request has written: a commit or a deletion, if it is about offsets, and never both."""
        if type(records[0].key) is OffsetCommitKey:
            if records[0].value is None:
                self.deletions += len(records)
            else:
                self.commits += len(records)

    def plus(self, other: "Tally") -> "Tally":
        """Add the counts of another tally."""
        return Tally(
            self.commits + other.commits, self.expirations + other.expirations, self.deletions + other.deletions
        )


def offsets_in(records: Iterable[Record]) -> int:
    """Return how many of the records are about offsets; a group that ends has one of its own among them."""
    return sum(type(record.key) is OffsetCommitKey for record in records)
