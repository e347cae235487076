"""Requests about many offsets, decided in parts: other requests are decided in between.

A commit of a hundred thousand partitions takes half a second. Each part of it is a commit of its own to the group, with
its own validation and records, so that a group that changes between two parts refuses those that come later. Offsets
that are fetched are those of the moment at which their part is decided.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.decision import Decision, Done, Steps
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

Request = OffsetCommitRequest | TxnOffsetCommitRequest
PART_PARTITIONS: Final = 2_000  # some ten milliseconds


def is_long(request: Request) -> bool:
    """Return whether a commit is to be decided in parts."""
    count = 0
    for topic in request.topics:
        count += len(topic.partitions)
    return count > PART_PARTITIONS


def decide_in_parts(request: Request, decide: Callable[[Any], Decision]) -> Steps[Done]:
    """Decide one part in each step, and respond to all of them."""
    response: Any = None
    topics: list[Any] = []
    for part, goes_on in cut_topics(request):
        yield  # before the first one as well: it took long to read so many
        decision = decide(part)
        assert type(decision) is Done, "a part of a commit is decided at once"
        response = decision.response
        join_topics(topics, response.topics, goes_on=goes_on)
    return Done(replace(response, topics=freeze_topics(topics)))


Topics = list[tuple[Any, list[Any]]]  # each with its partitions so far


def join_topics(topics: Topics, more: Iterable[Any], *, goes_on: bool) -> None:
    """Add the topics of a part's response. `goes_on`: the first one has more partitions of the last one so far."""
    for topic in more:
        if goes_on:
            topics[-1][1].extend(topic.partitions)
            goes_on = False
        else:
            topics.append((topic, list(topic.partitions)))


def freeze_topics(topics: Topics) -> tuple[Any, ...]:
    """Return the topics of all parts, each with all of its partitions."""
    return tuple([replace(topic, partitions=tuple(partitions)) for topic, partitions in topics])


def cut_topics(request: Any, field: str = "partitions") -> Iterator[tuple[Any, bool]]:
    """Cut a request into requests of at most `PART_PARTITIONS` partitions, which its topics have in `field`.

    With each comes whether its first topic goes on from the last one of the part before.
    """
    topics: list[Any] = []
    room, goes_on = PART_PARTITIONS, False
    for topic in request.topics:
        start, partitions = 0, getattr(topic, field)
        while start < len(partitions) or not partitions:
            piece = partitions[start : start + room]
            topics.append(replace(topic, **{field: piece}))
            start, room = start + len(piece), room - (len(piece) or 1)
            if room == 0:
                yield replace(request, topics=tuple(topics)), goes_on
                topics, room, goes_on = [], PART_PARTITIONS, start < len(partitions)
            if not piece:
                break
    if topics or not request.topics:
        yield replace(request, topics=tuple(topics)), goes_on
