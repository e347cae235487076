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
    """All topics by name, and by id. `with_topic` and `without_topic` return another one.

    Whoever has seen topics keeps their version, and not the topics: each change makes all of them anew.
    """

    __slots__ = ("_by_id", "_by_name", "_changed", "_deleted_version", "_names", "created_version", "get", "version")
    get: Callable[..., Any]  # the dict's own: for a missing topic, Mapping's takes ten times as long

    def __init__(
        self,
        topics: Iterable[Topic] = (),
        version: int = 0,
        created_version: int | None = None,
        *,
        changed: Mapping[str, int] | None = None,
        deleted_version: int | None = None,
    ) -> None:
        """`changed` has for each topic the version since which it is what it is, and `deleted_version` is that of the
        latest deletion: without them all may have changed just now, and others have gone."""
        self._by_name = {topic.name: topic for topic in topics}
        self.get = self._by_name.get
        self._by_id = {topic.id: topic for topic in self._by_name.values()}
        self._changed = dict.fromkeys(self._by_name, version) if changed is None else dict(changed)
        self._deleted_version = version if deleted_version is None else deleted_version
        self._names: tuple[str, ...] | None = None  # once they are asked for
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

    @property
    def names(self) -> tuple[str, ...]:
        """All names. They are one tuple, however many groups go through them at a time."""
        if self._names is None:
            self._names = tuple(self._by_name)
        return self._names

    def existing_names(self, names: AbstractSet[str]) -> AbstractSet[str]:
        """Return those of the names that a topic has. Keys of a dict may be very many, if there are few topics."""
        return self._by_name.keys() & names

    def may_have_changed(self, names: AbstractSet[str], since: int) -> bool:
        """Return whether a topic of these names has come or changed since a version, or any topic has gone."""
        if since == self.version:
            return False
        changed = self._changed
        return self._deleted_version > since or any(changed[name] > since for name in changed.keys() & names)

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
        version = self.version + 1
        created_version = self.created_version if topic.id in self._by_id else version
        changed = {**self._changed, topic.name: version}
        return Topics(
            (*others, topic), version, created_version, changed=changed, deleted_version=self._deleted_version
        )

    def without_topic(self, name: str) -> "Topics":
        """Return the topics without `name`."""
        others = (topic for topic in self._by_name.values() if topic.name != name)
        changed = {other: at for other, at in self._changed.items() if other != name}
        version = self.version + 1
        return Topics(others, version, self.created_version, changed=changed, deleted_version=version)
