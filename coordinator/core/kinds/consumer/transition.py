"""An operation on a consumer group while it is worked out."""

from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.modern import transition


class GroupTransition(transition.GroupTransition[ConsumerGroup]):
    """A consumer group, and what the operation has brought about so far."""
