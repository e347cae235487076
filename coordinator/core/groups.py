"""The operations that groups of all types have."""

from coordinator.core.classic import durable, voting
from coordinator.core.classic.group import ClassicGroup
from coordinator.core.consumer.downgrade import tombstones
from coordinator.core.consumer.group import ConsumerGroup
from coordinator.core.consumer.subscription import topic_names
from coordinator.core.records import Record

Group = ClassicGroup | ConsumerGroup


def is_subscribed(group: Group, topic: str) -> bool:
    """Return whether a member subscribes to the topic, by name or by a pattern that is resolved: its offsets are in
    use."""
    if isinstance(group, ConsumerGroup):
        return topic in group.names or topic in topic_names(group)
    return voting.is_subscribed(group, topic)


def group_tombstones(group: Group) -> tuple[Record, ...]:
    """Return the records that end the group; its offsets have their own."""
    return tombstones(group) if isinstance(group, ConsumerGroup) else (durable.tombstone(group.group_id),)
