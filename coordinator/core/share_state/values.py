"""The state of a share partition: from which offset on records are delivered, and what became of those behind it.

    start offset ──► records in batches, each with its delivery state and count ──► records that nobody has acquired yet

A record that is not in a batch is available, and was never delivered. A record that a member has acquired is in no log:
after a crash it is available again.
"""

from enum import IntEnum
from typing import Final

from msgspec import Struct

from protocol.schema import Message

NO_OFFSET: Final = -1  # not decided yet, or not changed
UNKNOWN_COUNT: Final = -1  # of completed deliveries
UNCHECKED_EPOCH: Final = -1  # a leader or state epoch that is given so is not compared
FIRST_EPOCH: Final = 0


class DeliveryState(IntEnum):
    """What became of a record. Kafka: `RecordState`."""

    AVAILABLE = 0
    ACQUIRED = 1  # never written
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class StateKey(Struct, frozen=True, gc=False):
    """A share partition: a partition of a topic, as one share group reads it."""

    group_id: str
    topic_id: bytes
    partition: int


class StateBatch(Message, frozen=True, gc=False):
    """Records that follow each other and have the same delivery state and count."""

    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0


class ShareState(Struct, frozen=True, gc=False):
    """The state of a share partition. Kafka: `ShareGroupOffset`."""

    state_epoch: int = FIRST_EPOCH  # raised when an administrator alters the offsets
    leader_epoch: int = FIRST_EPOCH  # of the partition's leader that has last read the state
    start_offset: int = NO_OFFSET  # NO_OFFSET: the first fetch decides, by `share.auto.offset.reset`
    delivery_complete_count: int = UNKNOWN_COUNT  # of records from the start offset on
    batches: tuple[StateBatch, ...] = ()
    snapshot_epoch: int = FIRST_EPOCH
    create_timestamp: int = 0
    write_timestamp: int = 0  # later than `create_timestamp`: a snapshot of what had not changed for long


class StateUpdate(Struct, frozen=True, gc=False):
    """What a share partition has changed of its state. NO_OFFSET leaves the start offset as it is."""

    state_epoch: int
    leader_epoch: int
    start_offset: int = NO_OFFSET
    delivery_complete_count: int = UNKNOWN_COUNT
    batches: tuple[StateBatch, ...] = ()


class StateSummary(Struct, frozen=True, gc=False):
    """The state of a share partition without its batches."""

    state_epoch: int = FIRST_EPOCH
    leader_epoch: int = FIRST_EPOCH
    start_offset: int = NO_OFFSET
    delivery_complete_count: int = UNKNOWN_COUNT
