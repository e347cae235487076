"""What share partitions and share groups ask of the share coordinator. Kafka: `Persister`."""

from typing import Protocol

from coordinator.core.share_state.values import ShareState, StateKey, StateSummary, StateUpdate
from protocol.errors import ErrorCode


class Persister(Protocol):
    """The state of share partitions.

    A call decides at once and gathers its records; what it has returned may be told when the turn's records are in the
    log. While the state is being loaded each returns COORDINATOR_LOAD_IN_PROGRESS, and while no broker coordinates it
    COORDINATOR_NOT_AVAILABLE: `call_when_served` says when to try again.
    """

    def initialize(self, key: StateKey, state_epoch: int, start_offset: int, now_ms: int) -> ErrorCode:
        """Begin the state anew at an offset; NO_OFFSET leaves it to the first fetch."""

    def read(self, key: StateKey, leader_epoch: int, now_ms: int) -> ShareState | ErrorCode:
        """Return the state, and note the leader epoch of who has read it."""

    def write(self, key: StateKey, update: StateUpdate, now_ms: int) -> ErrorCode:
        """Change the state. Fenced by an older leader or state epoch than that of the state."""

    def delete(self, key: StateKey, now_ms: int) -> ErrorCode:
        """Forget the state; NONE as well if there was none."""

    def summary(self, key: StateKey) -> StateSummary | ErrorCode:
        """Return offsets and epochs; those of a new state if there is none."""

    def call_when_served(self, key: StateKey, call: "Retry") -> None:
        """Call once, with the time in milliseconds, when the state is served again."""


class Retry(Protocol):
    def __call__(self, now_ms: int, /) -> None:
        """Try again what was refused."""
