"""Commits of many offsets, decided in parts: other requests are decided in between.

A commit of a hundred thousand partitions takes half a second. Each part of it is a commit of its own to the group, with
its own validation and records, so that a group that changes between two parts refuses those that come later.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

from msgspec.structs import replace

from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

Request = OffsetCommitRequest | TxnOffsetCommitRequest
PART_PARTITIONS: Final = 2_000  # some ten milliseconds


def is_long(request: Request) -> bool:
    """Return whether a commit is to be decided in parts."""
    return sum([len(topic.partitions) for topic in request.topics]) > PART_PARTITIONS


def decide_in_parts(request: Request, decide: Callable[[Any], Any]) -> Generator[None, None, Any]:
    """Decide one part in each step, and return the response to all of them."""
    response: Any = None
    topics: list[Any] = []
    for part, goes_on in _parts(request):
        if response is not None:
            yield
        response = decide(part)
        first, *others = response.topics
        if goes_on:
            first = replace(first, partitions=topics.pop().partitions + first.partitions)
        topics += (first, *others)
    return replace(response, topics=tuple(topics))


def _parts(request: Any) -> Iterator[tuple[Any, bool]]:
    """Cut a commit into commits of at most `PART_PARTITIONS` partitions.

    With each comes whether its first topic goes on from the last one of the part before.
    """
    topics: list[Any] = []
    room, goes_on = PART_PARTITIONS, False
    for topic in request.topics:
        start = 0
        while start < len(topic.partitions) or not topic.partitions:
            piece = topic.partitions[start : start + room]
            topics.append(replace(topic, partitions=piece))
            start, room = start + len(piece), room - len(piece)
            if room == 0:
                yield replace(request, topics=tuple(topics)), goes_on
                topics, room, goes_on = [], PART_PARTITIONS, start < len(topic.partitions)
            if not piece:
                break
    if topics:
        yield replace(request, topics=tuple(topics)), goes_on
