"""Create the topics that a group needs, in the catalog, and tell the group what came of it."""

from typing import Final

from coordinator.core.catalog.create_topics import count_partitions, create_topics, refusal
from coordinator.core.decision import Steps
from coordinator.core.pace import Pace
from coordinator.core.quotas.mutations import take_tokens
from coordinator.core.result import CreateTopics, NewTopic, NoteCreatedTopics
from coordinator.runtime.engine import Engine
from protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
)

THROTTLED: Final = "the quota of the client is used up"


def create_topics_of_group(engine: Engine, wanted: CreateTopics) -> Steps[None]:
    """Create topics, in steps if they are many. A topic that cannot be created does not hold up the others.

    Their partitions count for the client's quota, as if it had created them.
    """
    call, catalog = wanted.call, engine.world.ledger.catalog
    allowed, errors = yield from _divide(engine, wanted)
    for result in create_topics(catalog, CreateTopicsRequest(tuple(allowed)), call):
        response = engine.record(result, call.now_ms)
        if response is None:
            yield
            continue
        errors |= {topic.name: topic.error_message or "" for topic in response.topics if topic.error_code}
    partition = engine.world.partitions.owner(wanted.group_id)
    if partition.is_loaded:
        outcome = NoteCreatedTopics(wanted.group_id, errors)
        engine.take(partition, partition.shard.handle(outcome, call), wanted.group_id)


def _divide(
    engine: Engine, wanted: CreateTopics
) -> Steps[tuple[list[CreateTopicsRequestCreatableTopic], dict[str, str]]]:
    """Return the topics that the client's quota allows, and why there are not the others, by name."""
    catalog, pace = engine.world.ledger.catalog, Pace()
    allowed, errors = list[CreateTopicsRequestCreatableTopic](), dict[str, str]()
    room = catalog.settings.partitions_max - catalog.partitions
    for topic in map(_to_creatable_topic, wanted.topics):
        if pace.is_due():
            yield
        count = 0 if refusal(catalog, topic, room) else count_partitions(topic, catalog)
        if not count or take_tokens(catalog.quotas, engine.mutations, wanted.call, count, engine.real_ms):
            allowed.append(topic)
        else:
            errors[topic.name] = THROTTLED
    return allowed, errors


def _to_creatable_topic(topic: NewTopic) -> CreateTopicsRequestCreatableTopic:
    configs = tuple(CreateTopicsRequestCreatableTopicConfig(name, value) for name, value in topic.configs.items())
    return CreateTopicsRequestCreatableTopic(topic.name, topic.partitions, topic.replication_factor, configs=configs)
