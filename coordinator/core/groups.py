"""The operations that groups of all types have."""

from typing import Final

from coordinator.core.env import Env
from coordinator.core.events import Cause, Event
from coordinator.core.kinds.classic import durable, voting
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.consumer import subscription
from coordinator.core.kinds.consumer.downgrade import tombstones
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.records import Record

Group = ClassicGroup | ConsumerGroup


def is_subscribed(group: Group, topic: str) -> bool:
    """Return whether a member subscribes to the topic, by name or by a pattern that is resolved: its offsets are in
    use."""
    if isinstance(group, ConsumerGroup):
        return subscription.is_subscribed(group, topic)
    return voting.is_subscribed(group, topic)


DEAD: Final = "Dead"  # Kafka's name for the state after a group, which nobody ever sees


def group_event(group: Group, env: Env, cause: Cause, by: str, *, after: str = "", reason: str = "") -> Event:
    """Return an event of the whole group, which stays in its state unless another is named."""
    is_consumer = isinstance(group, ConsumerGroup)
    return Event(
        at_ms=env.call.now_ms,
        group=group.group_id,
        cause=cause,
        before=group.state.value,
        after=after or group.state.value,
        generation=group.epoch if isinstance(group, ConsumerGroup) else group.generation,
        type="consumer" if is_consumer else "classic",
        members=0 if after == DEAD else len(group.members),
        by=by,
        reason=reason,
    )


def group_tombstones(group: Group) -> tuple[Record, ...]:
    """Return the records that end the group; its offsets have their own."""
    return tombstones(group) if isinstance(group, ConsumerGroup) else (durable.tombstone(group.group_id),)
