"""Records of aborted transactions are archived, and not told to the member that has acquired what is around them."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.share_partitions.aborted import leave_out
from coordinator.core.share_partitions.acquire import Acquisition, BatchOffsets, Wish, acquire, next_fetch_offset
from coordinator.core.share_partitions.locks import release_member
from coordinator.core.share_partitions.values import TERMINAL, Limits, Run, SharePartition
from coordinator.core.share_state.values import DeliveryState

SIZES = st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=10)


def offsets(runs: tuple[Run, ...]) -> list[int]:
    return [offset for run in runs for offset in range(run.first_offset, run.last_offset + 1)]


@given(SIZES, st.integers(1, 40), st.integers(1, 8), st.booleans())
def test_exactly_the_records_of_aborted_batches_are_left_out(
    sizes: list[tuple[int, bool]], most: int, batch_size: int, is_exact: bool
) -> None:
    log: list[BatchOffsets] = []
    for size, _ in sizes:
        first = log[-1].last_offset + 1 if log else 0
        log.append(BatchOffsets(first, first + size - 1))
    aborted = [batch for batch, (_, is_aborted) in zip(log, sizes, strict=True) if is_aborted]
    gone = {offset for batch in aborted for offset in range(batch.first_offset, batch.last_offset + 1)}
    all_of_it = acquire(SharePartition(0), Wish("a", most, batch_size, is_exact), log, Limits(), 0)
    found = leave_out(all_of_it, aborted)
    assert offsets(found.acquired) == [offset for offset in offsets(all_of_it.acquired) if offset not in gone]
    partition = found.partition
    assert partition.end_offset == all_of_it.partition.end_offset
    for run in partition.runs:
        for offset in range(run.first_offset, run.last_offset + 1):
            if run.state != DeliveryState.AVAILABLE:  # the rest of a batch that is cut: archived once it is acquired
                assert (run.state == DeliveryState.ARCHIVED) == (offset in gone)
    assert gone.issuperset(range(partition.start_offset)), "only what is done is below the start offset"
    assert not partition.runs or partition.runs[0].state not in TERMINAL
    assert partition.complete_count == sum(run.size for run in partition.runs if run.state in TERMINAL)


WISHES = st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.booleans()), min_size=1, max_size=6)


@given(SIZES, WISHES)
def test_wherever_an_acquisition_begins_nothing_of_an_aborted_batch_is_told(
    sizes: list[tuple[int, bool]], wishes: list[tuple[int, bool, bool]]
) -> None:
    """In the midst of a batch too: what was cut off before, or given back."""
    ends = list(accumulate(size for size, _ in sizes))
    log = [BatchOffsets(end - size, end - 1) for end, (size, _) in zip(ends, sizes, strict=True)]
    aborted = [batch for batch, (_, is_aborted) in zip(log, sizes, strict=True) if is_aborted]
    gone = {offset for batch in aborted for offset in range(batch.first_offset, batch.last_offset + 1)}
    partition, limits = SharePartition(0), Limits()
    for number, (most, is_exact, gives_back) in enumerate(wishes, 1):
        at = next_fetch_offset(partition)
        wish = Wish("a", most, 1, is_exact, number)
        fetched = [batch for batch in log if batch.last_offset >= at]
        acquired = acquire(partition, wish, fetched, limits, 0)
        found = leave_out(acquired, [batch for batch in aborted if batch.last_offset >= at])
        assert offsets(found.acquired) == [offset for offset in offsets(acquired.acquired) if offset not in gone]
        partition = release_member(found.partition, "a", limits, number).partition if gives_back else found.partition


def test_what_is_left_out_is_not_delivered_after_a_release() -> None:
    limits, log = Limits(), [BatchOffsets(0, 4), BatchOffsets(5, 9)]
    found = leave_out(acquire(SharePartition(0), Wish("a", 500, 10), log, limits, 0), [BatchOffsets(5, 9)])
    assert [(run.first_offset, run.last_offset) for run in found.acquired] == [(0, 4)]
    again = acquire(release_member(found.partition, "a", limits, 0).partition, Wish("a", 500), log, limits, 0)
    assert offsets(again.acquired) == [0, 1, 2, 3, 4]


def test_nothing_is_left_out_of_an_empty_acquisition() -> None:
    nothing = Acquisition(SharePartition(3))
    assert leave_out(nothing, [BatchOffsets(0, 9)]) == nothing
