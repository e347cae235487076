"""The names of topics as Kafka's metrics spell them. A new topic that could not be told from another one is refused.

Topics of one request are compared with those that are there, and not with each other, as in Kafka: so several topics
may have one such name.

Shown by tests/core/catalog/test_topic_lives.py.
"""

from coordinator.core.catalog.names import metric_name
from coordinator.core.decision import Steps
from coordinator.core.pace import empty_in_steps


class MetricNames:
    """The topics that exist, by their names in metrics. Kafka: `ReplicationControlManager.topicsWithCollisionChars`."""

    def __init__(self) -> None:
        self._topics: dict[str, str | dict[str, None]] = {}  # nearly always one: tables would take more memory

    def add(self, topic: str) -> None:
        """Add a topic, which may be there already."""
        name = metric_name(topic)
        known = self._topics.setdefault(name, topic)
        if isinstance(known, dict):
            known[topic] = None
        elif known != topic:
            self._topics[name] = {known: None, topic: None}

    def remove(self, topic: str) -> None:
        """Remove a topic, if it is there. Others of the same name stay."""
        name = metric_name(topic)
        known = self._topics.get(name)
        if isinstance(known, dict):
            known.pop(topic, None)
        if known == topic or not known:
            self._topics.pop(name, None)

    def find(self, name: str) -> str | None:
        """Return a topic that is called in metrics as one of this name would be, None if there is none."""
        known = self._topics.get(metric_name(name))
        return next(iter(known)) if isinstance(known, dict) else known

    def forget(self) -> Steps[None]:
        """Forget all topics, in steps."""
        return empty_in_steps(self._topics)
