"""Batches of a share partition's state are combined as if each record had been looked at by itself."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.share_state.combine import combine_batches
from coordinator.core.share_state.values import StateBatch

OFFSETS = st.integers(0, 30)
BATCHES = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        OFFSETS,
        st.integers(0, 12),
        st.sampled_from((0, 2, 4)),
        st.integers(1, 4),
    ),
    max_size=12,
)


def record_by_record(batches: list[StateBatch], start_offset: int) -> dict[int, tuple[int, int]]:
    """Count and state of each record that a batch holds."""
    found: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(max(batch.first_offset, start_offset), batch.last_offset + 1):
            found[offset] = max(found.get(offset, (0, 0)), (batch.delivery_count, batch.delivery_state))
    return found


@given(BATCHES, st.integers(-1, 30))
def test_each_record_has_its_greatest_count_then_its_greatest_state(
    batches: list[StateBatch], start_offset: int
) -> None:
    combined = combine_batches(batches, start_offset)
    offsets = [offset for batch in combined for offset in range(batch.first_offset, batch.last_offset + 1)]
    assert offsets == sorted(set(offsets)), "they are in order, and do not overlap"
    assert record_by_record(list(combined), -1) == record_by_record(batches, start_offset)


@given(BATCHES, st.integers(-1, 30))
def test_there_are_as_few_batches_as_there_can_be(batches: list[StateBatch], start_offset: int) -> None:
    combined = combine_batches(batches, start_offset)
    for before, after in itertools.pairwise(combined):
        is_neighbour = before.last_offset + 1 == after.first_offset
        same = (before.delivery_state, before.delivery_count) == (after.delivery_state, after.delivery_count)
        assert not (is_neighbour and same)
    assert combine_batches(combined, start_offset) == combined


def test_the_example_that_is_drawn() -> None:
    so_far, new = (StateBatch(0, 5, 1, 1), StateBatch(9, 13, 0, 1)), (StateBatch(2, 4, 2, 1), StateBatch(10, 16, 0, 2))
    assert combine_batches((*so_far, *new), -1) == (
        StateBatch(0, 1, 1, 1),
        StateBatch(2, 4, 2, 1),
        StateBatch(5, 5, 1, 1),
        StateBatch(9, 9, 0, 1),
        StateBatch(10, 16, 0, 2),
    )


def test_a_batch_that_ends_before_it_begins_holds_nothing() -> None:
    assert combine_batches((StateBatch(5, 3, 2, 1), StateBatch(0, 1, 2, 1)), -1) == (StateBatch(0, 1, 2, 1),)
