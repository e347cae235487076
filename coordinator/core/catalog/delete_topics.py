"""DeleteTopics: by name, or by id from version 6 on."""

from collections import Counter
from typing import Any

from coordinator.core.catalog.catalog import TOPIC, Catalog
from coordinator.core.catalog.names import INTERNAL
from coordinator.core.catalog.records import NO_ID, CatalogRecord, ConfigKey, LogKey, TopicKey
from coordinator.core.result import Call, Result
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResponseDeletableTopicResult,
)

_Named = tuple[str | None, bytes]


def delete_topics(catalog: Catalog, request: DeleteTopicsRequest, call: Call) -> Result[Any]:
    """Take back each topic that exists, and its settings with it. Its records go when that fact is in the log."""
    asked: list[_Named] = [(name, NO_ID) for name in request.topic_names]
    asked += [(topic.name, topic.topic_id) for topic in request.topics]
    times = Counter(asked)
    results: list[DeleteTopicsResponseDeletableTopicResult] = []
    gone: dict[str, None] = {}
    for (name, topic_id), count in times.items():
        error, message, found = _find_topic(catalog, name, topic_id, count)
        if found in INTERNAL:
            # Kafka deletes even its own topics, and every committed offset with them.
            error, message = ErrorCode.INVALID_TOPIC_EXCEPTION, f"The internal topic {found} cannot be deleted."
        elif error == ErrorCode.NONE:
            assert found is not None, "a topic to delete has a name"
            gone[found] = None
            name, topic_id = found, catalog.topics_by_name[found].id
        results.append(DeleteTopicsResponseDeletableTopicResult(name, topic_id, error, message))
    records = tuple([record for name in gone for record in _tombstones(catalog, name)])
    return Result(response=DeleteTopicsResponse(responses=tuple(results)), records=records)


def _find_topic(
    catalog: Catalog, name: str | None, topic_id: bytes, count: int
) -> tuple[ErrorCode, str | None, str | None]:
    """Return the name of the topic that the request means, or the error in the way it names one."""
    if name is None and topic_id == NO_ID:
        return ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.", None
    if name is not None and topic_id != NO_ID:
        return ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.", None
    if count > 1:
        return ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.", None
    if name is None:
        topic = catalog.topics.by_id(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.", None
        return ErrorCode.NONE, None, topic.name
    if name not in catalog.topics_by_name:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.", None
    return ErrorCode.NONE, None, name


def _tombstones(catalog: Catalog, name: str) -> list[CatalogRecord]:
    settings = catalog.configs.get((TOPIC, name), {})
    return [
        *(CatalogRecord(ConfigKey(TOPIC, name, key), None) for key in settings),
        *(CatalogRecord(LogKey(name, partition), None) for partition in catalog.logs.get(name, {})),
        CatalogRecord(TopicKey(name), None),
    ]
