"""Leave out the records of aborted transactions, for groups with `share.isolation.level=read_committed`.

They were acquired with all others, are archived at once, and no member hears of them. Nothing is written: after a start
they are acquired and archived again. Kafka: `filterAbortedTransactionalAcquiredRecords`.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from coordinator.core.share_partitions.acquire import Acquisition, BatchOffsets
from coordinator.core.share_partitions.runs import count_complete, overlay, part
from coordinator.core.share_partitions.transition import advance, settle
from coordinator.core.share_partitions.values import Run
from coordinator.core.share_state.values import DeliveryState


def leave_out(acquisition: Acquisition, aborted: Sequence[BatchOffsets]) -> Acquisition:
    """Return the acquisition without the batches of aborted transactions, which are in order."""
    kept: list[Run] = []
    archived: list[Run] = []
    at = 0
    for run in acquisition.acquired:
        first = run.first_offset
        while at < len(aborted) and aborted[at].last_offset < first:
            at += 1
        within = at
        while within < len(aborted) and aborted[within].first_offset <= run.last_offset:
            batch = aborted[within]
            begin, end = max(batch.first_offset, first), min(batch.last_offset, run.last_offset)
            if first < begin:
                kept.append(part(run, first, begin - 1))
            archived.append(settle(part(run, begin, end), DeliveryState.ARCHIVED))
            first, within = end + 1, within + 1
        if first <= run.last_offset:
            kept.append(part(run, first, run.last_offset))
    if not archived:
        return acquisition
    before = acquisition.partition
    complete_count = before.complete_count + count_complete(archived)
    partition = replace(before, runs=overlay(before.runs, archived), complete_count=complete_count)
    return Acquisition(advance(partition), tuple(kept))
