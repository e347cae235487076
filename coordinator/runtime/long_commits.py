"""Requests about many offsets, decided in parts: other requests are decided in between.

A commit of a hundred thousand partitions takes half a second. Each part of it is a commit of its own to the group, with
its own validation and records, so that a group that changes between two parts refuses those that come later; the same
holds for offsets that are deleted. Offsets
that are fetched are those of the moment at which their part is decided.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.decision import Decision, Done, InSteps, Steps
from coordinator.core.pace import map_in_steps
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

Request = OffsetCommitRequest | OffsetDeleteRequest | TxnOffsetCommitRequest
PART_PARTITIONS: Final = 2_000  # and topics: some ten milliseconds
_PARTITIONS_A_UNIT: Final = 100  # that are copied


def is_long(request: Request) -> bool:
    """Return whether a request is to be decided in parts."""
    topics = request.topics
    count = len(topics)
    for topic in topics:
        count += len(topic.partitions)
    return count > PART_PARTITIONS


def decide_in_parts(request: Request, decide: Callable[[Any], Decision]) -> Steps[Done]:
    """Decide one part in each step, and respond to all of them. An error of the whole request ends it."""
    response: Any = None
    topics = JoinedTopics(is_each_once=type(request) is OffsetCommitRequest)
    for part, goes_on in cut_topics(request):
        yield  # before the first one as well: it took long to read so many
        decision = decide(part)
        outcome = (yield from decision.steps) if type(decision) is InSteps else decision
        assert type(outcome) is Done, "nothing is waited for by a part of a request"
        response = outcome.response
        if getattr(response, "error_code", ErrorCode.NONE):
            return Done(response)
        topics.add(response.topics, goes_on=goes_on)
    return Done(replace(response, topics=(yield from topics.freeze())))


class JoinedTopics:
    """The topics of the responses to all parts, each with its partitions so far."""

    def __init__(self, *, is_each_once: bool = False) -> None:
        """With `is_each_once`, a topic that comes again has more partitions, and else is there again."""
        self._topics: list[tuple[Any, list[Any]]] = []
        self._places: dict[str | bytes, int] = {}  # of each topic, the last
        self._is_each_once = is_each_once

    def add(self, topics: Iterable[Any], *, goes_on: bool) -> None:
        """Add the topics of a part's response. `goes_on`: the first one has more partitions of one that is there.

        That need not be the last one: the response to a part that names a topic twice may have joined the two.
        """
        for topic in topics:
            at, key = len(self._topics), topic.name or getattr(topic, "topic_id", "")
            if goes_on or self._is_each_once:
                at = self._places.get(key, at)
                goes_on = False
            self._places[key] = at
            if at < len(self._topics):
                self._topics[at][1].extend(topic.partitions)
            else:
                self._topics.append((topic, list(topic.partitions)))

    def freeze(self) -> Steps[tuple[Any, ...]]:
        """Return the topics, in steps."""
        frozen = yield from map_in_steps(
            self._topics, lambda one: replace(one[0], partitions=tuple(one[1])), units=_units
        )
        return tuple(frozen)


def _units(topic: tuple[Any, list[Any]]) -> int:
    return 1 + len(topic[1]) // _PARTITIONS_A_UNIT


def cut_topics(request: Any, field: str = "partitions") -> Iterator[tuple[Any, bool]]:
    """Cut a request into requests of at most so many partitions, which its topics have in `field`, and topics.

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
