"""Create the topics that a group needs, in the catalog, and tell the group what came of it."""

from coordinator.core.catalog.create_topics import create_topics
from coordinator.core.decision import Steps
from coordinator.core.result import CreateTopics, NewTopic, NoteCreatedTopics
from coordinator.runtime.engine import Engine
from protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
)


def create_topics_of_group(engine: Engine, wanted: CreateTopics) -> Steps[None]:
    """Create topics, in steps if they are many. A topic that cannot be created does not hold up the others."""
    call = wanted.call
    request = CreateTopicsRequest(tuple(map(_to_creatable_topic, wanted.topics)))
    errors: dict[str, str] = {}
    for result in create_topics(engine.world.ledger.catalog, request, call):
        response = engine.record(result, call.now_ms)
        if response is None:
            yield
            continue
        errors = {topic.name: topic.error_message or "" for topic in response.topics if topic.error_code}
    partition = engine.world.partitions.owner(wanted.group_id)
    if partition.is_loaded:
        outcome = NoteCreatedTopics(wanted.group_id, errors)
        engine.take(partition, partition.shard.handle(outcome, call), wanted.group_id)


def _to_creatable_topic(topic: NewTopic) -> CreateTopicsRequestCreatableTopic:
    configs = tuple(CreateTopicsRequestCreatableTopicConfig(name, value) for name, value in topic.configs.items())
    return CreateTopicsRequestCreatableTopic(topic.name, topic.partitions, topic.replication_factor, configs=configs)
