"""What the shard calls: consumer groups, whatever they are asked.

Handlers are functions of the group, the request, the call, the limits (with the group's own settings in them) and the
topics; those that may compute a target also of the assignors, by name. Each returns a `Result` and keeps nothing.
"""

from coordinator.core.consumer.commits import commit_refusal, fetch_refusal
from coordinator.core.consumer.consumer_group_describe import describe, not_found
from coordinator.core.consumer.consumer_group_heartbeat import consumer_group_heartbeat, refused
from coordinator.core.consumer.downgrade import tombstones
from coordinator.core.consumer.fired import fired, loaded
from coordinator.core.consumer.group import ConsumerGroup
from coordinator.core.consumer.heartbeat import heartbeat
from coordinator.core.consumer.join_group import join_group
from coordinator.core.consumer.leave_group import leave_group
from coordinator.core.consumer.replay import KEYS
from coordinator.core.consumer.replay import applied as replay
from coordinator.core.consumer.subscription import topic_names
from coordinator.core.consumer.sync_group import sync_group
from coordinator.core.consumer.turn import group_timers
from coordinator.core.consumer.validation import malformed

__all__ = [
    "KEYS",
    "ConsumerGroup",
    "commit_refusal",
    "consumer_group_heartbeat",
    "describe",
    "fetch_refusal",
    "fired",
    "group_timers",
    "heartbeat",
    "is_subscribed",
    "join_group",
    "leave_group",
    "loaded",
    "malformed",
    "not_found",
    "refused",
    "replay",
    "sync_group",
    "tombstones",
]


def is_subscribed(group: ConsumerGroup, topic: str) -> bool:
    """Whether a member subscribes to the topic, by name or by a pattern that is resolved: its offsets are in use."""
    return topic in group.names or topic in topic_names(group)
