"""The subject of a request: the fields by which a journal is filtered and a fault is aimed, the same for every API."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

GROUP_FIELDS: Final = ("group_id", "groups", "group_ids", "groups_names")
GENERATION_FIELDS: Final = ("generation_id", "generation_id_or_member_epoch", "member_epoch")
TOPIC_LISTS: Final = (
    "topics", "topic_data", "topic_names", "topic_partitions", "subscribed_topic_names", "v3_and_below_topics",
)  # fmt: skip
TOPIC_HOLDERS: Final = ("groups", "transactions", "dirs", "markers")  # lists whose entries have lists of topics
TOPIC_FIELDS: Final = ("name", "topic", "topic_name")


class Subject(Struct, frozen=True, gc=False):
    """The names in a request. A field that the request lacks is empty, or None."""

    api: str  # Kafka's name of the API
    client_id: str
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    generation: int | None = None  # or the member epoch


TopicNames = Callable[[bytes], str | None]


def subject_of(api: str, client_id: str | None, body: Any, name_of: TopicNames = lambda _: None) -> Subject:
    """Return the subject of a decoded request. `name_of` returns the name of a topic by its id."""
    parts = (body, *_items(body, "members", "groups"))
    return Subject(
        api=api,
        client_id=client_id or "",
        groups=tuple(_find_groups(body)),
        topics=tuple(dict.fromkeys(_find_topics(body, name_of))),
        members=tuple(_find_texts(parts, "member_id")),
        instances=tuple(_find_texts(parts, "group_instance_id", "instance_id")),
        generation=_find_generation(parts),
    )


def _find_generation(parts: Iterable[Any]) -> int | None:
    for part in parts:
        for name in GENERATION_FIELDS:
            value: int | None = getattr(part, name, None)
            if value is not None:
                return value
    return None


def _find_groups(body: Any) -> Iterator[str]:
    for name in GROUP_FIELDS:
        value = getattr(body, name, None)
        if isinstance(value, str):
            value = (value,) if value else ()  # from version 8 on OffsetFetch names its groups in a list instead
        for item in value or ():
            yield item if isinstance(item, str) else item.group_id
    if getattr(body, "key_type", None) == 0:  # FindCoordinator for a group
        yield from filter(None, (body.key, *body.coordinator_keys))


def _find_topics(body: Any, name_of: TopicNames) -> Iterator[str]:
    for part in (body, *_items(body, *TOPIC_HOLDERS)):
        for item in _items(part, *TOPIC_LISTS):
            name = item if isinstance(item, str) else next(_find_texts((item,), *TOPIC_FIELDS), None)
            if not name and isinstance(topic_id := getattr(item, "topic_id", None), bytes):
                name = name_of(topic_id)
            if name:
                yield name


def _items(body: Any, *names: str) -> Iterator[Any]:
    """Yield the entries of the lists of these names."""
    for name in names:
        value = getattr(body, name, None)
        if isinstance(value, tuple):
            yield from value


def _find_texts(parts: Iterable[Any], *names: str) -> Iterator[str]:
    for part in parts:
        for name in names:
            text = getattr(part, name, None)
            if isinstance(text, str) and text:
                yield text
