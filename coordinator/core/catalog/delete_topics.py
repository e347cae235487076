"""DeleteTopics: by name, or by id from version 6 on.

Shown by tests/core/catalog/test_topics.py and tests/conformance/stories/topics.py.
"""

from collections import Counter

from coordinator.core.catalog.catalog import TOPIC, Catalog
from coordinator.core.catalog.names import INTERNAL
from coordinator.core.catalog.records import NO_ID, CatalogRecord, ConfigKey, LogKey, TopicKey
from coordinator.core.pace import Pace, name_units
from coordinator.core.result import STEP_ENTRIES, Call, Decisions, Result
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResponseDeletableTopicResult,
)

_Named = tuple[str | None, bytes]


def delete_topics(catalog: Catalog, request: DeleteTopicsRequest, call: Call) -> Decisions:
    """Take back each topic that exists, and its settings with it. Its records go when that fact is in the log."""
    asked: list[_Named] = [(name, NO_ID) for name in request.topic_names]
    asked += [(topic.name, topic.topic_id) for topic in request.topics]
    found, pace = [], Pace()
    for named, count in Counter(asked).items():
        if pace.is_due(name_units(named[0])):
            yield Result()
        found.append((named, *_find_topic(catalog, *named, count)))
    results: list[DeleteTopicsResponseDeletableTopicResult] = []
    records: list[CatalogRecord] = []
    gone: dict[str, bytes] = {}
    partitions = 0  # that this step deletes
    for (name, topic_id), error, message, topic in found:
        if topic in INTERNAL:
            # Kafka deletes even its own topics, and every committed offset with them.
            error, message = ErrorCode.INVALID_TOPIC_EXCEPTION, f"The internal topic {topic} cannot be deleted."
        elif topic is not None:
            fact = catalog.topics_by_name.get(topic)
            is_meant = fact is not None and topic_id in (NO_ID, fact.id)  # else it has gone between two steps
            if fact is not None and is_meant and topic not in gone:  # which it is if it is named in two ways
                records += _tombstones(catalog, topic)
                partitions += fact.partitions
                gone[topic] = fact.id
            name, topic_id = topic, gone.get(topic, topic_id)
        results.append(DeleteTopicsResponseDeletableTopicResult(name, topic_id, error, message))
        if partitions >= STEP_ENTRIES or pace.is_due():
            yield Result(records=tuple(records))
            records.clear()
            partitions = 0
    yield Result(response=DeleteTopicsResponse(responses=tuple(results)), records=tuple(records))


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
