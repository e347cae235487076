"""Which records of a share partition were given up, and what stands in it, against a book of each offset."""

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.share_state.values import NO_OFFSET, DeliveryState
from pipeline.history.shares import ArchivedRange, Delivery, ShareHistory

TOPIC_ID = (b"t" * 16).hex()
STATES = {0: "available", 2: "acknowledged", 4: "archived"}
Batch = tuple[int, int, int, int]
"""First offset, last offset, state, deliveries."""


class Step(NamedTuple):
    """The next record: an update or a snapshot, by which its start offset moves, and what it says of offsets behind."""

    kind: str
    further: int
    says_start: bool
    batches: list[Batch]


BATCH = st.tuples(st.integers(0, 8), st.integers(1, 6), st.sampled_from([0, 2, 4, 4]), st.integers(1, 3))
STEPS = st.builds(
    Step, st.sampled_from(["update"] * 5 + ["snapshot", "snapshot", "reset", "deletion"]), st.integers(0, 3),
    st.booleans(), st.lists(BATCH, max_size=3),
)  # fmt: skip


class Book:
    """What became of each offset from the start on, and which ones were said to be archived."""

    def __init__(self) -> None:
        self.history = ShareHistory("queue", TOPIC_ID, 0)
        self.number, self.start, self.state_epoch, self.snapshot_epoch = 0, 0, 0, 0
        self.offsets: dict[int, tuple[int, int]] = {}  # deliveries, state: the higher one counts
        self.archived = set[int]()
        self.is_there = False

    def take(self, step: Step) -> tuple[list[ArchivedRange], list[ArchivedRange]]:
        """Write a record; what the history finds in it, and what there is, each as single records."""
        if step.kind == "deletion":
            self.offsets, self.archived, self.is_there = {}, set(), False
            return self._write(is_snapshot=True, is_tombstone=True), []
        is_snapshot = step.kind != "update" or not self.is_there
        if step.kind == "reset" or not self.is_there:
            self.state_epoch += 1
            self.offsets, self.archived, self.is_there = {}, set(), True
        self.start += step.further if step.says_start or is_snapshot else 0
        batches = [(self.start + at, self.start + at + size - 1, state, n) for at, size, state, n in step.batches]
        self.offsets = {at: one for at, one in self.offsets.items() if at >= self.start}
        for first, last, state, deliveries in batches:
            for at in range(first, last + 1):
                self.offsets[at] = max(self.offsets.get(at, (0, 0)), (deliveries, state))
        if is_snapshot:
            self.snapshot_epoch += 1
            batches = self.runs()
        expected = []
        for first, last, state, deliveries in batches:
            for at in range(first, last + 1):
                if state == DeliveryState.ARCHIVED and at not in self.archived:
                    self.archived.add(at)
                    expected.append(ArchivedRange(at, at, 1, deliveries, 1000 + self.number + 1, self.number + 1))
        start = self.start if step.says_start or is_snapshot else NO_OFFSET
        return self._write(batches, start=start, is_snapshot=is_snapshot), expected

    def _write(
        self, batches: list[Batch] | None = None, *, start: int = 0, is_snapshot: bool, is_tombstone: bool = False
    ) -> list[ArchivedRange]:
        self.number += 1
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        row: dict[str, Any] = {
            "key_version": 0 if is_snapshot else 1, "is_tombstone": is_tombstone, "start_offset": start,
            "batches": [dict(zip(names, batch, strict=True)) for batch in batches or ()] or None,
            "snapshot_epoch": self.snapshot_epoch, "state_epoch": self.state_epoch, "leader_epoch": self.number,
            "delivery_complete_count": self.number % 5, "create_ts": 0, "write_ts": 0,
            "record_ts": 1000 + self.number, "log_offset": self.number,
        }  # fmt: skip
        return list(self.history.apply(row))

    def runs(self) -> list[Batch]:
        """The offsets that follow each other and share one fate."""
        found = list[Batch]()
        for at, (deliveries, state) in sorted(self.offsets.items()):
            if found and found[-1][1:] == (at - 1, state, deliveries):
                found[-1] = (found[-1][0], at, state, deliveries)
            else:
                found.append((at, at, state, deliveries))
        return found


def single(ranges: list[ArchivedRange]) -> list[ArchivedRange]:
    assert all(one.records == one.last_offset - one.first_offset + 1 > 0 for one in ranges)
    return [
        ArchivedRange(at, at, 1, one.delivery_count, one.at_ms, one.log_offset)
        for one in ranges
        for at in range(one.first_offset, one.last_offset + 1)
    ]


@settings(max_examples=200)
@given(st.lists(STEPS, max_size=8))
def test_each_record_that_is_given_up_is_told_once_and_what_is_left_is_counted(steps: list[Step]) -> None:
    book = Book()
    for step in [Step("snapshot", 0, True, []), *steps]:
        found, expected = book.take(step)
        assert sorted(single(found), key=lambda one: one.first_offset) == sorted(
            expected, key=lambda one: one.first_offset
        )
        state, deliveries = book.history.end()
        runs = book.runs()
        assert deliveries == [Delivery(a, b, b - a + 1, STATES[kind], n) for a, b, kind, n in runs]
        if not book.is_there:
            assert state is None
            continue
        assert state is not None
        counts = [sum(b - a + 1 for a, b, kind, _ in runs if kind == one) for one in STATES]
        assert [state.available, state.acknowledged, state.archived] == counts
        assert state.max_delivery_count == max((n for *_, n in runs), default=0)
        assert (state.state_epoch, state.snapshot_epoch) == (book.state_epoch, book.snapshot_epoch)
        assert (state.start_offset, state.leader_epoch) == (book.start, book.number)
        assert state.delivery_complete_count == book.number % 5
        assert (state.record_ts, state.log_offset) == (1000 + book.number, book.number)
