"""Make a share partition of the state that the share coordinator has of it. Kafka: `SharePartition.maybeInitialize`."""

from collections.abc import Iterator, Sequence

from coordinator.core.share_partitions.runs import count_complete
from coordinator.core.share_partitions.transition import advance
from coordinator.core.share_partitions.values import Run, SharePartition
from coordinator.core.share_state.values import NO_OFFSET, DeliveryState, ShareState, StateBatch


def load_partition(state: ShareState, first_start_offset: int) -> SharePartition:
    """Return the partition. A state without a start offset begins at `first_start_offset`.

    What no batch tells of between two batches was acquired when the server ended: it is available.
    """
    start = first_start_offset if state.start_offset == NO_OFFSET else state.start_offset
    runs = tuple(_runs(state.batches, start))
    partition = SharePartition(start, runs, count_complete(runs), state.state_epoch, state.leader_epoch)
    return advance(partition)


def _runs(batches: Sequence[StateBatch], start: int) -> Iterator[Run]:
    at = start
    for batch in batches:
        if batch.last_offset < at:
            continue
        first, last = max(batch.first_offset, at), batch.last_offset
        if first > at:
            yield Run(at, first - 1, DeliveryState.AVAILABLE, 0, at, first - 1)
        yield Run(first, last, DeliveryState(batch.delivery_state), batch.delivery_count, first, last)
        at = last + 1
