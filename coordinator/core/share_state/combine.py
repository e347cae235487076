"""Combine batches of a share partition's state: where they overlap, the higher delivery count wins.

    so far     |1 ------------- 1|     |0 --- 1|            delivery state and count
    new              |2 - 1|     |0 ------- 2|
    combined   |1 1| |2 - 1| |1 1|0 ------- 2|

Delivery counts never go back, and with one count a record only goes from available to acknowledged or archived. So for
each record the higher count wins, then the higher state, whichever batch was written first.
"""

import heapq
from collections.abc import Iterable, Iterator

from coordinator.core.share_state.values import NO_OFFSET, StateBatch


def combine_batches(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Return batches that do not overlap, in the order of their offsets, without what is below the start offset.

    Kafka: `PersisterStateBatchCombiner`, which leaves some neighbours of the same state apart. The time that is taken
    grows with the number of batches alone, however long they are.
    """
    return tuple(_join(_split(sorted(_prune(batches, start_offset), key=_first_offset))))


def _first_offset(batch: StateBatch) -> int:
    return batch.first_offset


def _prune(batches: Iterable[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    for batch in batches:
        if start_offset == NO_OFFSET or batch.first_offset >= start_offset:
            yield batch
        elif batch.last_offset >= start_offset:
            yield StateBatch(start_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)


def _split(batches: list[StateBatch]) -> Iterator[StateBatch]:
    """Cut batches that are sorted by their first offsets wherever another one begins or ends that outranks them."""
    open_batches: list[tuple[int, int, int]] = []  # a heap: the highest rank first, as (-count, -state, last offset)
    offset = next_batch = 0
    while open_batches or next_batch < len(batches):
        if not open_batches:
            offset = batches[next_batch].first_offset
        while next_batch < len(batches) and batches[next_batch].first_offset <= offset:
            batch = batches[next_batch]
            heapq.heappush(open_batches, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            next_batch += 1
        count, state, last = open_batches[0]
        if last < offset:  # it has ended below the one that outranked it
            heapq.heappop(open_batches)
            continue
        if next_batch < len(batches):
            last = min(last, batches[next_batch].first_offset - 1)
        yield StateBatch(offset, last, -state, -count)
        offset = last + 1


def _join(batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
    """Join neighbours of the same state."""
    before: StateBatch | None = None
    for batch in batches:
        if before is None:
            before = batch
        elif (before.last_offset + 1, before.delivery_state, before.delivery_count) == (
            batch.first_offset,
            batch.delivery_state,
            batch.delivery_count,
        ):
            before = StateBatch(before.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        else:
            yield before
            before = batch
    if before is not None:
        yield before
