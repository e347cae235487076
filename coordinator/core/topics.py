"""The topics that exist, as a value. A changed set of topics is another value; lookups are those of a dict."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

NO_ID = bytes(16)  # the zero UUID: no topic has it


class Topic(Struct, frozen=True, gc=False):
    """A topic that exists."""

    name: str
    id: bytes  # 16 bytes
    partitions: int


class Topics(Mapping[str, Topic]):
    """All topics by name, and by id. Never changes; `with_topic` and `without` make another."""

    __slots__ = ("_by_id", "_by_name", "created_version", "get", "version")
    get: Callable[..., Any]  # the dict's own: Mapping's takes ten times as long for a topic that is missing

    def __init__(self, topics: Iterable[Topic] = (), version: int = 0, created_version: int | None = None) -> None:
        self._by_name = {topic.name: topic for topic in topics}
        self.get = self._by_name.get
        self._by_id = {topic.id: topic for topic in self._by_name.values()}
        self.version = version  # greater for each change: what was worked out from topics can say from which
        self.created_version = version if created_version is None else created_version  # of the latest new topic
        assert NO_ID not in self._by_id, "a topic has the zero id"
        assert len(self._by_id) == len(self._by_name), "two topics have one id"

    def __getitem__(self, name: str) -> Topic:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Topics({', '.join(f'{topic.name}:{topic.partitions}' for topic in self._by_name.values())})"

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic of that id, None if there is none."""
        return self._by_id.get(topic_id)

    def id_of(self, name: str) -> bytes:
        """Return the id of a topic, the zero id if there is no such topic."""
        topic = self._by_name.get(name)
        return NO_ID if topic is None else topic.id

    def has_partition(self, name: str, partition: int) -> bool:
        """Return whether there is such a topic with such a partition."""
        topic = self._by_name.get(name)
        return topic is not None and 0 <= partition < topic.partitions

    def with_topic(self, topic: Topic) -> "Topics":
        """These and `topic`, in the place of the one of that name if there is one."""
        others = (other for other in self._by_name.values() if other.name != topic.name)
        created_version = self.created_version if topic.id in self._by_id else self.version + 1
        return Topics((*others, topic), self.version + 1, created_version)

    def without(self, name: str) -> "Topics":
        """These but not `name`."""
        others = (topic for topic in self._by_name.values() if topic.name != name)
        return Topics(others, self.version + 1, self.created_version)
