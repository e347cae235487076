"""The whole vocabulary between core and runtime: what a handler is given, and what it returns.

A handler is a function of values: the group as it is, a request, and its environment (`core/env.py`). It returns a
`Result`: the group as it shall be, the records to write, the response, what else is to be done, and what happened. It
waits for nothing, looks at no clock and rolls no dice. So a test is one call, and a bug report is one value.

Groups, the catalog and transactions all use it. Nothing of a `Result` is true before its records have been encoded:
`Shard._finish` and `runtime/engine` encode first and apply then.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.acls.authorizer import Rights
from coordinator.core.acls.names import Operation, Resource
from coordinator.core.decision import Steps
from coordinator.core.events import Event
from coordinator.core.principal import ANONYMOUS, Principal
from coordinator.core.timers import TimerKey

G = TypeVar("G", covariant=True)


class Call(Struct, frozen=True, gc=False):
    """Everything about a request that is not in its body."""

    ticket: int  # a parked request is answered by `Reply(ticket, ...)`
    now_ms: int  # the one clock reading that all requests of a turn share
    version: int
    client_id: str | None
    client_host: str  # as Kafka renders it: `/127.0.0.1`
    fresh_id: Callable[[], str]  # a random UUID, 36 lower-case characters
    principal: Principal = ANONYMOUS  # of the connection when the request was decoded
    listener: str = "PLAINTEXT"  # the name of the listener that the client came by
    rights: Rights | None = None  # what the client may do, where the handler is to ask; None: everything
    connection: int = 0  # the number of the client's connection; 0: of nobody

    def fresh_uuid(self) -> str:
        """Return a random id as Kafka's own type writes it: 22 characters of base 64, and no dash in front."""
        while (text := _in_base_64(self.fresh_id())).startswith("-"):
            pass
        return text

    def may(self, operation: Operation, kind: Resource, name: str) -> bool:
        """Return whether the client may do something with a resource."""
        return self.rights is None or self.rights.may(operation, kind, name)


def _in_base_64(uuid: str) -> str:
    return urlsafe_b64encode(bytes.fromhex(uuid.replace("-", ""))).decode().rstrip("=")


class Reply(Struct, frozen=True, gc=False):
    """Answer a request that was parked earlier."""

    ticket: int
    response: Any


class SetTimer(Struct, frozen=True, gc=False):
    """Fire `key` at `at_ms` instead of at the deadline that it had, if any."""

    key: TimerKey
    at_ms: int
    only_if_absent: bool = False  # a deadline that is set already stays as it is


class CancelTimer(Struct, frozen=True, gc=False):
    """Forget `key`, whether it is set or not."""

    key: TimerKey


class RemoveGroup(Struct, frozen=True, gc=False):
    """The group exists no longer; its records say so as well."""

    group_id: str


class RemoveOffsets(Struct, frozen=True, gc=False):
    """Remove the offsets of a group that exists no longer, in steps: one batch has not the tombstones of all."""

    group_id: str
    at_ms: int


COORDINATOR_EPOCH: Final = 0  # what each marker says of who wrote it: coordinators that move are of one process


class Markers(Struct, frozen=True):
    """Write the end of a transaction into each of its partitions; then the transaction is complete.

    The record that it ends so is among those of the same result, and must be in the log before any marker is: what a
    crash leaves half done is then done again at start.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: tuple[tuple[str, int], ...]  # topic and partition; those of `__consumer_offsets` end offsets


class NewTopic(Struct, frozen=True):
    """A topic that a group needs."""

    name: str
    partitions: int
    replication_factor: int = -1  # -1: the broker's default
    configs: Mapping[str, str] = {}


class CreateTopics(Struct, frozen=True):
    """Create topics in the catalog, after the group's own step. What comes of it is an input of the group:
    `NoteCreatedTopics`."""

    group_id: str
    topics: tuple[NewTopic, ...]
    call: Call  # of the request that needs them


class NoteCreatedTopics(Struct, frozen=True):
    """The outcome of a `CreateTopics`: why topics could not be created, by name."""

    group_id: str
    errors: Mapping[str, str]


class LongTarget(Struct, frozen=True, eq=False):
    """A target assignment that is computed in steps. A group remembers the very one that it waits for."""

    epoch: int  # of the group, for which it is computed
    assignor: str
    by: str  # what found it due
    is_too_large: bool = False  # it was computed, and the log does not take so much at once


class ComputeTarget(Struct, frozen=True):
    """Compute a target assignment in steps, after the group's own step. It is an input of the group: `TakeTarget`."""

    group_id: str
    target: LongTarget
    steps: Steps["ComputedTarget"]  # of the group as it is now
    call: Call  # of the request that finds it due


class ComputedTarget(Struct, frozen=True):
    """What the steps of a target assignment lead to."""

    records: tuple[Any, ...]  # of the members that it changes, encoded
    before: Any  # the group that the steps have started from
    targets: Any  # the table of the members' targets as the records leave it


class TakeTarget(Struct, frozen=True):
    """A target assignment has been computed; None if that failed."""

    group_id: str
    target: LongTarget
    computed: ComputedTarget | None


class BeginShareStates(Struct, frozen=True):
    """Ask the share coordinator to begin the states of share partitions at these offsets.

    The answer is an input of the group: `NoteBegunStates`, or `NoteFailedStates` if one of them could not be begun.
    A `response` of an administrator gets the errors of its partitions.
    """

    group_id: str
    offsets: Mapping[bytes, Mapping[int, int]]  # by topic id and partition
    state_epoch: int
    at_ms: int
    response: Any = None


class EndShareStates(Struct, frozen=True):
    """Ask the share coordinator to forget the states of share partitions, in steps. The answer is `NoteEndedStates`.

    A `response` of an administrator gets an entry for each topic; without one the response is the first error.
    """

    group_id: str
    topics: Mapping[bytes, tuple[int, ...]]  # partitions by topic id
    at_ms: int
    response: Any = None
    forgets: bool = False  # whether an operator's `Forget` goes on when they are gone


class NoteBegunStates(Struct, frozen=True):
    """The states of these partitions have begun."""

    group_id: str
    topics: Mapping[bytes, tuple[int, ...]]  # by topic id


class NoteFailedStates(Struct, frozen=True):
    """The states of these partitions could not be begun."""

    group_id: str
    topics: Mapping[bytes, tuple[int, ...]]


class NoteEndedStates(Struct, frozen=True):
    """The states of these topics are gone."""

    group_id: str
    topics: frozenset[bytes]


class EndAllShareStates(Struct, frozen=True):
    """The group is about to be deleted, and the states of its share partitions go first."""

    group_id: str


Effect = (
    Reply
    | SetTimer
    | CancelTimer
    | RemoveGroup
    | RemoveOffsets
    | Markers
    | CreateTopics
    | ComputeTarget
    | BeginShareStates
    | EndShareStates
)


class Producer(Struct, frozen=True, gc=False):
    """The transactional producer in whose name a batch is written: its offsets are pending until its marker."""

    id: int
    epoch: int


class Result(Struct, Generic[G], frozen=True):
    """The result of one input: of a request, a timer, a change of topics, the end of a transaction.

    `group` is the group as it shall be, None when none is touched. `records` become one atomic batch of the log, plain
    or, with a `producer`, transactional: `Record`s of a group, or `CatalogRecord`s. `response` answers the request at
    hand; None while it is parked under its ticket (and for timers). What an operator asks for `is_forced`: the log
    takes its records, however large they are together.
    """

    group: G | None = None
    response: Any = None
    records: tuple[Any, ...] = ()
    effects: tuple[Effect, ...] = ()
    events: tuple[Event, ...] = ()
    producer: Producer | None = None
    is_forced: bool = False

    def prepend(self, *effects: Effect, events: tuple[Event, ...] = ()) -> "Result[G]":
        """Return the same, but `effects` and `events` come first."""
        if not effects and not events:
            return self
        return replace(self, effects=effects + self.effects, events=events + self.events)

    def with_response(self, response: Any) -> "Result[G]":
        """Return the same result, with `response` for the request at hand."""
        return replace(self, response=response)

    @property
    def replies(self) -> tuple[Reply, ...]:
        """The parked requests that are answered now, in order."""
        return tuple(effect for effect in self.effects if type(effect) is Reply)


Decisions = Iterator[Result[Any]]
"""A request of many entries, decided in steps: each result is made so before the next one is decided, and the last one
has the response. Other requests come between two of them."""

STEP_ENTRIES: Final = 200  # to be decided in one step
