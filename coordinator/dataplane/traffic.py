"""Records and bytes in and out by topic, since the start. For operators only."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from storage.file_range import FileRange
from storage.segment import count_records

TOPICS_MAX: Final = 100  # topics that are counted by name
OTHER: Final = "other"  # the rest


class Traffic(Struct):
    """Of one topic. Bytes are those of the batches as they are in the log, most often compressed."""

    records_in: int = 0
    bytes_in: int = 0
    records_out: int = 0
    bytes_out: int = 0


class TrafficByTopic:
    """The first TOPICS_MAX topics by name, the others together."""

    def __init__(self) -> None:
        self.topics: dict[str, Traffic] = {}

    def count_in(self, topic: str, records: int, size: int) -> None:
        """Count a batch that was appended."""
        traffic = self._of(topic)
        traffic.records_in += records
        traffic.bytes_in += size

    def count_out(self, topic: str, batches: bytes | FileRange) -> None:
        """Count the batches of a Fetch response."""
        traffic = self._of(topic)
        traffic.records_out += count_records(batches)
        traffic.bytes_out += len(batches)

    def forget(self, topics: Iterable[str]) -> None:
        """Forget topics that are no more: others are counted by name in their place. Kafka:
        `BrokerTopicStats.removeMetrics`."""
        for topic in topics:
            self.topics.pop(topic, None)

    def _of(self, topic: str) -> Traffic:
        found = self.topics.get(topic)
        if found is None:
            name = topic if len(self.topics) - (OTHER in self.topics) < TOPICS_MAX else OTHER
            found = self.topics.get(name)
            if found is None:
                found = self.topics[name] = Traffic()
        return found
