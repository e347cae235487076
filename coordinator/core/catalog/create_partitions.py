"""CreatePartitions: a topic grows; it never shrinks.

Shown by tests/core/catalog/test_topics.py and tests/conformance/stories/topics.py.
"""

from collections import Counter

from msgspec.structs import replace

from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.names import INTERNAL
from coordinator.core.catalog.records import CatalogRecord, TopicKey
from coordinator.core.catalog.settings import PARTITIONS_PER_REQUEST_MAX
from coordinator.core.refusal import Refusal
from coordinator.core.result import STEP_ENTRIES, Call, Decisions, Result
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseTopicResult,
)


def create_partitions(catalog: Catalog, request: CreatePartitionsRequest, call: Call) -> Decisions:
    """Grow each topic to the count that is asked for."""
    times = Counter(topic.name for topic in request.topics)
    results = [
        CreatePartitionsResponseTopicResult(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in times.items()
        if count > 1
    ]
    records: list[CatalogRecord] = []
    room = catalog.settings.partitions_max - catalog.partitions
    for topic in request.topics:
        if times[topic.name] > 1:
            continue
        if (wrong := refusal(catalog, topic, room)) is not None:
            results.append(CreatePartitionsResponseTopicResult(topic.name, wrong.error, wrong.message))
            continue
        fact = catalog.topics_by_name[topic.name]
        room -= topic.count - fact.partitions
        if not request.validate_only:
            records.append(CatalogRecord(TopicKey(topic.name), replace(fact, partitions=topic.count)))
        results.append(CreatePartitionsResponseTopicResult(topic.name))
        if len(results) % STEP_ENTRIES == 0:
            yield Result(records=tuple(records))
            records.clear()
    yield Result(response=CreatePartitionsResponse(results=tuple(results)), records=tuple(records))


def refusal(catalog: Catalog, topic: CreatePartitionsRequestTopic, room: int) -> Refusal | None:
    """Return why this topic cannot grow, or None; `room` is how many more partitions there may be."""
    fact = catalog.topics_by_name.get(topic.name)
    if fact is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.name in INTERNAL:
        # The number of partitions decides which of them owns a group: Kafka lets it grow, and loses the groups.
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The internal topic {topic.name} cannot grow.")
    if topic.count == fact.partitions:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {fact.partitions} partition(s).")
    more = topic.count - fact.partitions
    if more < 0:
        now = f"The topic {topic.name} currently has {fact.partitions} partition(s)"
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"{now}; {topic.count} would not be an increase.")
    if topic.assignments is not None and (wrong := _of_assignments(catalog, topic, more)):
        return wrong
    if more > min(room, PARTITIONS_PER_REQUEST_MAX):
        return Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions.")
    return None


def _of_assignments(catalog: Catalog, topic: CreatePartitionsRequestTopic, more: int) -> Refusal | None:
    assert topic.assignments is not None, "only called for a manual assignment"
    if len(topic.assignments) != more:
        message = f"Attempted to add {more} additional partition(s) with {len(topic.assignments)} assignment(s)."
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    known = set(catalog.settings.broker_ids)
    for one in topic.assignments:
        ids = one.broker_ids
        if not ids or len(set(ids)) != len(ids) or not known.issuperset(ids):
            message = f"The manual partition assignment {list(ids)} is empty, or not of different registered brokers."
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return None
