"""What a kind of groups is, as a value: all that the rest of the server asks about a group beside its attributes.

A kind is a folder beside this file. Its `kind.py` makes one `Kind`, which `core/dispatch.py` registers. Nobody else
names a kind, or tests what type a group has.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from importlib import import_module
from typing import Any, Protocol

from msgspec import Struct

from coordinator.core.env import Env
from coordinator.core.group_view import MemberView
from coordinator.core.limits import Limits
from coordinator.core.records import OffsetCommitValue, Record
from coordinator.core.result import Effect, Result
from coordinator.core.table import Table
from coordinator.core.timers import TimerKey
from coordinator.core.topics import Topics
from coordinator.core.weights import weigh_change
from protocol.errors import ErrorCode

Handler = Callable[[Any, Any, Env], Result[Any]]
"""Decides a request, a verb or a timer: (group, request, env)."""
Apply = Callable[[Any, Record], Any]
"""Applies a record: (group or None, record) -> group or None."""
Since = Callable[[OffsetCommitValue], int]
"""From when on an offset's time runs."""


class Inconsistent(Exception):  # noqa: N818 - it says what the records are
    """Records that contradict each other: only a damaged log has them, and its shard cannot be loaded."""


class Member(Protocol):
    """The attributes that members of groups of all kinds have."""

    @property
    def member_id(self) -> str: ...
    @property
    def instance_id(self) -> str | None: ...
    @property
    def client_id(self) -> str: ...


class Group(Protocol):
    """The attributes that groups of all kinds have. They are frozen Structs."""

    @property
    def group_id(self) -> str: ...
    @property
    def state(self) -> StrEnum: ...
    @property
    def members(self) -> Table[str, Any]: ...
    @property
    def is_empty(self) -> bool: ...
    @property
    def departed(self) -> tuple[str, ...]:
        """Members that the last step has removed or replaced: their timers go with them."""

    def has_member(self, member_id: str) -> bool:
        """Return whether a member has this id, or may come with it, and so may have timers."""


class Late(Struct, frozen=True):
    """A function that is imported when it is first needed: a server without such groups does without its module."""

    module: str
    name: str

    def resolve(self) -> Any:
        """Return the function itself."""
        return getattr(import_module(self.module), self.name)

    def __call__(self, *arguments: Any) -> Any:
        return self.resolve()(*arguments)


def late(module: str, name: str = "") -> Any:
    """Return a stand-in for a function of that module: the one with the module's own name, unless another is named."""
    return Late(module, name or module.rpartition(".")[2])


def _none(*arguments: Any) -> tuple[()]:
    return ()


class Description(Struct, frozen=True):
    """The API by which clients describe groups of a kind."""

    api: str
    ids: str  # the field of the request that has the ids of the groups
    response: type
    entry: type  # of the response: one group, with `group_id` and `error_code`
    describe: Callable[[Group | None, str, Env], Any]
    """Returns the entry: (group, group id, env). The group is one of any kind, or None."""


class Kind(Struct, frozen=True, kw_only=True):
    """A kind of groups."""

    name: str  # Kafka's type of the group
    cls: type
    counts_by: str  # the attribute that counts its rebalances: "generation" or "epoch"; a word for people too
    states: type[StrEnum]  # by Kafka's names; Dead is never seen
    settled: frozenset[str]  # the states in which nothing is under way
    protocol_type: Callable[[Any], str]
    is_optional: bool = False  # whether `group.coordinator.rebalance.protocols` may switch it off

    # decide
    handlers: Mapping[type, Handler]  # what is asked of such a group: requests, and each of the operator's verbs
    creates: Mapping[type, Handler]  # the requests that are this kind's own, where there is no group
    refuses: Mapping[type, Handler]  # the same requests, where the group is of a kind that has no handler for them
    grows: Mapping[type, Callable[[Any, Any], bool]] = {}
    """Whether a request makes members take more memory: (request, group or None). Where there is no room for members,
    such a request is refused, and what keeps a group going is not."""
    weigh_change: Callable[[Any, Any], int] = partial(weigh_change, names=("members", "targets"))
    """How many bytes more of memory that clients choose a group takes after its first value became the second one.
    Either may be None."""
    malformed: Mapping[type, Callable[[Any, int, Limits], Any]] = {}
    """Responses to requests that are refused whether their group is served or not: (request, version, limits)."""
    too_large: Mapping[type | str, Handler] = {}
    """Handlers for records that are larger than the log takes, by the type of the request or by the first item of the
    timer's key. Without one the request is refused, or the timer tries again."""
    timers: Mapping[str, Handler]  # by the first item of the key
    member_timers: frozenset[str]  # those of members
    long_timers: frozenset[str] = frozenset()  # those that do a step of much work
    timer_effects: Mapping[str, str] = {}  # what they do, in words, where `core/timers.py` has none for the name
    ended_timers: Callable[[Any, Any], Iterable[TimerKey]] = _none
    """The timers of a group that end when its first value becomes the second one."""

    # remember
    keys: Mapping[type, Apply]  # by the type of the record's key
    group_id: Callable[[Any], str] = lambda key: str(key.group_id)  # of a key
    tombstones: Callable[[Any], tuple[Record, ...]]  # that end a group; its offsets have their own
    of_offsets: Callable[[str], Any] | None = None  # makes the group that a mere offset makes exist; one kind has it
    gives_way: Callable[[Any], bool] = _none  # type: ignore[assignment]  # nothing is a no
    """Whether a group may be replaced by records of another kind, without its own tombstones."""

    # states of share partitions
    has_share_states: bool = False  # whether `EndAllShareStates` comes before a group is deleted
    without_topics: Callable[[Any, frozenset[bytes], Env], Result[Any]] | None = None
    """Forgets topics that are no more: (group, topic ids, env)."""

    # begin and end
    restart: Callable[[Any, Env], Result[Any]]  # after the log was read
    unload: Callable[[Any, Env, str], Result[Any]]  # before another broker takes over, for a reason
    session_timeout_ms: Callable[[Any, str, Limits], int]  # of a member
    repeats_heartbeats: bool = False  # a Heartbeat that comes again does the same again, until the group changes

    # offsets
    expires_since: Callable[[Any], Since | None] | None
    """From when on the time of a group's offsets runs; returns None while it does not. If it is None itself, neither
    offsets nor groups expire."""
    is_subscribed: Callable[[Any, str], bool]  # whether the topic's offsets are in use
    validate_commit: Callable[[Any, Any, Env], ErrorCode]  # of OffsetCommit and TxnOffsetCommit
    validate_fetch: Callable[[Any, str | None, int], ErrorCode]  # by member id and epoch
    validate_delete_offsets: Callable[[Any], ErrorCode]
    renew_by_commit: Callable[[Any, str, int], tuple[Effect, ...]] = _none  # (group, member id, now)

    # show
    description: Description
    assignor: Callable[[Any], str] = lambda group: ""  # or the protocol that its members have chosen
    view: Callable[[Any, Topics], list[MemberView]]
    problem: Callable[[Any], str] = lambda group: ""  # what keeps the group from being assigned anything
    find_fence: Callable[[Any, str], tuple[str, ErrorCode]]
    """By which API a member shows that it is there, and the error that tells it there that it is fenced: (group, member
    id)."""

    def count(self, group: Any) -> int:
        """Return how often the group has rebalanced: its generation, or its epoch."""
        counted: int = getattr(group, self.counts_by)
        return counted

    @property
    def seen_states(self) -> tuple[str, ...]:
        """The states in which a group can be seen."""
        return tuple(str(state) for state in self.states if state != DEAD)


DEAD = "Dead"  # Kafka's name for the state after a group
