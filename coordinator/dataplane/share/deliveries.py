"""Tell a group's timeline what becomes of its records, and count it.

Each record that a member gives back, that its lock gives back, or that is archived is told of, with its offset and the
number of its deliveries. What is acquired or accepted is only counted: it is what a queue does all day.
"""

from typing import Final

from coordinator.core.events import Cause
from coordinator.core.share_partitions.operate import list_ranges
from coordinator.core.share_partitions.tally import LOCK
from coordinator.core.share_partitions.values import SharePartition
from coordinator.core.share_state.values import DeliveryState, StateBatch, StateKey, StateUpdate
from coordinator.dataplane.state import State

RANGES_TOLD: Final = 5
CAUSES: Final = {
    DeliveryState.AVAILABLE: Cause.RECORDS_RELEASED,
    DeliveryState.ARCHIVED: Cause.RECORDS_ARCHIVED,
}


def tell(state: State, key: StateKey, before: SharePartition, update: StateUpdate, by: str, now_ms: int) -> None:
    """Count a change that is written, and tell the group's timeline of it."""
    state.share.tally.count_settled(update.batches, by)
    for delivery_state, cause in CAUSES.items():
        batches = [batch for batch in update.batches if batch.delivery_state == delivery_state]
        if batches:
            if by == LOCK and delivery_state == DeliveryState.AVAILABLE:
                cause = Cause.LOCK_EXPIRED
            holder, records = _find_holder(before, batches), _describe(state, key, batches)
            state.runtime.tell_of_records(key.group_id, cause, holder, by, records, now_ms)


def _describe(state: State, key: StateKey, batches: list[StateBatch]) -> str:
    """Return which records they are, and how often these were delivered."""
    counts = sorted({batch.delivery_count for batch in batches})
    times = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    ranges = list_ranges([(batch.first_offset, batch.last_offset) for batch in batches], RANGES_TOLD)
    name = state.name_of(key.topic_id) or key.topic_id.hex()
    return f"{name}-{key.partition} {ranges}, delivered {times} time{'' if times == '1' else 's'}"


def _find_holder(before: SharePartition, batches: list[StateBatch]) -> str:
    """Return the member that had acquired the first of the records, "" if none had."""
    first = batches[0].first_offset
    return next((run.member_id for run in before.runs if run.first_offset <= first <= run.last_offset), "")
