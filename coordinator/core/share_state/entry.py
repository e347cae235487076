"""One share partition's state in memory.

An update is kept as it is, and combined with the state when somebody looks, when the next snapshot is written, or when
there are many: to write what became of one record costs the same however many records the state knows of.
"""

from typing import Final

from msgspec.structs import replace

from coordinator.core.share_state.combine import combine_batches
from coordinator.core.share_state.values import ShareState, StateBatch

STATE_BYTES: Final = 640
"""What a state takes in memory beside the id of its group and its batches: with its key, its place in the tables, and
what its group notes of it."""
BATCH_BYTES: Final = 120  # of memory
UNCOMBINED_MAX: Final = 1_000  # batches of updates that wait to be combined, or as many as the state has


class Entry:
    """A share partition's state, with what was written since its latest snapshot."""

    __slots__ = (
        "_is_combined",
        "_state",
        "_uncombined",
        "counted_bytes",
        "leader_epoch",
        "snapshot_offset",
        "state_epoch",
        "updates",
    )  # fmt: skip

    def __init__(self, state: ShareState) -> None:
        self._state = state
        self._uncombined: list[StateBatch] = []
        self._is_combined = True
        self.leader_epoch = state.leader_epoch  # the greatest that was seen
        self.state_epoch = state.state_epoch  # the greatest that was seen
        self.updates = 0  # since the latest snapshot that updates have led to
        self.snapshot_offset = 0  # of the latest snapshot in the log
        self.counted_bytes = 0  # of memory, as its owner has counted them last

    @property
    def bytes(self) -> int:
        """The memory that the state takes beside the id of its group."""
        return STATE_BYTES + BATCH_BYTES * (len(self._state.batches) + len(self._uncombined))

    @property
    def state(self) -> ShareState:
        """The whole state."""
        if not self._is_combined:
            batches = combine_batches((*self._state.batches, *self._uncombined), self._state.start_offset)
            self._state = replace(self._state, batches=batches)
            self._uncombined = []
            self._is_combined = True
        return self._state

    @property
    def head(self) -> ShareState:
        """The state, of which the batches may lack the latest changes."""
        return self._state

    def restart(self, state: ShareState) -> None:
        """Put another state in the place of this one."""
        self._state, self._uncombined, self._is_combined = state, [], True

    def note(self, head: ShareState, batches: tuple[StateBatch, ...]) -> None:
        """Put these batches on top of the state. `head` has the batches that were there before.

        What an earlier start has left out stays out where the start goes back.
        """
        if head.start_offset < self._state.start_offset:
            head = replace(head, batches=self.state.batches)
        self._state = head
        self._uncombined += batches
        self._is_combined = False
        if len(self._uncombined) > max(UNCOMBINED_MAX, len(head.batches)):
            _ = self.state
