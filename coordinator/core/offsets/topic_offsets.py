"""The committed offsets of one group and topic: the latest commit as it came, or values by partition.

A group commits the same partitions again and again, and its offsets are read once in a while. So a commit that has all
partitions of the topic is kept as it is, in columns, and takes the place of the one before. The partitions are in the
order in which they were first committed, either way.
"""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import final

from coordinator.core.record_types import OffsetCommits, OffsetCommitValue


@final
class TopicOffsets(Mapping[int, OffsetCommitValue]):
    """Committed offsets by partition. The values are made when one of them is first asked for."""

    __slots__ = ("_latest", "_values")

    def __init__(self) -> None:
        self._values: dict[int, OffsetCommitValue] = {}
        self._latest: OffsetCommits | None = None  # all there is; then there are no values

    def __len__(self) -> int:
        return len(self._values if self._latest is None else self._latest.partitions)

    def __iter__(self) -> Iterator[int]:
        return iter(self._values if self._latest is None else self._latest.partitions)

    def __getitem__(self, partition: int) -> OffsetCommitValue:
        return self.by_partition()[partition]

    def items(self) -> ItemsView[int, OffsetCommitValue]:
        return self.by_partition().items()

    def values(self) -> ValuesView[OffsetCommitValue]:
        return self.by_partition().values()

    @property
    def is_plain(self) -> bool:
        """Whether all offsets are in columns, and so have no metadata."""
        return self._latest is not None

    def together(self, partitions: tuple[int, ...]) -> OffsetCommits | None:
        """Return the commit that has the offsets of just these partitions, None if there is none such."""
        latest = self._latest
        return latest if latest is not None and latest.partitions == partitions else None

    def by_partition(self) -> dict[int, OffsetCommitValue]:
        """Return the values, to be changed as well."""
        if self._latest is not None:
            self._values = dict(self._latest.values_by_partition())
            self._latest = None
        return self._values

    def take(self, commits: OffsetCommits) -> int:
        """Take what was committed together. Returns how many partitions had no offset before."""
        latest, partitions = self._latest, commits.partitions
        if latest is not None and latest.partitions == partitions:
            self._latest = commits
            return 0
        values = self.by_partition()
        known, count = len(values), len(partitions)
        if tuple(values) == partitions[:known] and (known == count or len(set(partitions)) == count):
            self._latest, self._values = commits, {}
            return count - known
        values.update(commits.values_by_partition())
        return len(values) - known
