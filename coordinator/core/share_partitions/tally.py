"""How many records share groups have acquired, settled and been given again since the start. For operators only."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from coordinator.core.share_partitions.values import Run
from coordinator.core.share_state.values import DeliveryState, StateBatch

LOCK: Final = "timer lock"


class DeliveryTally(Struct):
    """The numbers of records since the start of the process."""

    acquired: int = 0
    redelivered: int = 0  # of those that were acquired: not for the first time
    accepted: int = 0
    released: int = 0  # by their member, or with its session
    expired: int = 0  # their lock has ended
    archived: int = 0  # rejected, delivered too often, or no records at all

    def count_acquired(self, runs: Iterable[Run]) -> None:
        """Count what a member has acquired."""
        for run in runs:
            self.acquired += run.size
            if run.delivery_count > 1:
                self.redelivered += run.size

    def count_settled(self, batches: Iterable[StateBatch], by: str) -> None:
        """Count records in states in which nobody holds them."""
        for batch in batches:
            size = batch.last_offset - batch.first_offset + 1
            if by == LOCK:
                self.expired += size
            match batch.delivery_state:
                case DeliveryState.ACKNOWLEDGED:
                    self.accepted += size
                case DeliveryState.ARCHIVED:
                    self.archived += size
                case _ if by != LOCK:
                    self.released += size
