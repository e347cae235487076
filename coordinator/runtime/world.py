"""What a node's inputs change, and what the parts of the runtime share. Each of them has it, and none has its owner."""

from typing import TypeAlias

from coordinator.config import Config
from coordinator.control.inputs import NoteInput
from coordinator.core.decision import Done, Silent
from coordinator.core.timers import AdvanceLike
from coordinator.dataplane.dataplane import DataPlane
from coordinator.runtime.coordinators import Coordinators
from coordinator.runtime.edge import Edge
from coordinator.runtime.gathering import Gathering
from coordinator.runtime.ledger import Ledger
from coordinator.runtime.partition import Partition
from coordinator.runtime.partitions import Partitions

Replies: TypeAlias = list[tuple[int, Done | Silent]]
"""What comes of parked requests, by their tickets."""


class World:
    """The ledger, the groups' partitions and who coordinates them, and topics' records."""

    def __init__(self, config: Config, ledger: Ledger, *, is_synced: bool) -> None:
        """Without `is_synced` nothing waits for the disk."""
        self.config = config
        self.ledger = ledger
        self.is_synced = is_synced
        self.edge = Edge()
        self.gathering = Gathering()
        self.note_input: NoteInput | None = None  # of a journal that may be replayed
        self.dirty: dict[Partition, None] = {}  # partitions that have something to append
        self.advance: AdvanceLike | None = None  # while an operator moves the clock
        self.partitions = Partitions(0, _no_partition)
        self.coordinators = Coordinators(config.node_ids, 0)
        self.dataplane: DataPlane  # once it is open

    def set_note_input(self, note_input: NoteInput | None) -> None:
        """Note inputs from now on, or no longer."""
        self.note_input = note_input

    def take_dirty(self) -> dict[Partition, None]:
        """Return the partitions that have something to append, which is appended now."""
        dirty, self.dirty = self.dirty, {}
        return dirty

    def set_advance(self, move: AdvanceLike | None) -> None:
        """Ask a move of the clock about the timers that fire from now on, or none."""
        self.advance = move

    def open(self, partitions: Partitions, coordinators: Coordinators, dataplane: DataPlane) -> None:
        """Have what the catalog says that there is."""
        self.partitions, self.coordinators, self.dataplane = partitions, coordinators, dataplane


def _no_partition(index: int) -> Partition:
    raise AssertionError("the node is not open")
