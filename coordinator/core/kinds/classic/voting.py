"""Choose the protocol of a generation, and find the topics that its members subscribe to.

Shown by tests/core/scripts/classic/{protocol_vote,subscription_unknown}.txt and
tests/conformance/stories/classic_join.py.
"""

from typing import Final

from coordinator.core.assignors.hash_order import members_in_order
from coordinator.core.kinds.classic.group import ClassicGroup
from protocol import codec
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import SUBSCRIPTION
from protocol.schema import Schema

NAMES_MAX: Final = 100_000
"""Of topics that the members of a group subscribe to: to read them takes some ten milliseconds, at each rebalance."""
_VERSION_BYTES: Final = 2
_BEHIND_TOPICS: Final = Schema(SUBSCRIPTION.cls, SUBSCRIPTION.fields[1:])

CONSUMER = "consumer"  # the protocol type of consumers; Connect and others have types of their own, which are opaque


def choose_protocol(group: ClassicGroup) -> str:
    """Return the protocol with the most votes: each member votes for the first of its own that all members offer.

    Of several with as many votes Kafka takes the one that comes first in its hash map.
    """
    everybody = len(group.members)
    candidates = {name for name, count in group.supports.items() if count == everybody}
    assert candidates, f"group {group.group_id}: no protocol for all, though each joiner was checked"
    if len(candidates) == 1:
        return candidates.pop()
    votes: dict[str, int] = {}
    for member in group.members.values():
        vote = next(name for name, _ in member.protocols if name in candidates)
        votes[vote] = votes.get(vote, 0) + 1
    return max(members_in_order(votes), key=votes.__getitem__)


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """Return the topics that any member wants; None when that is not known.

    Only consumers' metadata is looked into, and of it only the fields of version 0, which all versions begin with. What
    cannot be read makes the whole not known, and never fails a request. So do more than `NAMES_MAX` names; those of a
    member that names the same topics as the one before it do not count, and are not read.
    """
    if group.protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    read, names = 0, b""
    try:
        for metadata in dict.fromkeys([member.metadata(group.protocol) for member in group.members.values()]):
            if names and metadata.startswith(names, _VERSION_BYTES):
                codec.read(_BEHIND_TOPICS, metadata[_VERSION_BYTES + len(names) :], 0)
                continue
            found = _topics(metadata)
            read += len(found)
            if read > NAMES_MAX:
                return None
            topics.update(found)
            names = metadata[_VERSION_BYTES:][: 4 + sum([2 + len(name.encode()) for name in found])]
    except ProtocolError:
        return None
    return frozenset(topics)


def is_subscribed(group: ClassicGroup, topic: str) -> bool:
    """Return whether the topic's offsets are in use. Members of whom it is not known may want anything."""
    return group.protocol_type == CONSUMER if group.topics is None else topic in group.topics


def _topics(metadata: bytes) -> tuple[str, ...]:
    if len(metadata) < _VERSION_BYTES:
        raise ProtocolError("no version in front of a subscription")
    topics: tuple[str, ...] = codec.read(SUBSCRIPTION, metadata[_VERSION_BYTES:], 0).topics
    return topics
