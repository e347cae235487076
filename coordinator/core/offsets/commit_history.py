"""The last commits of a partition's groups, with what each has replaced: so that the last ones can be lost on purpose.

A commit is what one OffsetCommit has committed (one part of it, for more than 2,000 offsets), or what the end of a
transaction has committed for a group.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from coordinator.core.offsets.store import OffsetStore
from coordinator.core.record_types import OffsetCommitKey, OffsetCommitValue, single_records
from coordinator.core.result import Result

OFFSETS_MAX: Final = 20_000  # that are remembered of a partition, those of the newest commits


class Change(Struct, frozen=True, gc=False):
    """What a commit has done to one offset."""

    key: OffsetCommitKey
    before: OffsetCommitValue | None
    after: OffsetCommitValue


Commit = tuple[Change, ...]  # of one group


class EndOfTransaction:
    """What the end of a transaction has done to offsets so far."""

    def __init__(self) -> None:
        self.by_group: dict[str, list[Change]] = {}

    def note(self, key: OffsetCommitKey, before: OffsetCommitValue | None, after: OffsetCommitValue) -> None:
        """Note an offset that has become committed."""
        self.by_group.setdefault(key.group, []).append(Change(key, before, after))


class CommitHistory:
    """The last commits, oldest first."""

    def __init__(self) -> None:
        self._commits: deque[Commit] = deque()
        self._count = 0  # of offsets in them

    def note_result(self, result: Result[Any], offsets: OffsetStore) -> None:
        """Note the commit that a result is, before it is applied. One of a transaction becomes one at its end."""
        if result.producer is None:
            changes = [
                Change(key, offsets.get(key.group, key.topic, key.partition), value)
                for key, value in ((record.key, record.value) for record in single_records(result.records))
                if type(key) is OffsetCommitKey and type(value) is OffsetCommitValue
            ]
            self._add(changes)

    def note_end(self, changes: "EndOfTransaction") -> None:
        """Note the commits of a transaction whose end was applied: one for each group."""
        for of_group in changes.by_group.values():
            self._add(of_group)

    def last(self, group_id: str, count: int) -> tuple[Commit, ...]:
        """Return the last commits of a group, the newest first, as many as are known of those that are wanted."""
        own = (commit for commit in reversed(self._commits) if commit[0].key.group == group_id)
        return tuple(commit for commit, _ in zip(own, range(count), strict=False))

    def forget(self, commits: Iterable[Commit]) -> None:
        """Forget commits that are lost."""
        lost = {id(commit) for commit in commits}
        self._commits = deque(commit for commit in self._commits if id(commit) not in lost)
        self._count = sum(map(len, self._commits))

    def _add(self, changes: list[Change]) -> None:
        if not changes:
            return
        self._commits.append(tuple(changes))
        self._count += len(changes)
        while self._count > OFFSETS_MAX and len(self._commits) > 1:
            self._count -= len(self._commits.popleft())
