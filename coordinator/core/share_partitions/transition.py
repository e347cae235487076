"""Put records into new states: what is written of it, and how far the start offset goes.

The update that is written names the start offset of before, as Kafka writes it; the offset that it leads to is written
with the next one.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from coordinator.core.share_partitions.runs import count_complete, drop_below, overlay, part
from coordinator.core.share_partitions.values import NEVER_MS, NO_MEMBER, TERMINAL, Change, Run, SharePartition
from coordinator.core.share_state.values import DeliveryState, StateBatch, StateUpdate


def change_runs(partition: SharePartition, changed: Sequence[Run]) -> Change:
    """Replace records by runs in new states, which are in order. Records that were acquired must not be among them
    any more; those whose lock is only prolonged are not written."""
    complete_count = partition.complete_count + count_complete(changed)
    lasting = [run for run in changed if run.state != DeliveryState.ACQUIRED]
    after = advance(
        replace(partition, runs=overlay(partition.runs, changed), complete_count=complete_count),
    )
    if not lasting:
        return Change(after)
    batches = tuple([StateBatch(run.first_offset, run.last_offset, run.state, run.delivery_count) for run in lasting])
    return Change(
        after,
        StateUpdate(partition.state_epoch, partition.leader_epoch, partition.start_offset, complete_count, batches),
    )


def free(run: Run, delivery_count_limit: int) -> Run:
    """Return a run that its member gives back: available again, or archived after its last delivery."""
    is_last = run.delivery_count >= delivery_count_limit
    return settle(run, DeliveryState.ARCHIVED if is_last else DeliveryState.AVAILABLE)


def settle(run: Run, state: DeliveryState) -> Run:
    """Return the run in a state in which nobody holds it."""
    return replace(run, state=state, member_id=NO_MEMBER, locked_until_ms=NEVER_MS, session=0)


def advance(partition: SharePartition) -> SharePartition:
    """Move the start offset over the records that are done. Kafka: `maybeUpdateCachedStateAndOffsets`."""
    runs, at = partition.runs, 0
    while at < len(runs) and runs[at].state in TERMINAL:
        at += 1
    if not at:
        return partition
    done = partition.complete_count - count_complete(runs[:at])
    return replace(partition, start_offset=runs[at - 1].last_offset + 1, runs=runs[at:], complete_count=done)


def move_log_start(partition: SharePartition, log_start_offset: int) -> SharePartition:
    """Drop the records that retention or DeleteRecords has removed. Kafka: `updateCacheAndOffsets`."""
    if log_start_offset <= partition.start_offset:
        return partition
    runs = drop_below(partition.runs, log_start_offset)
    moved = replace(partition, start_offset=log_start_offset, runs=runs, complete_count=count_complete(runs))
    return advance(moved)


def archive_missing(partition: SharePartition, first_offset: int, next_offset: int) -> SharePartition:
    """Archive what is available from one offset up to, not including, another: compaction has removed it from the log.

    Nothing of it is written. Kafka: `maybeArchiveStaleBatches`.
    """
    last_offset = next_offset - 1
    missing = [
        settle(
            part(run, max(run.first_offset, first_offset), min(run.last_offset, last_offset)), DeliveryState.ARCHIVED
        )
        for run in partition.runs
        if run.state == DeliveryState.AVAILABLE and run.last_offset >= first_offset and run.first_offset <= last_offset
    ]
    if not missing:
        return partition
    complete_count = partition.complete_count + count_complete(missing)
    return advance(replace(partition, runs=overlay(partition.runs, missing), complete_count=complete_count))
