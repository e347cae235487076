"""Offsets and transactions against a log that is read from its beginning each time (R9 b, h; O-130 to O-134)."""

from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core import pace
from coordinator.core.offsets.store import OFFSET_BYTES, OffsetStore
from coordinator.core.record_types import OffsetCommits, single_records
from coordinator.core.records import OffsetCommitKey, OffsetCommitValue, Record
from protocol.steps import Steps, finish_steps

PARTITIONS = st.integers(0, 2)
PRODUCERS = st.integers(1, 3)


@dataclass(frozen=True)
class Commit:
    partition: int
    offset: int
    producer: int = -1


@dataclass(frozen=True)
class Tombstone:
    partition: int


@dataclass(frozen=True)
class Marker:
    producer: int
    committed: bool


ENTRIES = st.lists(
    st.one_of(
        st.builds(Commit, PARTITIONS, st.integers(0, 99)),
        st.builds(Commit, PARTITIONS, st.integers(0, 99), PRODUCERS),
        st.builds(Tombstone, PARTITIONS),
        st.builds(Marker, PRODUCERS, st.booleans()),
    ),
    max_size=30,
)
Log = list[Commit | Tombstone | Marker]


def resolved(log: Log, partition: int) -> tuple[int | None, set[int]]:
    """By the rule: of what counts, the latest of the log; and who has something open."""
    best: tuple[int, int | None] = (-1, None)
    for position, entry in enumerate(log):
        if isinstance(entry, Tombstone) and entry.partition == partition:
            best = (position, None)
        elif isinstance(entry, Commit) and entry.partition == partition:
            if entry.producer == -1:
                best = (position, entry.offset)
    for position, entry in enumerate(log):
        if not isinstance(entry, Marker) or not entry.committed:
            continue
        brought = pending(log[:position], entry.producer, partition)
        if brought is not None and brought[0] > newest(log, position, partition, best):
            best = max(best, brought, key=lambda each: each[0])
    return best[1], {producer for producer in (1, 2, 3) if pending(log, producer, partition) is not None}


def newest(log: Log, position: int, partition: int, best: tuple[int, int | None]) -> int:
    """The latest tombstone of the partition before a marker: what is older than it, is gone."""
    stones = [at for at, entry in enumerate(log[:position]) if entry == Tombstone(partition)]
    return max(stones, default=-1)


def pending(log: Log, producer: int, partition: int) -> tuple[int, int] | None:
    """What the producer has open for the partition: its last commit since its last marker and the last tombstone."""
    found = None
    for position, entry in enumerate(log):
        if isinstance(entry, Commit) and (entry.producer, entry.partition) == (producer, partition):
            found = (position, entry.offset)
        elif (isinstance(entry, Marker) and entry.producer == producer) or entry == Tombstone(partition):
            found = None
    return found


def applied_in_steps(log: Log, dice: Random) -> OffsetStore:
    """Between two entries the ends that are being applied go on by some offsets, or by none."""
    store, ends = OffsetStore(), dict[int, Steps[None]]()
    with patch.object(pace, "UNITS", 1):
        for entry in log:
            if isinstance(entry, Marker):
                end = store.end_transaction(entry.producer, entry.committed)
                finish_steps(end) if entry.producer in ends else ends.setdefault(entry.producer, end)
            else:
                producer = entry.producer if isinstance(entry, Commit) else -1
                if producer in ends:  # it is refused until then
                    finish_steps(ends.pop(producer))
                value = OffsetCommitValue(entry.offset) if isinstance(entry, Commit) else None
                store.apply(Record(OffsetCommitKey("g", "t", entry.partition), value), producer)
            for producer, end in ends.items():
                if dice.random() < 0.5:
                    next(end, None)
                has_pending = any(producer in those for those in store.pending_offsets_of("g").values())
                assert store.is_ending(producer) or not has_pending
    for end in dice.sample(list(ends.values()), len(ends)):
        finish_steps(end)
    assert not any(store.is_ending(producer) for producer in (1, 2, 3))
    return store


def applied(log: Log) -> OffsetStore:
    store = OffsetStore()
    for entry in log:
        if isinstance(entry, Marker):
            finish_steps(store.end_transaction(entry.producer, entry.committed))
        else:
            value = OffsetCommitValue(entry.offset) if isinstance(entry, Commit) else None
            producer = entry.producer if isinstance(entry, Commit) else -1
            store.apply(Record(OffsetCommitKey("g", "t", entry.partition), value), producer)
    return store


@pytest.mark.rule("K-366 K-382")
@given(ENTRIES, st.none() | st.randoms(use_true_random=False))
@settings(max_examples=600)
def test_the_store_is_its_log(log: Log, dice: Random | None) -> None:
    """Whether ends of transactions are applied at once, or in steps with all else between them."""
    check(applied(log) if dice is None else applied_in_steps(log, dice), log)


def test_the_store_is_its_log_where_transactions_overtake_each_other() -> None:
    dice = Random(7)

    def entry() -> Commit | Tombstone | Marker:
        partition, producer = dice.choice((0, 0, 0, 1)), dice.randint(1, 3)
        of_producer = Commit(partition, dice.randrange(100), producer)
        others = (Commit(partition, dice.randrange(100)), Tombstone(partition), Marker(producer, dice.random() < 0.8))
        return dice.choices((of_producer, *others), (10, 2, 1, 5))[0]

    for number in range(400):
        log = [entry() for _ in range(12)]
        check(applied_in_steps(log, dice) if number % 2 else applied(log), log)


def check(store: OffsetStore, log: Log) -> None:
    for partition in range(3):
        offset, producers = resolved(log, partition)
        value = store.get("g", "t", partition)
        assert (None if value is None else value.offset) == offset
        assert store.pending_offsets_of("g").get(("t", partition), set()) == producers
        assert store.has_pending("g", "t", partition) == bool(producers)
    assert store.count == sum(len(each) for each in store.of_group("g").values())
    assert store.bytes == weigh_offsets(store)
    assert bool(list(store.keys("g"))) == ("g" in store.groups())


def weigh_offsets(store: OffsetStore) -> int:
    """What the offsets of group g take, counted anew."""
    committed = [value for each in store.of_group("g").values() for value in each.values()]
    pending = [entry.value for each in store._pending.values() for entry in each.values()]
    size = sum(OFFSET_BYTES + len(value.metadata) for value in committed)
    return size + sum(2 * OFFSET_BYTES + len(value.metadata) for value in pending)


VALUES = st.builds(OffsetCommitValue, st.integers(0, 99), metadata=st.sampled_from(("", "", "m", "long " * 9)))
CHANGES = st.one_of(
    st.tuples(st.integers(0, 2), st.none() | VALUES, st.sampled_from((-1, -1, 1, 2))),  # a record
    st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple),  # a commit in columns
    st.dictionaries(
        st.integers(0, 2), st.builds(OffsetCommitValue, st.integers(0, 99)), min_size=1
    ),  # what a start reads
    st.tuples(st.sampled_from((1, 2)), st.booleans()),  # a marker
)


@given(st.lists(CHANGES, max_size=20))
@settings(max_examples=300)
def test_what_offsets_take_is_counted_however_they_come(changes: list[Any]) -> None:
    told = list[int]()
    store = OffsetStore(told.append)
    for change in changes:
        match change:
            case dict():
                store.commit("g", "t", change)
            case (int(), bool() as committed):
                finish_steps(store.end_transaction(change[0], committed))
            case (int() as partition, None | OffsetCommitValue() as value, producer):
                key = OffsetCommitKey("g", "t", partition)
                if producer == -1 or value is None:
                    store.apply_all((Record(key, value),))
                else:
                    store.apply(Record(key, value), producer)
            case partitions:
                columns = partitions, (7,) * len(partitions), (0,) * len(partitions)
                store.apply_all((OffsetCommits("g", "t", b"i" * 16, 1_000, *columns),))
        assert store.bytes == weigh_offsets(store) == sum(told)
    for producer in (1, 2):
        finish_steps(store.end_transaction(producer, False))
    for partition in range(3):
        store.apply(Record(OffsetCommitKey("g", "t", partition), None))
    assert (store.bytes, store.metadata_bytes, store.count) == (0, 0, 0)


def test_a_marker_says_what_it_committed() -> None:
    store = applied([Commit(0, 4), Commit(0, 5, 1), Commit(1, 6, 1), Commit(1, 7)])
    said: list[tuple[int, int | None, int]] = []
    for _ in range(2):
        finish_steps(
            store.end_transaction(
                1,
                True,
                lambda key, before, after: said.append((key.partition, before and before.offset, after.offset)),
            )
        )
    assert said == [(0, 4, 5)]


SAME_PARTITIONS = st.sampled_from([(0, 1), (0, 1), (1, 0), (0,), (0, 1, 2), (2, 2), (0, 1, 1)])


@given(st.lists(st.tuples(SAME_PARTITIONS, st.booleans()) | st.integers(0, 2), max_size=12))
def test_commits_of_the_same_partitions_are_kept_as_single_ones_are(
    steps: list[tuple[tuple[int, ...], bool] | int],
) -> None:
    """A number removes the offset of that partition; the others commit, and some of them are read at once."""
    together, one_by_one = OffsetStore(), OffsetStore()
    for number, step in enumerate(steps):
        if isinstance(step, int):
            for store in (together, one_by_one):
                store.apply(Record(OffsetCommitKey("g", "t", step), None))
            continue
        partitions, is_read = step
        offsets = tuple(range(number * 10, number * 10 + len(partitions)))
        commits = OffsetCommits("g", "t", b"i" * 16, 1_000 + number, partitions, offsets, (number,) * len(partitions))
        together.apply_all((commits,))
        for record in single_records((commits,)):
            one_by_one.apply(record)
        if is_read:
            assert together.get("g", "t", 1) == one_by_one.get("g", "t", 1)
        kept, expected = together.of_group("g")["t"], one_by_one.of_group("g")["t"]
        assert (together.count, len(kept), list(kept)) == (one_by_one.count, len(expected), list(expected))
    assert list(together.entries("g")) == list(one_by_one.entries("g"))
    assert {topic: dict(offsets) for topic, offsets in together.of_group("g").items()} == one_by_one.of_group("g")


GROUPS = st.sampled_from("ggh")
PLACES = st.tuples(GROUPS, st.sampled_from("tu"), st.integers(0, 2))
LIVES = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), PLACES, VALUES, st.sampled_from((-1, -1, 1, 2))),
        st.tuples(st.just("columns"), GROUPS, st.sampled_from("tu"), st.lists(st.integers(0, 2), min_size=1)),
        st.tuples(st.just("remove"), PLACES),
        st.tuples(st.just("end"), st.sampled_from((1, 2)), st.booleans(), st.booleans()),
        st.tuples(st.just("hide")),
        st.tuples(st.just("pop"), st.integers(1, 3)),
    ),
    max_size=30,
)


def test_each_group_is_ending_until_its_own_transaction_has_ended() -> None:
    store, ends, most = OffsetStore(), dict[int, Steps[None]](), 3 * pace.UNITS
    for producer in range(4):
        for partition in range(most):
            store.apply(Record(OffsetCommitKey(f"g{producer}", "t", partition), OffsetCommitValue(1)), producer)
    left = set[int]()
    for producer in (2, 0, 3, 1):
        ends[producer] = store.end_transaction(producer, producer != 3)
        left.add(producer)
        next(ends[producer])
        assert {one for one in range(4) if store.is_group_ending(f"g{one}")} == left
    for producer in (0, 1, 2, 3):
        finish_steps(ends[producer])
        left.discard(producer)
        assert {one for one in range(4) if store.is_group_ending(f"g{one}")} == left
    assert store.count == 3 * most


class EndingGroup:
    """Two stores: in one, group g ends at once and gives its offsets back in steps, in the other all of them go."""

    def __init__(self) -> None:
        self.store, self.other = OffsetStore(), OffsetStore()
        self.ends: dict[int, Steps[None]] = {}
        self.left: set[OffsetCommitKey] = set()  # of g, whose tombstones have not been written

    def take(self, record: Record | OffsetCommits, producer: int = -1) -> None:
        if producer in self.ends:  # it is refused until then
            finish_steps(self.ends.pop(producer))
        for store in (self.store, self.other):
            store.apply_all((record,), producer)

    def end(self, producer: int, committed: bool, at_once: bool) -> None:
        if producer in self.ends:
            finish_steps(self.ends.pop(producer))
        of_groups = {key.group for key in self.store._pending.get(producer, ())}
        self.ends[producer] = self.store.end_transaction(producer, committed)
        for group in "gh":
            assert self.store.is_group_ending(group) or group not in of_groups
            assert not self.store.is_group_ending(group) or group in of_groups or len(self.ends) > 1
        finish_steps(self.other.end_transaction(producer, committed))
        finish_steps(self.ends.pop(producer)) if at_once else next(self.ends[producer], None)

    def hide(self) -> None:
        self.left = set(self.store.keys("g"))
        self.store.hide_group("g")
        for key in tuple(self.other.keys("g")):
            self.other.apply(Record(key, None))

    def pop(self, most: int) -> None:
        keys = self.store.pop_remains("g", most)
        assert len(keys) == min(most, len(self.left)) and self.left.issuperset(keys)
        self.left.difference_update(keys)
        assert self.store.has_remains("g") == bool(keys)

    def finish(self) -> None:
        """Finish the ends of transactions, and hold that what others see is the same in both stores."""
        while self.ends:
            finish_steps(self.ends.popitem()[1])
        store, other = self.store, self.other
        assert not any(map(store.is_group_ending, "gh"))
        for group in "gh":
            entries = list(store.entries(group))
            assert sorted(entries, key=repr) == sorted(other.entries(group), key=repr)
            assert store.pending_offsets_of(group) == other.pending_offsets_of(group)
            for key in {key for key, _ in entries}:
                assert sorted(store.values_at(key), key=repr) == sorted(
                    [value for at, value in entries if at == key], key=repr
                )
            committed = store.of_group(group)
            count = sum(map(len, committed.values()))
            assert [store.count_up_to(most, group) for most in (0, 9)] == [len(committed), count]
        for topics in ({"t"}, {"u"}, {"t", "u"}):
            found = {key.group for group in "gh" for key, _ in store.entries(group) if key.topic in topics}
            assert sorted(store.groups_of(topics)) == sorted(found)
        if not self.left:
            assert (store.bytes, store.count, store.metadata_bytes) == (other.bytes, other.count, other.metadata_bytes)


@given(LIVES)
@settings(max_examples=150)
def test_a_group_that_ends_gives_all_back_in_steps_and_nothing_of_others(life: list[Any]) -> None:
    """Transactions of both groups end meanwhile, at once or in steps. There is no offset of the group until then."""
    both = EndingGroup()
    with patch.object(pace, "UNITS", 1):
        for step in life:
            is_hidden = both.store.has_remains("g")
            match step:
                case "commit", (group, topic, partition), value, producer if not (is_hidden and group == "g"):
                    both.take(Record(OffsetCommitKey(group, topic, partition), value), producer)
                case "columns", group, topic, partitions if not (is_hidden and group == "g"):
                    columns = tuple(partitions), (7,) * len(partitions), (0,) * len(partitions)
                    both.take(OffsetCommits(group, topic, b"i" * 16, 1_000, *columns))
                case "remove", (group, topic, partition) if not (is_hidden and group == "g"):
                    both.take(Record(OffsetCommitKey(group, topic, partition), None))
                case "end", producer, committed, at_once:
                    both.end(producer, committed, at_once)
                case ("hide",) if not is_hidden:
                    both.hide()
                case "pop", most if is_hidden:
                    both.pop(most)
            if not both.ends:
                both.finish()
    while both.store.has_remains("g"):
        both.pop(2)
    both.finish()
