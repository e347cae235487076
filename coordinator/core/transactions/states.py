"""The states of a transaction, and which may follow which.

What Kafka calls PrepareEpochFence and Dead are moments inside one of its steps, and a step here is one turn: there is
nothing in between for anybody to see.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class State(IntEnum):
    """Kafka's numbers, which the log keeps."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def kafka_name(self) -> str:
        """Kafka's name: `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """The end is decided and in the log, the markers are not all written yet."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_over(self) -> bool:
        """Nothing is open; the producer may be forgotten, or begin again."""
        return self in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


_BEGINS: Final = frozenset({State.EMPTY, State.ONGOING})

NEXT: Final[Mapping[State, frozenset[State]]] = {
    # KIP-890: an abort with nothing open is a way to raise the epoch, so PrepareAbort follows on states at rest too.
    State.EMPTY: _BEGINS | {State.PREPARE_ABORT},
    State.ONGOING: frozenset({State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: _BEGINS | {State.PREPARE_ABORT},
    State.COMPLETE_ABORT: _BEGINS | {State.PREPARE_ABORT},
}
BY_SHOWN: Final[Mapping[str, State]] = {state.kafka_name: state for state in State}
# What Kafka's ListTransactions knows as well, though nothing is ever seen in them.
NEVER_SEEN: Final = frozenset({"Dead", "PrepareEpochFence"})

assert NEXT.keys() == set(State)
