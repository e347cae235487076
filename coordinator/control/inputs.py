"""The inputs of a node besides requests: with them, and with its origin, a journal can be replayed.

A node decides by what it is given and by nothing else: requests, timers that fire, verbs, clients that leave, readings
of the real clock. A journal that has kept all of them since the node was opened leads another node to the same
responses and the same logs. The requests are the journal's entries; the rest is here, in the order in which the node
was given it.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from coordinator.core.moves import BrokerVerb, MoveGroup, MoveTransaction, StartBroker, StopBroker
from coordinator.core.share_partitions.operate import ChangeRecords
from coordinator.core.verbs import Forget, Rebalance, RemoveMember, SetTarget, Verb

INPUT_BYTES: Final = 160  # of memory that an input takes
PARTITIONS_MAX: Final = 10_000  # of a topic of the start


class Kind(StrEnum):
    """The kinds of inputs, each with the value that it comes with."""

    LOAD = "load"  # the partitions are loaded; the time
    FIRE = "fire"  # timers are due; the time
    REAL = "real"  # the real clock was read; what it showed, in ms
    REPLIES = "replies"  # parked requests may be answered
    STEP = "step"  # one step of a long request; which, and how many checkpoints it has passed
    FORGET = "forget"  # the client of a parked request has left; the ticket
    DISCONNECT = "disconnect"  # the connection of share sessions is lost; its number
    TIME = "time"  # what the coordinator's clock shows, for share groups
    HELD = "held"  # responses that clients do not take; their bytes
    FLUSH = "flush"  # the turn ends
    SYNC = "sync"  # with --fsync: what was gathered is appended, and a sync of it begins
    SYNCED = "synced"  # it is over
    VERB = "verb"  # an operator's verb for a group or a broker; its name, its fields and the time
    ASK = "ask"  # a request of the operator's own; its frame and the time
    ADVANCE = "advance"  # the clock is about to be moved; how far at most, and whose sessions were renewed on the way
    ADVANCED = "advanced"  # it was; the time
    RETAIN = "retain"  # records are deleted by their age; the time
    RETAIN_STEP = "retain_step"  # it goes on
    FINISH = "finish"  # ends of transactions are written that could not be before; the time
    EXPIRE_IDS = "expire_ids"  # transactional ids that nobody uses are forgotten; the time
    PRUNE = "prune"  # records of share partitions' states are deleted that nobody needs; the time


BARE: Final = frozenset({Kind.REPLIES, Kind.FLUSH, Kind.SYNC, Kind.SYNCED, Kind.RETAIN_STEP})
"""The kinds that come without a value. Of the others all but STEP, VERB, ASK and ADVANCE come with a number."""

NoteInput = Callable[[Kind, Any], None]


class Input(Struct, gc=False):
    """One input. It came after the request with the number `after`, and before the next one."""

    after: int
    kind: Kind
    value: Any


class AdvertisedListener(Struct, frozen=True):
    """A listener as clients are told of it."""

    name: str
    node_id: int
    host: str
    port: int


class Origin(Struct, frozen=True):
    """The beginning of a node: what another one needs to begin as it did."""

    opened_ms: int  # the coordinator's clock when it was opened
    seed: int | None  # of random ids
    ids: int  # how many ids had been made from the seed before
    is_empty: bool  # whether it began without logs
    compat: str
    settings: Mapping[str, Any]  # those that were given
    topics: Mapping[str, Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)]]  # of the start
    listeners: tuple[AdvertisedListener, ...]
    is_synced: bool = False  # whether responses wait for the disk
    cluster_id: str = ""  # that it was given, "" if it has made one
    producer_ids: int = 0  # how many were given out before

    @property
    def obstacle(self) -> str:
        """Why no other node can begin like this one, as a sentence; empty if one can."""
        if self.seed is None:
            return "the server makes its ids at random: start it with --seed"
        if not self.is_empty:
            return "the server has begun with logs: start it with an empty data directory, or reset it"
        return ""


class VerbInput(Struct, frozen=True):
    """A verb for a group or a broker, as it is written in a file."""

    name: str
    fields: Any
    now_ms: int

    @classmethod
    def of(cls, verb: Verb | BrokerVerb | ChangeRecords, now_ms: int) -> "VerbInput":
        """Return the form of a verb in a file."""
        return cls(type(verb).__name__, verb, now_ms)


class AskInput(Struct, frozen=True):
    """A request of the operator's own."""

    frame: bytes
    now_ms: int
    ticket: int = 0  # by which its further steps are known, if it may have some


class StepInput(Struct):
    """A step of a long request, which is noted as it begins. Work that no client waits for has tickets below 0."""

    ticket: int
    checkpoints: int = 0


class AdvanceInput(Struct):
    """A move of the clock: `renewed` has whether each session that was looked at was renewed, in order."""

    target_ms: int
    renewed: list[bool] = []


_OF_GROUPS: Final = (RemoveMember, Rebalance, SetTarget, Forget)
_OF_BROKERS: Final = (MoveGroup, MoveTransaction, StopBroker, StartBroker)
VERBS: Final[Mapping[str, type[Verb | BrokerVerb | ChangeRecords]]] = {
    kind.__name__: kind for kind in (*_OF_GROUPS, *_OF_BROKERS, ChangeRecords)
}
