"""The topics that a group subscribes to, and whether any of them has changed.

A hash over everything that they are decides whether the group's epoch must rise: a topic that is created, deleted, made
again or grown changes it.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from struct import pack, unpack
from typing import Any, Final, Protocol

from coordinator.core.topics import Topic, Topics

_MAGIC: Final = 0  # of the way in which a topic is hashed


class GroupWithTopics(Protocol):
    """A group whose members name topics, or match them by patterns."""

    @property
    def names(self) -> Mapping[str, int]:
        """How many members subscribe to each topic by name."""

    @property
    def resolved(self) -> Mapping[str, Any]:
        """The patterns with the `topics` that each has matched."""

    @property
    def topics_seen(self) -> int | None:
        """The version of the topics at the last check whether they have changed; None if that is not known."""


def existing_topics(group: GroupWithTopics, topics: Topics) -> AbstractSet[str]:
    """Return the topics that the group subscribes to and that exist. Its members may name many more."""
    found = topics.existing_names(group.names.keys())
    for resolved in group.resolved.values():
        found = found | topics.existing_names(resolved.topics)
    return found


def count_partitions(group: GroupWithTopics, topics: Topics) -> int:
    """Return how many partitions the topics have that the group subscribes to."""
    return sum([topics[name].partitions for name in existing_topics(group, topics)])


def is_subscribed(group: GroupWithTopics, topic: str) -> bool:
    """Return whether a member subscribes to the topic, by name or by a pattern that is resolved."""
    return topic in group.names or any(topic in resolved.topics for resolved in group.resolved.values())


def metadata_hash(group: GroupWithTopics, topics: Topics) -> int:
    """Return a signed 64-bit number that changes with the topics that the group subscribes to; 0 when none of them
    exists."""
    return hash_topics(existing_topics(group, topics), topics)


def hash_topics(names: Iterable[str], topics: Topics) -> int:
    """Return the number for those of these topics that exist; 0 when none does."""
    found = sorted([name for name in names if name in topics])
    if not found:
        return 0
    return _to_signed(b"".join([_topic_hash(topics[name]) for name in found]))


def have_topics_changed(group: GroupWithTopics, topics: Topics) -> bool:
    """Return whether a topic that the group subscribes to may have come, changed or gone since its epoch was held
    against them: then the hash tells.

    Of a group that was made or loaded just now that is not known, and so it may be.
    """
    seen = group.topics_seen
    if seen is None:
        return True
    matched = (resolved.topics for resolved in group.resolved.values())
    return any(topics.may_have_changed(names, seen) for names in (group.names.keys(), *matched))


def topic_bytes(topic: Topic) -> bytes:
    """Return the numbers of a topic that are hashed, in Kafka's order (KIP-1101). Partitions here are in no rack."""
    high, low = unpack(">QQ", topic.id)
    name = topic.name.encode("utf-16-le")
    head = pack("<BQQ", _MAGIC, high, low) + name + pack("<ii", len(name) // 2, topic.partitions)
    return head + pack(f"<{topic.partitions}i", *range(topic.partitions))


@cache
def _find_hash() -> Callable[[bytes], int]:
    from xxhash import xxh3_64_intdigest  # a compiled library, which classic groups do without

    return xxh3_64_intdigest


def _hash(data: bytes) -> int:
    return _find_hash()(data)


@lru_cache(maxsize=1 << 16)
def _topic_hash(topic: Topic) -> bytes:
    return _hash(topic_bytes(topic)).to_bytes(8, "little")


@lru_cache(maxsize=1 << 10)
def _to_signed(data: bytes) -> int:
    unsigned = _hash(data)
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned
