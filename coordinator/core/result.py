"""The whole vocabulary between core and runtime: what a handler is told, and what it answers.

A handler is a function of values: the group as it is, a request, the `Call` it came with. It returns a `Result`: the
group as it shall be, the facts to write, the answer, what else is to be done, and what happened. It waits for nothing,
looks at no clock and rolls no dice. So a test is one call, and a bug report is one value.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.events import Event
from coordinator.core.records import Record
from coordinator.core.timers import TimerKey

G = TypeVar("G", covariant=True)


class Call(Struct, frozen=True, gc=False):
    """Everything about a request that is not in its body."""

    ticket: int  # who waits for the answer; a parked request is answered by `Reply(ticket, ...)`
    now_ms: int  # the one clock reading that all requests of a turn share
    version: int
    client_id: str | None
    client_host: str  # as Kafka renders it: `/127.0.0.1`
    fresh_id: Callable[[], str]  # a random UUID, 36 lower-case characters
    sees: Callable[[str], bool] | None = None  # by its name, whether the client may see a topic; None: all of them


class Reply(Struct, frozen=True, gc=False):
    """Answer a request that was parked earlier."""

    ticket: int
    response: Any


class SetTimer(Struct, frozen=True, gc=False):
    """Fire `key` at `at_ms`; the deadline that it had before is forgotten, unless it is to be kept."""

    key: TimerKey
    at_ms: int
    keep: bool = False  # a deadline that is set already stays as it is


class CancelTimer(Struct, frozen=True, gc=False):
    """Never mind `key`; no matter whether it was set."""

    key: TimerKey


Effect = Reply | SetTimer | CancelTimer


class Producer(Struct, frozen=True, gc=False):
    """The transactional producer in whose name a batch is written: its offsets are pending until its marker."""

    id: int
    epoch: int


class Result(Struct, Generic[G], frozen=True):
    """What a request or a timer leads to.

    `group` is the group as it shall be, None when none is touched. `records` become one atomic batch of the log, plain
    or, with a `producer`, transactional. `response` answers the request at hand; None while it is parked under its
    ticket (and for timers). Of the effects the shard performs the timers itself; the runtime sees the replies.
    """

    group: G | None = None
    response: Any = None
    records: tuple[Record, ...] = ()
    effects: tuple[Effect, ...] = ()
    events: tuple[Event, ...] = ()
    producer: Producer | None = None

    def preceded_by(self, *effects: Effect, events: tuple[Event, ...] = ()) -> "Result[G]":
        """The same, but `effects` and `events` come first."""
        if not effects and not events:
            return self
        return replace(self, effects=effects + self.effects, events=events + self.events)

    def answering(self, response: Any) -> "Result[G]":
        """The same, and the request at hand is answered with `response`."""
        return replace(self, response=response)

    @property
    def replies(self) -> tuple[Reply, ...]:
        """The parked requests that are answered now, in order."""
        return tuple(effect for effect in self.effects if type(effect) is Reply)
