"""Make a share partition of the state that the share coordinator has of it. Kafka: `SharePartition.maybeInitialize`."""

from collections.abc import Iterator, Sequence
from typing import Final

from coordinator.core.share_partitions.runs import count_complete
from coordinator.core.share_partitions.transition import advance
from coordinator.core.share_partitions.values import Run, SharePartition
from coordinator.core.share_state.values import NO_OFFSET, DeliveryState, ShareState, StateBatch

LAST_OFFSET_MAX: Final = 2**63 - 2  # behind which there is an offset that can be written
DELIVERIES_MAX: Final = 2**15 - 2  # after which one more can be written


def load_partition(state: ShareState, first_start_offset: int) -> SharePartition:
    """Return the partition. A state without a start offset begins at `first_start_offset`.

    What no batch tells of between two batches was acquired when the server ended: it is available. Raises ValueError
    for a state of delivery that there is not: others may have written it.
    """
    start = first_start_offset if state.start_offset == NO_OFFSET else state.start_offset
    runs = tuple(_runs(state.batches, start))
    partition = SharePartition(start, runs, count_complete(runs), state.state_epoch, state.leader_epoch)
    return advance(partition)


def _runs(batches: Sequence[StateBatch], start: int) -> Iterator[Run]:
    at = start
    for batch in batches:
        first, last = max(batch.first_offset, at), min(batch.last_offset, LAST_OFFSET_MAX)
        if last < first:
            continue
        if first > at:
            yield Run(at, first - 1, DeliveryState.AVAILABLE, 0, at, first - 1)
        deliveries = min(batch.delivery_count, DELIVERIES_MAX)
        yield Run(first, last, DeliveryState(batch.delivery_state), deliveries, first, last)
        at = last + 1
