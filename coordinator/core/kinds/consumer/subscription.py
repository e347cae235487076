"""The topics that each member of a consumer group subscribes to. Members name topics, patterns match them."""

from collections.abc import Iterable

from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.topics import Topics


def member_topics(group: ConsumerGroup, member: Member) -> Iterable[str]:
    """Return the topics that one member subscribes to. A pattern that is not resolved yet stands for none."""
    if not member.pattern:
        return member.names
    matched = group.topics_matching(member.pattern)
    return sorted(matched.union(member.names)) if member.names else sorted(matched)


def topic_ids(group: ConsumerGroup, member: Member, topics: Topics) -> tuple[bytes, ...]:
    """Return the ids of those of them that exist."""
    found = (topics.get(name) for name in member_topics(group, member))
    return tuple(topic.id for topic in found if topic is not None)


def is_homogeneous(group: ConsumerGroup) -> bool:
    """Return whether everybody subscribes to the same: all by name, or all by one and the same pattern (K-112)."""
    members = len(group.members)
    if not group.patterns:
        return all(count == members for count in group.names.values())
    # With a pattern for everybody and nothing by name, each topic has that one source.
    return not group.names and len(group.patterns) == 1 and next(iter(group.patterns.values())) == members
