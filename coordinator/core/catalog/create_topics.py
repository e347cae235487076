"""CreateTopics, and the creation of topics that a client merely asks about.

Shown by tests/core/catalog/test_topics.py and tests/conformance/stories/topics.py.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from coordinator.core.catalog import topic_configs
from coordinator.core.catalog.catalog import TOPIC, Catalog
from coordinator.core.catalog.names import INTERNAL, RESERVED, reason_invalid
from coordinator.core.catalog.records import CatalogRecord, ConfigKey, ConfigValue, TopicKey, TopicValue
from coordinator.core.catalog.settings import PARTITIONS_PER_REQUEST_MAX
from coordinator.core.prices import Room
from coordinator.core.refusal import Refusal
from coordinator.core.result import STEP_ENTRIES, Call, Decisions, Result
from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsResponse,
    CreateTopicsResponseCreatableTopicConfigs,
    CreateTopicsResponseCreatableTopicResult,
)


def create_topics(catalog: Catalog, request: CreateTopicsRequest, call: Call) -> Decisions:
    """Create each topic that can be; a topic that cannot be does not hold up the others."""
    times = Counter(topic.name for topic in request.topics)
    once = [topic for topic in request.topics if times[topic.name] == 1]
    results: list[CreateTopicsResponseCreatableTopicResult] = []
    records: list[CatalogRecord] = []
    room, memory = catalog.settings.partitions_max - catalog.partitions, Room(catalog.held)
    is_too_much = is_excessive(catalog, once)
    for topic in once:
        wrong = _EXCESSIVE if is_too_much else refusal(catalog, topic, room)
        facts = [] if wrong else _facts(catalog, topic, call.fresh_id, call.now_ms)
        wrong = wrong or memory.take(facts)
        if wrong is not None:
            results.append(_refuse(topic.name, wrong))
            continue
        room -= count_partitions(topic, catalog)
        records += () if request.validate_only else facts
        results.append(_describe_created_topic(catalog, topic, facts))
        if len(results) % STEP_ENTRIES == 0:
            yield Result(records=tuple(records))
            records.clear()
            memory.begin_step()
    results += [_refuse(name, _DUPLICATE) for name, count in times.items() if count > 1]
    yield Result(response=CreateTopicsResponse(topics=tuple(results)), records=tuple(records))


def auto_create(
    catalog: Catalog, names: Iterable[str], call: Call, take_tokens: Callable[[int], bool]
) -> tuple[CatalogRecord, ...]:
    """Return the records that create those of `names` that may be created, with the broker's defaults.

    `take_tokens` says whether the client's quota allows so many partitions more, which then count.
    """
    records: list[CatalogRecord] = []
    room, memory = catalog.settings.partitions_max - catalog.partitions, Room(catalog.held)
    for name in names:
        topic = CreateTopicsRequestCreatableTopic(name, num_partitions=-1, replication_factor=-1)
        if refusal(catalog, topic, room) is None:
            facts = _facts(catalog, topic, call.fresh_id, call.now_ms)
            if memory.take(facts) is None and take_tokens(catalog.settings.num_partitions):
                room -= catalog.settings.num_partitions
                records += facts
    return tuple(records)


_DUPLICATE = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
_EXCESSIVE = Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def is_excessive(catalog: Catalog, topics: Iterable[CreateTopicsRequestCreatableTopic]) -> bool:
    """Return whether topics have more partitions together than one request may create: then it creates none."""
    return sum([count_partitions(topic, catalog) for topic in topics]) > PARTITIONS_PER_REQUEST_MAX


def refusal(catalog: Catalog, topic: CreateTopicsRequestCreatableTopic, room: int) -> Refusal | None:
    """Return why this topic cannot be created, or None; `room` is how many more partitions there may be."""
    return (
        _of_name(catalog, topic.name)
        or _of_configs(topic)
        or (_of_assignments(catalog, topic) if topic.assignments else _of_numbers(topic))
        or _of_room(count_partitions(topic, catalog), room)
    )


def _of_name(catalog: Catalog, name: str) -> Refusal | None:
    if name in RESERVED:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if reason := reason_invalid(name):
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name in catalog.topics_by_name or name in INTERNAL:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if name in catalog.unremoved:  # it would begin with the records of the one before
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"The deleted topic '{name}' could not be removed from the disk.")
    if (other := catalog.find_collision(name)) is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
    return None


def _of_configs(topic: CreateTopicsRequestCreatableTopic) -> Refusal | None:
    if nulls := [config.name for config in topic.configs if config.value is None]:
        return Refusal(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    if reason := topic_configs.reason_invalid(_own_settings(topic)):
        return Refusal(ErrorCode.INVALID_CONFIG, reason)
    return None


def _of_assignments(catalog: Catalog, topic: CreateTopicsRequestCreatableTopic) -> Refusal | None:
    """Check a manual placement: it says how many partitions and copies there are, so the numbers must be left to it."""
    if topic.replication_factor != -1 or topic.num_partitions != -1:
        which = "replication factor" if topic.replication_factor != -1 else "numPartitions"
        message = f"A manual partition assignment was specified, but {which} was not set to -1."
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    known, copies = set(catalog.settings.broker_ids), {len(one.broker_ids) for one in topic.assignments}
    indexes = sorted(one.partition_index for one in topic.assignments)
    if indexes != list(range(len(indexes))):
        return _assignment("partitions should be a consecutive 0-based integer sequence")
    if copies == {0} or len(copies) != 1:
        return _assignment("The manual partition assignment includes an empty replica list, or different sizes.")
    for one in topic.assignments:
        if len(set(one.broker_ids)) != len(one.broker_ids) or not known.issuperset(one.broker_ids):
            return _assignment(f"The replicas {list(one.broker_ids)} are not different registered brokers.")
    return None


def _assignment(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _of_numbers(topic: CreateTopicsRequestCreatableTopic) -> Refusal | None:
    # More copies than brokers are taken, unlike in Kafka: a client's set-up that asks for three runs unchanged.
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        return Refusal(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    return None


def _of_room(partitions: int, room: int) -> Refusal | None:
    if partitions <= room:
        return None
    return Refusal(ErrorCode.POLICY_VIOLATION, f"There is room for {max(room, 0)} more partitions here.")


def count_partitions(topic: CreateTopicsRequestCreatableTopic, catalog: Catalog) -> int:
    """Return how many partitions the topic asks for; a senseless number counts as none."""
    if topic.assignments:
        return len(topic.assignments)
    return catalog.settings.num_partitions if topic.num_partitions == -1 else max(topic.num_partitions, 0)


def _copies(topic: CreateTopicsRequestCreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments[0].broker_ids)
    return 1 if topic.replication_factor == -1 else topic.replication_factor


def _own_settings(topic: CreateTopicsRequestCreatableTopic) -> dict[str, str]:
    return {config.name: config.value for config in topic.configs if config.value is not None}


def _facts(
    catalog: Catalog, topic: CreateTopicsRequestCreatableTopic, fresh_id: Callable[[], str], now_ms: int
) -> list[CatalogRecord]:
    topic_id = bytes.fromhex(fresh_id().replace("-", ""))
    value = TopicValue(topic_id, count_partitions(topic, catalog), _copies(topic), now_ms)
    settings = [
        CatalogRecord(ConfigKey(TOPIC, topic.name, name), ConfigValue(text))
        for name, text in _own_settings(topic).items()
    ]
    return [CatalogRecord(TopicKey(topic.name), value), *settings]


def _refuse(name: str, wrong: Refusal) -> CreateTopicsResponseCreatableTopicResult:
    return CreateTopicsResponseCreatableTopicResult(name, error_code=wrong.error, error_message=wrong.message)


def _describe_created_topic(
    catalog: Catalog, topic: CreateTopicsRequestCreatableTopic, facts: list[CatalogRecord]
) -> CreateTopicsResponseCreatableTopicResult:
    value = facts[0].value
    assert isinstance(value, TopicValue), "a topic's first fact is the topic"
    return CreateTopicsResponseCreatableTopicResult(
        name=topic.name,
        topic_id=value.id,
        error_message=None,
        num_partitions=value.partitions,
        replication_factor=value.replication_factor,
        configs=tuple(_effective(catalog, _own_settings(topic))),
    )


def _effective(catalog: Catalog, own: Mapping[str, str]) -> Iterable[CreateTopicsResponseCreatableTopicConfigs]:
    for config in topic_configs.TOPIC_CONFIGS:
        value, source = (own[config.name], 1) if config.name in own else catalog.inherited_value(config)
        yield CreateTopicsResponseCreatableTopicConfigs(config.name, value, config_source=source)
