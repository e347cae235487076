"""How many offsets a shard has committed, let expire and deleted since the start. For operators only."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from coordinator.core.record_types import OffsetCommitKey, OffsetCommits, Record, count_records


class Tally(Struct):
    """Counts, one a partition of a group. Those of a transaction count when they are asked for, not at its end."""

    commits: int = 0
    expirations: int = 0
    deletions: int = 0  # by OffsetDelete, or with their group

    def count(self, records: Sequence[Record | OffsetCommits]) -> None:
        """Count what a request has written: a commit or a deletion, if it is about offsets, and never both."""
        first = records[0]
        if type(first) is OffsetCommits and len(records) == 1:  # nearly always
            self.commits += len(first.partitions)
        elif type(first) is OffsetCommits or (type(first.key) is OffsetCommitKey and first.value is not None):
            self.commits += count_records(records)
        elif type(first.key) is OffsetCommitKey:
            self.deletions += len(records)

    def plus(self, other: "Tally") -> "Tally":
        """Add the counts of another tally."""
        return Tally(
            self.commits + other.commits, self.expirations + other.expirations, self.deletions + other.deletions
        )


def offsets_in(records: Iterable[Record]) -> int:
    """Return how many of the records are about offsets; a group that ends has one of its own among them."""
    return sum(type(record.key) is OffsetCommitKey for record in records)
