"""A share partition as a value: its window of records in flight, in runs of records that share one fate.

    start_offset                                                    end_offset
         │ acquired by a, 1 │ available, 2 │ acknowledged │ acquired by b, 3 │  never delivered ...
         └────────────── runs: in order, without a gap between them ─────────┘

The first run is never terminal: records that are done at the front leave the window. A batch of 100,000 records that
nobody has touched singly is one run.
"""

from enum import IntEnum
from typing import Final

from msgspec import Struct

from coordinator.core.share_state.values import DeliveryState, StateUpdate

TERMINAL: Final = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})
NO_MEMBER: Final = ""
NEVER_MS: Final = 2**63 - 1


class AcknowledgeType(IntEnum):
    """What a member says of a record. Kafka: `AcknowledgeType`, and GAP for an offset that holds no record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Run(Struct, frozen=True, gc=False):
    """Records that follow each other, in the same state.

    `batch_first` and `batch_last` are the batch that was acquired first and of which the run is a part: a batch that
    fails again and again is cut by its size.
    """

    first_offset: int
    last_offset: int
    state: DeliveryState
    delivery_count: int
    batch_first: int
    batch_last: int
    member_id: str = NO_MEMBER  # of the member that has acquired the records
    locked_until_ms: int = NEVER_MS
    session: int = 0  # the number of the member's session in which it has them

    @property
    def size(self) -> int:
        return self.last_offset - self.first_offset + 1


class SharePartition(Struct, frozen=True, gc=False):
    """A partition of a topic, as one share group reads it. Kafka: `SharePartition`."""

    start_offset: int
    runs: tuple[Run, ...] = ()
    complete_count: int = 0  # of records in the window that are acknowledged or archived
    state_epoch: int = 0
    leader_epoch: int = 0

    @property
    def end_offset(self) -> int:
        """The first offset that was never acquired."""
        return self.runs[-1].last_offset + 1 if self.runs else self.start_offset

    @property
    def in_flight(self) -> int:
        """The number of records in the window."""
        return self.end_offset - self.start_offset


class Change(Struct, frozen=True, gc=False):
    """What becomes of a share partition, once its update is written. No update: nothing that lasts has changed."""

    partition: SharePartition
    update: StateUpdate | None = None


class Limits(Struct, frozen=True, gc=False):
    """The settings of a group that acquisition goes by."""

    delivery_count_limit: int = 5  # share.delivery.count.limit
    record_locks_max: int = 2_000  # share.partition.max.record.locks
    lock_duration_ms: int = 30_000  # share.record.lock.duration.ms
