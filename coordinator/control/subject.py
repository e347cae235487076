"""The subject of a request: the fields by which a journal is filtered and a fault is aimed, the same for every API."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

GROUP_FIELDS: Final = ("group_id", "groups", "group_ids", "groups_names")
GENERATION_FIELDS: Final = ("generation_id", "generation_id_or_member_epoch", "member_epoch")


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
    """Return what a decoded request is about. `name_of` gives the name of a topic by its id."""
    inner = [*_items(body, "members"), *_items(body, "groups")]
    return Subject(
        api=api,
        client_id=client_id or "",
        groups=tuple(_groups(body)),
        topics=tuple(dict.fromkeys(_topics(body, name_of))),
        members=tuple(_texts((body, *inner), "member_id")),
        instances=tuple(_texts((body, *inner), "group_instance_id", "instance_id")),
        generation=next(
            (value for name in GENERATION_FIELDS if (value := getattr(body, name, None)) is not None), None
        ),
    )


def _groups(body: Any) -> Iterator[str]:
    for name in GROUP_FIELDS:
        value = getattr(body, name, None)
        if isinstance(value, str):
            value = (value,) if value else ()  # from version 8 on OffsetFetch names its groups in a list instead
        for item in value or ():
            yield item if isinstance(item, str) else item.group_id
    if getattr(body, "key_type", None) == 0:  # FindCoordinator for a group
        yield from filter(None, (body.key, *body.coordinator_keys))


def _topics(body: Any, name_of: TopicNames) -> Iterator[str]:
    for group in (body, *_items(body, "groups")):
        for item in _items(group, "topics", "topic_data", "topic_names", "subscribed_topic_names"):
            name = item if isinstance(item, str) else getattr(item, "name", None) or getattr(item, "topic", None)
            if not name and isinstance(topic_id := getattr(item, "topic_id", None), bytes):
                name = name_of(topic_id)
            if isinstance(name, str) and name:
                yield name


def _items(body: Any, *names: str) -> Iterator[Any]:
    for name in names:
        value = getattr(body, name, None)
        if isinstance(value, tuple):
            yield from value


def _texts(values: Any, *names: str) -> Iterator[str]:
    for value in values:
        for name in names:
            text = getattr(value, name, None)
            if isinstance(text, str) and text:
                yield text
