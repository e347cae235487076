"""The last commits of a partition, which can be lost on purpose: the offsets are then as they were before them."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.env import Env
from coordinator.core.limits import Limits
from coordinator.core.moves import LoseCommits, lose_commits
from coordinator.core.offsets import commit_history
from coordinator.core.offsets.commit_history import CommitHistory, EndOfTransaction
from coordinator.core.offsets.store import OffsetStore
from coordinator.core.record_types import OffsetCommits
from coordinator.core.records import OffsetCommitKey, OffsetCommitValue, Record
from coordinator.core.result import Call, Producer, Result
from coordinator.core.topics import Topics
from protocol.steps import finish_steps

OFFSETS_MAX = 6
GROUPS = st.sampled_from("gh")
TOPICS = st.sampled_from("tu")
PARTITIONS = st.lists(st.integers(0, 3), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("columns"), GROUPS, TOPICS, PARTITIONS),
        st.tuples(st.just("records"), GROUPS, TOPICS, PARTITIONS),
        st.tuples(st.just("transaction"), st.booleans(), PARTITIONS, st.booleans()),
        st.tuples(st.just("lose"), GROUPS, st.integers(1, 3), st.none()),
    ),
    max_size=20,
)
Offsets = Mapping[str, Mapping[int, OffsetCommitValue]]


class Partition:
    """The offsets of two groups, their history, and what each group had before each of its commits, by size."""

    def __init__(self) -> None:
        self.offsets, self.history = OffsetStore(), CommitHistory()
        self.commits: list[tuple[str, int, Offsets]] = []  # the group, how many offsets, what it had before
        self.now_ms = 0

    def of(self, group: str) -> Offsets:
        return {topic: dict(one.items()) for topic, one in self.offsets.of_group(group).items()}

    def value(self) -> OffsetCommitValue:
        self.now_ms += 1
        return OffsetCommitValue(self.now_ms, 0, "m", self.now_ms)

    def commit(self, group: str, *records: Record | OffsetCommits, size: int) -> None:
        self.remember(group, size, self.of(group))
        self.history.note_result(Result(records=records), self.offsets)
        self.offsets.apply_all(records)

    def end(self, groups: str, partitions: list[int], committed: bool) -> None:
        """Let a transaction commit offsets of these groups, or abort."""
        records = [Record(OffsetCommitKey(group, "t", one), self.value()) for group in groups for one in partitions]
        self.history.note_result(Result(records=tuple(records), producer=Producer(1, 0)), self.offsets)
        for record in records:
            self.offsets.apply(record, 1)
        before, changes = {group: self.of(group) for group in groups}, EndOfTransaction()
        finish_steps(self.offsets.end_transaction(1, committed, changes.note))
        self.history.note_end(changes)
        for group in groups if committed else ():
            self.remember(group, len(set(partitions)), before[group])

    def remember(self, group: str, size: int, before: Offsets) -> None:
        """Keep as many of the newest as may be remembered, and the newest in any case."""
        self.commits.append((group, size, before))
        while sum(size for _, size, _ in self.commits) > OFFSETS_MAX and len(self.commits) > 1:
            del self.commits[0]

    def lose(self, group: str, count: int) -> None:
        places = [at for at, (of, _, _) in enumerate(self.commits) if of == group][-count:]
        lost = self.history.last(group, count)
        assert len(lost) == len(places)
        others = {other: self.of(other) for other in "gh" if other != group}
        env = Env(Call(0, 0, 0, None, "", str), Limits(), Topics(), offsets=self.offsets)
        result: Result[Any] = lose_commits(None, LoseCommits(group, lost), env)
        assert not result.response.refusal
        self.offsets.apply_all(result.records)
        self.history.forget(lost)
        expected = self.commits[places[0]][2] if places else self.of(group)
        assert self.of(group) == expected and {other: self.of(other) for other in others} == others
        self.commits = [one for at, one in enumerate(self.commits) if at not in places]


@given(STEPS)
@settings(max_examples=100)
def test_a_group_that_loses_its_last_commits_has_what_it_had_before_them(steps: list[Any]) -> None:
    """As many are known as there is room for. Those of other groups, and the end of a transaction for them, stay."""
    partition = Partition()
    with patch.object(commit_history, "OFFSETS_MAX", OFFSETS_MAX):
        for step in steps:
            match step:
                case "columns", group, topic, partitions:
                    offsets = tuple(partition.value().offset for _ in partitions)
                    columns = tuple(partitions), offsets, (0,) * len(offsets)
                    commits = OffsetCommits(group, topic, b"i" * 16, partition.now_ms, *columns)
                    partition.commit(group, commits, size=len(partitions))
                case "records", group, topic, partitions:
                    records = [Record(OffsetCommitKey(group, topic, one), partition.value()) for one in partitions]
                    partition.commit(group, *records, size=len(records))
                case "transaction", of_both, partitions, committed:
                    partition.end("gh" if of_both else "g", partitions, committed)
                case _, group, count, _:
                    partition.lose(group, count)
