"""The one table of the groups' handlers: by the type of the request, or the name of the timer, and that of the group.

Every handler of a request is a function `(group, request, env) -> Result`, and of a timer `(group, timer, env) ->
Result`. The table is made of what the kinds of groups say of themselves. A request, or a verb, that some kind of
groups has no answer to is found when this module is imported, and not when it first comes.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import NoneType
from typing import Final, TypeVar

from coordinator.core import moves, verbs
from coordinator.core.kinds import registry
from coordinator.core.kinds.classic.kind import CLASSIC
from coordinator.core.kinds.consumer.kind import CONSUMER
from coordinator.core.kinds.kind import Handler, Kind, Late
from coordinator.core.kinds.registry import counts_by as counts_by
from coordinator.core.kinds.share.kind import SHARE
from coordinator.core.kinds.streams.kind import STREAMS
from coordinator.core.moves import LoseCommits, LoseMembers
from coordinator.core.offsets.offset_commit import offset_commit
from coordinator.core.offsets.offset_delete import offset_delete
from coordinator.core.offsets.txn_offset_commit import txn_offset_commit
from coordinator.core.result import (
    EndAllShareStates,
    NoteBegunStates,
    NoteCreatedTopics,
    NoteEndedStates,
    NoteFailedStates,
    TakeTarget,
)
from coordinator.core.timers import EFFECTS
from coordinator.core.verbs import Forget, Rebalance, RemoveMember, SetTarget
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

K = TypeVar("K", bound=Hashable)

OF_EVERY_KIND: Final[Mapping[type, Handler]] = {
    OffsetCommitRequest: offset_commit,
    TxnOffsetCommitRequest: txn_offset_commit,
    OffsetDeleteRequest: offset_delete,
    LoseCommits: moves.lose_commits,
    **dict.fromkeys(
        (NoteCreatedTopics, NoteBegunStates, NoteFailedStates, NoteEndedStates, TakeTarget), verbs.ignore_outcome
    ),
    EndAllShareStates: verbs.end_no_states,
}
"""What groups of all kinds answer alike, and where there is none."""

VERBS: Final[Mapping[type, Handler]] = {
    **dict.fromkeys((RemoveMember, Rebalance, SetTarget, Forget), verbs.refuse_without_group),
    LoseMembers: moves.lose_no_members,
}
"""The verbs that each kind has a handler of its own for, and what they do where there is no group."""


class Incomplete(Exception):  # noqa: N818 - it says what the kinds are
    """Kinds of groups that leave something unsaid, or say it twice."""


class HandlerTable(dict[K, Handler]):
    """Handlers by key. Those that are imported late are replaced by the functions themselves when they are needed."""

    def __init__(self) -> None:
        super().__init__()
        self.planned: Mapping[K, Handler] = {}

    def __missing__(self, key: K) -> Handler:
        handler = self.planned[key]
        self[key] = handler = handler.resolve() if isinstance(handler, Late) else handler
        return handler

    def plan(self, handlers: Mapping[K, Handler]) -> None:
        """Hold these handlers and no others."""
        self.clear()
        self.planned = handlers


HANDLERS: Final[HandlerTable[tuple[type, type]]] = HandlerTable()  # by the types of request and group
TIMERS: Final[HandlerTable[tuple[str, type]]] = HandlerTable()  # by the timer's name and the type of the group


def register(*kinds: Kind) -> None:
    """Add kinds of groups. Raises Incomplete, and adds none, if one of them and another leave something unsaid."""
    all_kinds = {**registry.KINDS, **{kind.name: kind for kind in kinds}}
    handlers = plan_handlers(all_kinds.values())
    registry.KINDS.update(all_kinds)
    registry.index()
    HANDLERS.plan(handlers)
    TIMERS.plan({(name, kind.cls): handler for kind in all_kinds.values() for name, handler in kind.timers.items()})


def withdraw(kind: Kind) -> None:
    """Take a kind away again."""
    del registry.KINDS[kind.name]
    register()


def plan_handlers(kinds: Iterable[Kind]) -> dict[tuple[type, type], Handler]:
    """Return the handler of each request and verb, for each kind of groups and for none. Raises Incomplete."""
    kinds = tuple(kinds)
    handlers: dict[tuple[type, type], Handler] = {
        (request, NoneType): handler for request, handler in (*OF_EVERY_KIND.items(), *VERBS.items())
    }
    for kind in kinds:
        for request, handler in kind.creates.items():
            if (request, NoneType) in handlers:
                raise Incomplete(f"{request.__name__} is a request of two kinds, and one of them is {kind.name}")
            handlers[request, NoneType] = handler
    requests = tuple(request for request, _ in handlers)
    foreign = {request: handler for kind in kinds for request, handler in kind.refuses.items()}
    for kind in kinds:
        found = {**OF_EVERY_KIND, **foreign, **kind.handlers}
        for wrong in _mistakes(kind, kinds, requests, found):
            raise Incomplete(f"{kind.name} groups: {wrong}")
        handlers.update({(request, kind.cls): handler for request, handler in found.items()})
    return handlers


def _mistakes(
    kind: Kind, kinds: tuple[Kind, ...], requests: tuple[type, ...], found: Mapping[type, Handler]
) -> Iterator[str]:
    for request in requests:
        if request not in found or (request in kind.creates and request not in kind.handlers):
            yield f"{request.__name__} has no handler"
    if kind.creates.keys() != kind.refuses.keys():
        yield "a request is answered either where there is no group or where it is of another kind, but not both"
    for request in found.keys() - set(requests):
        yield f"{request.__name__} is no request of any kind where there is no group"
    if not kind.member_timers | kind.long_timers <= kind.timers.keys():
        yield "a timer has no handler"
    if not kind.timers.keys() <= {*EFFECTS, *kind.timer_effects}:
        yield "no words say what a timer does"
    for other in kinds:
        if other is not kind and (other.cls is kind.cls or other.keys.keys() & kind.keys.keys()):
            yield f"a class or a record is that of {other.name} groups as well"


register(CLASSIC, CONSUMER, SHARE, STREAMS)
assert sum(kind.of_offsets is not None for kind in registry.KINDS.values()) == 1, "one kind has groups of mere offsets"
