"""The topics that exist, as an immutable mapping."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec import Struct

NO_ID = bytes(16)  # the zero UUID: no topic has it


class Topic(Struct, frozen=True, gc=False):
    """A topic that exists."""

    name: str
    id: bytes  # 16 bytes
    partitions: int


class Topics(Mapping[str, Topic]):
    """All topics by name, and by id. `with_topic` and `without_topic` return another one."""

    __slots__ = ("_by_id", "_by_name", "created_version", "get", "version")
    get: Callable[..., Any]  # the dict's own: for a missing topic, Mapping's takes ten times as long

    def __init__(self, topics: Iterable[Topic] = (), version: int = 0, created_version: int | None = None) -> None:
        self._by_name = {topic.name: topic for topic in topics}
        self.get = self._by_name.get
        self._by_id = {topic.id: topic for topic in self._by_name.values()}
        self.version = version  # greater after each change: results that are kept say from which version they are
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

    def existing_names(self, names: AbstractSet[str]) -> AbstractSet[str]:
        """Return those of the names that a topic has. Keys of a dict may be very many, if there are few topics."""
        return self._by_name.keys() & names

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with this id, None if there is none."""
        return self._by_id.get(topic_id)

    def id_of(self, name: str) -> bytes:
        """Return the id of a topic, the zero id if the topic does not exist."""
        topic = self._by_name.get(name)
        return NO_ID if topic is None else topic.id

    def has_partition(self, name: str, partition: int) -> bool:
        """Return whether the topic exists and has this partition."""
        topic = self._by_name.get(name)
        return topic is not None and 0 <= partition < topic.partitions

    def with_topic(self, topic: Topic) -> "Topics":
        """Return the topics with `topic` added, or in the place of the topic with the same name."""
        others = (other for other in self._by_name.values() if other.name != topic.name)
        created_version = self.created_version if topic.id in self._by_id else self.version + 1
        return Topics((*others, topic), self.version + 1, created_version)

    def without_topic(self, name: str) -> "Topics":
        """Return the topics without `name`."""
        others = (topic for topic in self._by_name.values() if topic.name != name)
        return Topics(others, self.version + 1, self.created_version)
