"""A share partition is what it would be if each record had been looked at by itself, and what members were told holds:
an accepted record is never delivered again, another one is until the limit, and no record is acquired by two at once."""

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.share_partitions.acknowledge import acknowledge, validate_batches
from coordinator.core.share_partitions.acquire import (
    IN_FLIGHT_MAX,
    Acquisition,
    BatchOffsets,
    Wish,
    acquire,
    find_last_wanted,
    next_fetch_offset,
)
from coordinator.core.share_partitions.load import load_partition
from coordinator.core.share_partitions.locks import expire_locks, next_lock_ms, release_member
from coordinator.core.share_partitions.operate import ChangeRecords, RecordAction, change_records
from coordinator.core.share_partitions.transition import archive_missing, move_log_start
from coordinator.core.share_partitions.values import TERMINAL, AcknowledgeType, Change, Limits, Run, SharePartition
from coordinator.core.share_state.combine import combine_batches
from coordinator.core.share_state.values import NO_OFFSET, DeliveryState, ShareState, StateBatch
from protocol.errors import ErrorCode
from tests.steps import count_steps, finish

LIMITS = Limits(delivery_count_limit=4, record_locks_max=40, lock_duration_ms=100)
MEMBERS = st.sampled_from(("a", "b", "c"))
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED
AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED


class Batch(Struct, frozen=True):
    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...]


class Fate(Struct):
    """One record of the slow model."""

    state: DeliveryState = AVAILABLE
    count: int = 0
    member_id: str = ""
    until_ms: int = 0
    session: int = 0


def fates(partition: SharePartition) -> dict[int, tuple[Any, ...]]:
    return {
        offset: (run.state, run.delivery_count, run.member_id, run.locked_until_ms if run.member_id else 0, run.session)
        for run in partition.runs
        for offset in range(run.first_offset, run.last_offset + 1)
    }


def offsets(runs: tuple[Run, ...]) -> list[int]:
    return [offset for run in runs for offset in range(run.first_offset, run.last_offset + 1)]


class RecordByRecord(RuleBasedStateMachine):
    """Members acquire and acknowledge at random; locks end, sessions are closed, the server starts again."""

    def __init__(self) -> None:
        super().__init__()
        self.partition = SharePartition(0)
        self.records: dict[int, Fate] = {}
        self.accepted: set[int] = set()
        self.written: list[StateBatch] = []
        self.start_written = 0
        self.log: list[BatchOffsets] = []
        self.now_ms = 1_000
        self.sessions = {"a": 1, "b": 2, "c": 3}
        self.opened = 3
        self.closed: list[tuple[str, int]] = []  # sessions that are closed, and not released yet
        self.compacted: set[int] = set()  # what is archived because compaction took it, of which nothing is written

    @property
    def holds_anything(self) -> bool:
        """Whether a member has a record. What is done only then is not tried in vain: most runs would do little else."""
        return any(fate.state == ACQUIRED for fate in self.records.values())

    def note(self, change: Change) -> None:
        self.partition = change.partition
        if change.update is not None:
            self.written.extend(change.update.batches)
            self.start_written = change.update.start_offset

    def free(self, fate: Fate) -> None:
        fate.state = ARCHIVED if fate.count >= LIMITS.delivery_count_limit else AVAILABLE
        fate.member_id, fate.until_ms, fate.session = "", 0, 0

    @rule(size=st.integers(1, 9))
    def produce(self, size: int) -> None:
        first = self.log[-1].last_offset + 1 if self.log else 0
        self.log.append(BatchOffsets(first, first + size - 1))

    @precondition(lambda self: self.log)
    @rule(member=MEMBERS, kind=st.sampled_from(tuple(AcknowledgeType)), size=st.integers(1, 9))
    def work(self, member: str, kind: AcknowledgeType, size: int) -> None:
        """As a member does: take records, and be done with the first of them."""
        taken = self.acquire(member, 12, 1, False)
        if taken:
            last = next((one for one in taken if one + 1 not in taken), taken[-1])
            self.settle(member, [Batch(taken[0], min(last, taken[0] + size - 1), (kind,))])

    @precondition(lambda self: self.log)
    @rule(member=MEMBERS, most=st.integers(1, 12), batch_size=st.integers(1, 6), is_exact=st.booleans())
    def acquire_some(self, member: str, most: int, batch_size: int, is_exact: bool) -> None:
        self.acquire(member, most, batch_size, is_exact)

    def acquire(self, member: str, most: int, batch_size: int, is_exact: bool) -> list[int]:
        begin = next_fetch_offset(self.partition)
        fetched = [batch for batch in self.log if batch.last_offset >= begin]
        before = self.partition
        wish = Wish(member, most, batch_size, is_exact, self.sessions[member])
        found = acquire(before, wish, fetched, LIMITS, self.now_ms)
        wanted = [batch for batch in fetched if batch.first_offset <= find_last_wanted(before, most)]
        assert found == acquire(before, wish, wanted, LIMITS, self.now_ms)
        taken = offsets(found.acquired)
        assert taken == sorted(set(taken)), "in order, and none twice"
        assert found.count == len(taken)
        if is_exact:
            assert len(taken) <= most
        if any(run.state == AVAILABLE for run in before.runs) and fetched:
            assert taken, "what is available is delivered, however full the window is"
        if fetched and before.in_flight < LIMITS.record_locks_max and fetched[-1].last_offset >= before.end_offset:
            assert taken, "new records are delivered while there is room"
        if not is_exact and found.partition.end_offset > before.end_offset:
            last = next(batch for batch in fetched if batch.last_offset >= found.partition.end_offset - 1)
            within = max(last.first_offset, before.end_offset) - before.end_offset
            assert not within or before.in_flight + within < LIMITS.record_locks_max, "the last batch alone exceeds"
        for offset in taken:
            fate = self.records.setdefault(offset, Fate())
            assert fate.state == AVAILABLE, "nobody else holds it, and it is not done"
            assert offset not in self.accepted
            fate.state, fate.member_id, fate.until_ms = ACQUIRED, member, self.now_ms + LIMITS.lock_duration_ms
            fate.count, fate.session = fate.count + 1, wish.session
            assert fate.count <= LIMITS.delivery_count_limit
        last_chance = [offset for offset in taken if self.records[offset].count == LIMITS.delivery_count_limit]
        assert not last_chance or len(taken) == 1, "the last delivery has a single record"
        for offset in range(before.end_offset, found.partition.end_offset):
            assert is_exact or offset in taken
            self.records.setdefault(offset, Fate())  # the rest of a batch that was cut
        self.partition = found.partition
        return taken

    @precondition(lambda self: self.partition.runs)
    @rule(data=st.data(), member=MEMBERS)
    def acknowledge(self, data: st.DataObject, member: str) -> None:
        begin = data.draw(st.integers(max(self.partition.start_offset - 3, 0), self.partition.end_offset))
        batches: list[Batch] = []
        for _ in range(data.draw(st.integers(1, 3))):
            first = begin + data.draw(st.integers(0, 2))
            size = data.draw(st.integers(1, 6))
            count = data.draw(st.sampled_from((1, size)))
            types = data.draw(st.lists(st.sampled_from(tuple(AcknowledgeType)), min_size=count, max_size=count))
            batches.append(Batch(first, first + size - 1, tuple(types)))
            begin = first + size
        self.settle(member, batches)

    @precondition(lambda self: self.holds_anything)
    @rule(data=st.data(), kind=st.sampled_from(tuple(AcknowledgeType)))
    def acknowledge_what_is_held(self, data: st.DataObject, kind: AcknowledgeType) -> None:
        """A part of what somebody has, wherever in the window it is."""
        offset, fate = data.draw(st.sampled_from([one for one in self.records.items() if one[1].state == ACQUIRED]))
        last = offset
        while last - offset < 4 and self.records.get(last + 1, Fate()) == fate:
            last += 1
        self.settle(fate.member_id, [Batch(offset, data.draw(st.integers(offset, last)), (kind,))])

    def settle(self, member: str, batches: list[Batch]) -> None:
        assert finish(validate_batches(batches, AcknowledgeType.RENEW)) == ErrorCode.NONE
        said = {
            offset: batch.acknowledge_types[offset - batch.first_offset if len(batch.acknowledge_types) > 1 else 0]
            for batch in batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
            if offset >= self.partition.start_offset
        }
        answer = finish(acknowledge(self.partition, member, batches, LIMITS, self.now_ms, self.sessions[member]))
        held = all(
            offset in self.records
            and (self.records[offset].state, self.records[offset].member_id) == (ACQUIRED, member)
            and self.records[offset].until_ms > self.now_ms
            for offset in said
        )
        assert isinstance(answer, Change) == held, "all ranges are held by the member, or all are refused"
        if not isinstance(answer, Change):
            return
        for offset, kind in said.items():
            fate = self.records[offset]
            if kind == AcknowledgeType.RENEW:
                fate.until_ms, fate.session = self.now_ms + LIMITS.lock_duration_ms, self.sessions[member]
            elif kind == AcknowledgeType.RELEASE:
                self.free(fate)
            else:
                fate.state = ACKNOWLEDGED if kind == AcknowledgeType.ACCEPT else ARCHIVED
                fate.member_id, fate.until_ms, fate.session = "", 0, 0
                if kind == AcknowledgeType.ACCEPT:
                    self.accepted.add(offset)
        self.note(answer)

    @precondition(lambda self: self.holds_anything)
    @rule(member=MEMBERS)
    def close_session(self, member: str) -> None:
        """And open another one at once: what the member had in this one is released later."""
        self.closed.append((member, self.sessions[member]))
        self.opened += 1
        self.sessions[member] = self.opened

    @precondition(lambda self: self.closed)
    @rule()
    def release(self) -> None:
        member, session = self.closed.pop(0)
        self.note(release_member(self.partition, member, LIMITS, session))
        for fate in self.records.values():
            if fate.state == ACQUIRED and fate.member_id == member and fate.session <= session:
                self.free(fate)

    @precondition(lambda self: self.holds_anything)
    @rule(ms=st.integers(0, 120))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.note(expire_locks(self.partition, LIMITS, self.now_ms))
        for fate in self.records.values():
            if fate.state == ACQUIRED and fate.until_ms <= self.now_ms:
                self.free(fate)
        deadline = next_lock_ms(self.partition)
        assert deadline is None or deadline > self.now_ms

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def remove_from_log(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(self.log[0].first_offset, self.log[-1].last_offset))
        self.log = [batch for batch in self.log if batch.last_offset >= start]
        self.partition = move_log_start(self.partition, start)
        self.records = {offset: fate for offset, fate in self.records.items() if offset >= start}

    @precondition(lambda self: any(run.state == AVAILABLE for run in self.partition.runs))
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        first = data.draw(st.sampled_from([one for one, fate in fates(self.partition).items() if fate[0] == AVAILABLE]))
        following = data.draw(st.integers(first + 1, min(first + 4, self.partition.end_offset)))
        self.partition = archive_missing(self.partition, first, following)
        for offset in range(first, following):
            if self.records[offset].state == AVAILABLE:
                self.records[offset].state = ARCHIVED
                self.compacted.add(offset)

    @precondition(lambda self: self.written)
    @rule(is_cut=st.booleans())
    def start_again(self, is_cut: bool) -> None:
        """The node has crashed: what was acquired is available, with the count of its last release. A state may have
        batches from before its start offset."""
        batches = combine_batches(self.written, self.start_written if is_cut else NO_OFFSET)
        loaded = load_partition(ShareState(start_offset=self.start_written, batches=batches), 0)
        if self.log:
            loaded = move_log_start(loaded, self.log[0].first_offset)
        self.partition = loaded
        after = fates(loaded)
        for offset in list(self.records):
            if offset not in after:
                is_done = self.records[offset].state in TERMINAL
                assert offset < loaded.start_offset or not is_done or offset in self.compacted
                del self.records[offset]
        for offset, (state, count, *_) in after.items():
            if self.records.get(offset, Fate()).state in TERMINAL and offset not in self.compacted:
                assert self.records[offset].state == state, "what was told is in the log"
            self.records[offset] = Fate(state, count)
        self.compacted.clear()

    @invariant()
    def each_record_is_as_the_model_says(self) -> None:
        partition, found = self.partition, fates(self.partition)
        assert list(found) == list(range(partition.start_offset, partition.end_offset)), "runs leave no gap"
        assert found == {
            offset: (fate.state, fate.count, fate.member_id, fate.until_ms, fate.session)
            for offset, fate in sorted(self.records.items())
            if offset >= partition.start_offset
        }
        assert partition.complete_count == sum(state in TERMINAL for state, *_ in found.values())
        assert not partition.runs or partition.runs[0].state not in TERMINAL
        for offset, fate in self.records.items():
            assert offset >= partition.start_offset or fate.state in TERMINAL


RecordByRecord.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRecordByRecord = RecordByRecord.TestCase


def acquired_of(found: Acquisition) -> list[tuple[int, int, int]]:
    return [(run.first_offset, run.last_offset, run.delivery_count) for run in found.acquired]


def test_a_thousand_acknowledgements_are_checked_and_joined_in_steps() -> None:
    limits = Limits(delivery_count_limit=4, record_locks_max=1_000, lock_duration_ms=100)
    found = acquire(SharePartition(0), Wish("a", 1_000), [BatchOffsets(0, 999)], limits, 0)
    single = [Batch(offset, offset, (AcknowledgeType.ACCEPT,)) for offset in range(1_000)]
    steps, error = count_steps(validate_batches(single, AcknowledgeType.RENEW))
    assert (steps > 10, error) == (True, ErrorCode.NONE)
    steps, change = count_steps(acknowledge(found.partition, "a", single, limits, 1, 0))
    assert steps > 10
    assert isinstance(change, Change)
    assert change.partition.start_offset == 1_000


def test_a_run_of_several_produced_batches_is_wanted_as_a_whole() -> None:
    found = acquire(SharePartition(0), Wish("a", 10, 2), [BatchOffsets(0, 0), BatchOffsets(1, 1)], LIMITS, 0)
    released = release_member(found.partition, "a", LIMITS, 0).partition
    assert find_last_wanted(released, 1) == 1


def test_a_batch_that_is_released_again_and_again_is_cut() -> None:
    partition, limits, told = SharePartition(0), Limits(), []
    for _ in range(5):
        found = acquire(partition, Wish("a", 500), [BatchOffsets(0, 9)], limits, 0)
        told.append(acquired_of(found))
        partition = release_member(found.partition, "a", limits, 0).partition
    assert told == [[(0, 9, 1)], [(0, 9, 2)], [(0, 9, 3)], [(0, 4, 4)], [(0, 0, 5)]]
    assert partition.start_offset == 1, "after the limit it is archived"


@pytest.mark.parametrize("limit", range(1, 11))
@pytest.mark.parametrize("count", range(1, 10))
def test_the_next_delivery_has_half_of_the_last_one_and_in_the_end_a_record(limit: int, count: int) -> None:
    """As `SharePartition.acquireSubsetBatchRecords` has it, also where the limit was lowered after these deliveries."""
    run = Run(0, 63, AVAILABLE, count, 0, 63)
    found = acquire(SharePartition(0, (run,)), Wish("a", 500), [BatchOffsets(0, 63)], Limits(limit), 0)
    cut_from = max(2, (limit + 1) // 2)
    if count < cut_from:
        expected = 64
    elif count == limit - 1 and limit > 2:
        expected = 1
    else:
        expected = max(1, 64 // 2 ** (count - cut_from + 1))
    assert offsets(found.acquired) == list(range(expected))


def test_the_window_is_filled_up_to_its_bound_whatever_a_member_wishes() -> None:
    limits = Limits(record_locks_max=10)
    partition = acquire(SharePartition(0), Wish("a", 500), [BatchOffsets(0, 7)], limits, 0).partition
    assert offsets(
        acquire(partition, Wish("b", 500), [BatchOffsets(at, at) for at in range(8, 20)], limits, 0).acquired
    ) == [8, 9]
    assert offsets(acquire(partition, Wish("b", 500, is_exact=True), [BatchOffsets(8, 19)], limits, 0).acquired) == [
        8,
        9,
    ]


def test_what_has_failed_often_is_delivered_alone() -> None:
    partition, limits, log = SharePartition(0), Limits(), [BatchOffsets(0, 3), BatchOffsets(4, 7), BatchOffsets(8, 11)]
    for _ in range(3):
        partition = release_member(
            acquire(partition, Wish("a", 4), log[:1], limits, 0).partition, "a", limits, 0
        ).partition
    assert acquired_of(acquire(partition, Wish("a", 500), log, limits, 0)) == [(0, 1, 4)], "and nothing new with it"
    mixed = acquire(partition, Wish("b", 1, is_exact=True), log, limits, 0).partition
    mixed = acquire(mixed, Wish("c", 500), log, limits, 0).partition
    mixed = release_member(mixed, "c", limits, 0).partition
    last = acquire(mixed, Wish("c", 500), log, limits, 0)
    assert len(last.acquired) == 1, "nor what others have given back once"


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.sampled_from((0, 2, 4))), max_size=6),
    st.integers(-1, 25),
)
def test_a_state_is_loaded_from_its_start_offset_on(batches: list[tuple[int, int, int]], start: int) -> None:
    """Whatever batches begin and end before it; what no batch tells of is available."""
    told, first = [], 0
    for gap, size, state in batches:
        told.append(StateBatch(first + gap, first + gap + size - 1, state, 1))
        first += gap + size
    loaded = load_partition(ShareState(start_offset=start, batches=tuple(told)), 4)
    known = {at: one.delivery_state for one in told for at in range(one.first_offset, one.last_offset + 1)}
    begin = 4 if start == -1 else start
    while known.get(begin) in TERMINAL:
        begin += 1
    assert (loaded.start_offset, loaded.end_offset) == (begin, max(begin, first))
    assert {at: fate[:2] for at, fate in fates(loaded).items()} == {
        at: (known.get(at, AVAILABLE), int(at in known)) for at in range(begin, first)
    }
    assert loaded.complete_count == sum(known.get(at) in TERMINAL for at in range(begin, first))


@st.composite
def windows(draw: st.DrawFn) -> tuple[SharePartition, list[BatchOffsets]]:
    """Produced batches, each in a few runs that have been delivered differently often, and some new ones behind."""
    runs: list[Run] = []
    log, first = [], 0
    for _ in range(draw(st.integers(1, 4))):
        sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
        last = first + sum(sizes) - 1
        log.append(BatchOffsets(first, last))
        for start, size in zip(accumulate(sizes, initial=first), sizes, strict=False):
            state = draw(st.sampled_from((AVAILABLE, AVAILABLE, ACQUIRED, ACKNOWLEDGED)))
            run = Run(start, start + size - 1, state, draw(st.integers(1, 3)), first, last)
            runs.append(replace(run, member_id="x", locked_until_ms=90, session=1) if state == ACQUIRED else run)
        first = last + 1
    log += [BatchOffsets(first + at, first + at) for at in range(draw(st.integers(0, 3)))]
    partition = SharePartition(0, tuple(runs), sum(run.size for run in runs if run.state in TERMINAL))
    return partition, log


@given(windows(), st.integers(1, 12), st.booleans())
def test_what_has_failed_often_comes_alone_whatever_else_is_there(
    window: tuple[SharePartition, list[BatchOffsets]], most: int, is_exact: bool
) -> None:
    """A fetch takes what is available batch by batch, up to the first batch of which something has failed often. That one
    comes alone, and not all of it. By single offsets, as `SharePartition.acquire` goes through them."""
    partition, log = window
    log = [batch for batch in log if batch.last_offset >= next_fetch_offset(partition)]
    found = acquire(partition, Wish("a", most, is_exact=is_exact), log, LIMITS, 0)
    batches: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for run in partition.runs:
        if run.state == AVAILABLE:
            known = batches.setdefault((run.batch_first, run.batch_last), [])
            known += [(offset, run.delivery_count) for offset in offsets((run,))]
    expected: list[int] = []
    is_cut = False
    for (first, last), known in batches.items():
        if len(expected) >= most:
            break
        is_cut = max(count for _, count in known) >= 2
        if is_cut and expected:
            break
        before, cut = len(expected), None
        for offset, count in known:
            taken_of_batch = len(expected) - before
            if count == 3 and taken_of_batch:
                break
            if count >= 2 and cut is None:
                cut = max(1, (last - first + 1) >> (count - 1))
            expected.append(offset)
            if count == 3 or (is_exact and len(expected) == most) or cut == taken_of_batch + 1:
                break
        if is_cut:
            break
    taken = offsets(found.acquired)
    assert taken[: len(expected)] == expected
    assert len(taken) == len(expected) or not is_cut, "nothing new comes with it"
    assert all(offset >= partition.end_offset for offset in taken[len(expected) :])
    assert all(run.batch_first <= run.first_offset <= run.last_offset <= run.batch_last for run in found.partition.runs)
    released = release_member(found.partition, "a", LIMITS, 0).partition
    batch_of = {offset: run.batch_first for run in found.partition.runs for offset in offsets((run,))}
    assert all(batch_of[offset] == run.batch_first for run in released.runs for offset in offsets((run,)))


@pytest.mark.parametrize("action", [*RecordAction, None])
@given(window=windows(), first=st.integers(0, 30), size=st.integers(1, 20), count=st.sampled_from((None, 1, 4)))
def test_an_operator_changes_each_record_of_a_range_that_can_be(
    action: RecordAction | None,
    window: tuple[SharePartition, list[BatchOffsets]],
    first: int,
    size: int,
    count: int | None,
) -> None:
    """And no other one."""
    partition, last = window[0], first + size - 1
    before = fates(partition)
    answer = change_records(partition, ChangeRecords("g", b"", 0, first, last, action, count), LIMITS)
    frees = action in (RecordAction.EXPIRE, RecordAction.RELEASE)
    meant = {
        offset
        for offset, (state, *_) in before.items()
        if first <= offset <= last and (state == ACQUIRED if frees else state not in TERMINAL)
    }
    if not meant:
        assert isinstance(answer, str)
        return
    assert isinstance(answer, Change)
    after = fates(answer.partition)
    for offset, (state, delivered, *rest) in before.items():
        if offset in meant:
            delivered = delivered if count is None else count
            if action is not None:
                freed = ARCHIVED if delivered >= LIMITS.delivery_count_limit else AVAILABLE
                state = {RecordAction.ACCEPT: ACKNOWLEDGED, RecordAction.REJECT: ARCHIVED}.get(action, freed)
                rest = ["", 0, 0]
        if offset in after:
            assert after[offset] == (state, delivered, *rest)
        else:
            assert state in TERMINAL, "it was at the front, and is done"


def test_an_operator_is_told_which_records_are_in_flight() -> None:
    held = acquire(SharePartition(5), Wish("a", 500), [BatchOffsets(5, 9)], LIMITS, 0).partition
    verb = ChangeRecords("g", b"", 0, 20, 21, RecordAction.ACCEPT)
    assert change_records(held, verb, LIMITS) == "no record from 20 to 21 is in flight: 5 to 9 are"
    assert change_records(SharePartition(5), verb, LIMITS) == (
        "no record from 20 to 21 is in flight: none are, and 5 comes next"
    )
    assert isinstance(change_records(held, replace(verb, first_offset=9, last_offset=30), LIMITS), Change)


def test_what_compaction_has_removed_is_archived_unless_a_member_has_it() -> None:
    partition = acquire(
        SharePartition(0), Wish("a", 500), [BatchOffsets(0, 4), BatchOffsets(5, 9)], Limits(), 0
    ).partition
    held = release_member(partition, "a", Limits(), 0).partition
    held = acquire(held, Wish("b", 3, is_exact=True), [BatchOffsets(0, 4)], Limits(), 0).partition
    after = fates(archive_missing(held, 2, 7))
    assert [(at, fate[0], fate[2]) for at, fate in after.items()] == [
        *((at, ACQUIRED, "b") for at in range(3)),
        *((at, ARCHIVED, "") for at in range(3, 7)),
        *((at, AVAILABLE, "") for at in range(7, 10)),
    ]
    assert archive_missing(held, 0, 3) == held


@pytest.mark.parametrize(("is_exact", "expected"), [(False, [(0, 3, 1), (4, 9, 1)]), (True, [(0, 4, 1)])])
def test_whole_batches_exceed_the_number_of_records_unless_it_is_exact(
    is_exact: bool, expected: list[tuple[int, int, int]]
) -> None:
    fetched = [BatchOffsets(0, 3), BatchOffsets(4, 9), BatchOffsets(10, 12)]
    assert acquired_of(acquire(SharePartition(0), Wish("a", 5, 2, is_exact), fetched, Limits(), 0)) == expected


def test_a_full_window_takes_no_new_records_but_delivers_what_is_available() -> None:
    limits = Limits(record_locks_max=10)
    partition = acquire(SharePartition(0), Wish("a", 500), [BatchOffsets(0, 9)], limits, 0).partition
    assert acquire(partition, Wish("b", 500), [BatchOffsets(10, 19)], limits, 0).acquired == ()
    partition = release_member(partition, "a", limits, 0).partition
    again = acquire(partition, Wish("b", 500), [BatchOffsets(0, 9), BatchOffsets(10, 19)], limits, 0)
    assert acquired_of(again) == [(0, 9, 2)]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([(0, 9, (1,))], ErrorCode.NONE),
        ([(0, 2, (1, 2, 3))], ErrorCode.NONE),
        ([(5, 4, (1,))], ErrorCode.INVALID_REQUEST),
        ([(0, 2, (1, 2))], ErrorCode.INVALID_REQUEST),
        ([(0, 2, ())], ErrorCode.INVALID_REQUEST),
        ([(0, 2, (5,))], ErrorCode.INVALID_REQUEST),
        ([(0, 2, (-1,))], ErrorCode.INVALID_REQUEST),
        ([(4, 5, (1,)), (0, 1, (1,))], ErrorCode.INVALID_REQUEST),
        ([(-2, -1, (1,))], ErrorCode.INVALID_REQUEST),
    ],
)
def test_ranges_that_no_partition_could_take(
    batches: list[tuple[int, int, tuple[int, ...]]], expected: ErrorCode
) -> None:
    assert finish(validate_batches([Batch(*batch) for batch in batches], AcknowledgeType.RENEW)) == expected


def refused(first: int, last: int, member: str = "a", now_ms: int = 0) -> Change | ErrorCode:
    found = acquire(SharePartition(0), Wish("a", 500), [BatchOffsets(0, 9)], Limits(), 0)
    return finish(acknowledge(found.partition, member, [Batch(first, last, (1,))], Limits(), now_ms, 0))


def test_offsets_outside_of_the_window_and_records_of_others_are_refused() -> None:
    assert refused(0, 2**63 - 1) == ErrorCode.INVALID_REQUEST
    assert refused(10, 10) == ErrorCode.INVALID_REQUEST
    assert refused(0, 9, member="b") == ErrorCode.INVALID_RECORD_STATE
    assert refused(0, 9, now_ms=Limits().lock_duration_ms) == ErrorCode.INVALID_RECORD_STATE


@given(sizes=st.lists(st.integers(1, 4), min_size=2, max_size=6), data=st.data())
def test_a_record_that_is_named_twice_is_refused(sizes: list[int], data: st.DataObject) -> None:
    """A range may begin where the one before it ends, says Kafka's check of a request; its share partition does not."""
    ends = list(accumulate(sizes))
    held = acquire(SharePartition(0), Wish("a", 500), [BatchOffsets(0, ends[-1] - 1)], Limits(), 0).partition
    types = data.draw(st.lists(st.integers(0, 4), min_size=len(sizes), max_size=len(sizes)))
    ranges = [Batch(end - size, end - 1, (kind,)) for size, end, kind in zip(sizes, ends, types, strict=True)]
    assert isinstance(finish(acknowledge(held, "a", ranges, Limits(), 0, 0)), Change)
    at = data.draw(st.integers(0, len(ranges) - 2))
    ranges[at] = replace(ranges[at], last_offset=ranges[at].last_offset + 1)
    assert finish(validate_batches(ranges, AcknowledgeType.RENEW)) == ErrorCode.NONE
    assert finish(acknowledge(held, "a", ranges, Limits(), 0, 0)) == ErrorCode.INVALID_RECORD_STATE


def test_offsets_below_the_start_offset_count_as_success() -> None:
    partition = SharePartition(100)
    assert finish(acknowledge(partition, "a", [Batch(0, 9, (1,))], Limits(), 0, 0)) == Change(partition)


def test_the_start_offset_that_is_written_is_that_of_before() -> None:
    change = refused(0, 4)
    assert isinstance(change, Change)
    assert change.partition.start_offset == 5
    assert change.update is not None
    assert (change.update.start_offset, change.update.delivery_complete_count) == (0, 5)
    assert change.update.batches == (StateBatch(0, 4, ACKNOWLEDGED, 1),)


def test_as_many_records_as_may_be_in_flight_are_acknowledged_one_by_one() -> None:
    limits = Limits(record_locks_max=IN_FLIGHT_MAX)
    found = acquire(SharePartition(0), Wish("a", IN_FLIGHT_MAX), [BatchOffsets(0, IN_FLIGHT_MAX - 1)], limits, 0)
    one_by_one = [Batch(offset, offset, (1,)) for offset in range(IN_FLIGHT_MAX)]
    accepted = finish(acknowledge(found.partition, "a", one_by_one, limits, 0, 0))
    assert isinstance(accepted, Change)
    assert accepted.partition == SharePartition(IN_FLIGHT_MAX)
    every_other = [Batch(offset, offset, (2,)) for offset in range(0, IN_FLIGHT_MAX, 2)]
    steps, change = count_steps(acknowledge(found.partition, "a", every_other, limits, 0, 0))
    assert isinstance(change, Change)
    assert len(change.partition.runs) == IN_FLIGHT_MAX
    assert steps > 90, "others have their turn meanwhile"


@pytest.mark.parametrize("is_exact", [False, True])
def test_a_batch_that_is_larger_than_the_window_is_acquired_in_parts(is_exact: bool) -> None:
    limits, huge = Limits(record_locks_max=4_000), [BatchOffsets(0, 3 * IN_FLIGHT_MAX - 1)]
    partition, begin = SharePartition(0), 0
    while begin < 3 * IN_FLIGHT_MAX:
        found = acquire(partition, Wish("a", 3_000, 500, is_exact), huge, limits, 0)
        assert found.acquired[0].first_offset == begin
        assert found.count == (3_000 if is_exact else IN_FLIGHT_MAX) or begin + found.count == 3 * IN_FLIGHT_MAX
        assert found.partition.in_flight <= IN_FLIGHT_MAX
        begin = found.acquired[-1].last_offset + 1
        done = finish(
            acknowledge(found.partition, "a", [Batch(found.acquired[0].first_offset, begin - 1, (1,))], limits, 0, 0)
        )
        assert isinstance(done, Change)
        partition = done.partition


def test_what_a_member_renews_it_has_in_its_session_of_now() -> None:
    found = acquire(SharePartition(0), Wish("a", 500, session=1), [BatchOffsets(0, 9)], Limits(), 0)
    renewed = finish(acknowledge(found.partition, "a", [Batch(3, 5, (4,))], Limits(), 0, 2))
    assert isinstance(renewed, Change)
    released = release_member(renewed.partition, "a", Limits(), 1).partition
    assert [(run.first_offset, run.last_offset) for run in released.runs if run.member_id] == [(3, 5)]


def test_a_lock_ends_at_its_time_and_not_before() -> None:
    limits = Limits(lock_duration_ms=100)
    held = acquire(SharePartition(0), Wish("a", 500), [BatchOffsets(0, 9)], limits, 1_000).partition
    assert next_lock_ms(held) == 1_100
    assert expire_locks(held, limits, 1_099) == Change(held)
    freed = expire_locks(held, limits, 1_100)
    assert freed.update is not None
    assert freed.update.batches == (StateBatch(0, 9, AVAILABLE, 1),)
    assert next_lock_ms(freed.partition) is None


def test_what_was_acquired_when_the_server_ended_is_available() -> None:
    batches = (StateBatch(10, 11, AVAILABLE, 2), StateBatch(15, 19, ACKNOWLEDGED, 1))
    loaded = load_partition(ShareState(start_offset=10, batches=batches, state_epoch=3, leader_epoch=4), 0)
    assert [(run.first_offset, run.last_offset, run.state, run.delivery_count) for run in loaded.runs] == [
        (10, 11, AVAILABLE, 2),
        (12, 14, AVAILABLE, 0),
        (15, 19, ACKNOWLEDGED, 1),
    ]
    assert (loaded.complete_count, loaded.state_epoch, loaded.leader_epoch) == (5, 3, 4)
    assert load_partition(ShareState(), 7) == SharePartition(7), "the first fetch decides where it begins"


def test_what_is_available_again_is_cut_to_an_exact_number_of_records() -> None:
    limits = Limits()
    partition = acquire(SharePartition(0), Wish("a", 500), [BatchOffsets(0, 9)], limits, 0).partition
    partition = release_member(partition, "a", limits, 0).partition
    found = acquire(partition, Wish("b", 3, is_exact=True), [BatchOffsets(0, 9)], limits, 0)
    assert acquired_of(found) == [(0, 2, 2)]
    assert acquired_of(acquire(found.partition, Wish("c", 500), [BatchOffsets(0, 9)], limits, 0)) == [(3, 9, 2)]
