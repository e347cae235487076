"""Metadata: which topics and brokers there are. By name, by id, or all; a topic that is missed may be created."""

from collections.abc import Iterable, Sequence
from typing import Final

from coordinator.core.acls.names import ALL_OPERATIONS, CLUSTER_NAME, NOT_ASKED, Operation, Resource
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.names import INTERNAL, reason_invalid
from coordinator.core.catalog.records import TopicValue
from coordinator.core.result import Call, Result
from coordinator.core.topics import NO_ID
from coordinator.dataplane.brokers import LEADER_EPOCH, Where
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NAMES_MAY_BE_NULL_SINCE: Final = 12
TOPIC_OPERATIONS: Final = ALL_OPERATIONS[Resource.TOPIC]
CLUSTER_OPERATIONS: Final = ALL_OPERATIONS[Resource.CLUSTER]


def wants_all(request: MetadataRequest, version: int) -> bool:
    """Return whether all topics are asked for: by null, and in version 0 by an empty list."""
    return request.topics is None or (version == 0 and not request.topics)


def metadata(state: State, request: MetadataRequest, env: Env) -> MetadataResponse:
    """Create the topics that are asked for and not there, if that is wanted, and answer from what there is then."""
    if names := _missing(request, state.catalog, env.call):
        from coordinator.core.catalog.create_topics import auto_create

        state.runtime.record(Result(records=auto_create(state.catalog, names, env.call)), env.call.now_ms)
    return _describe(request, env, state)


def _missing(request: MetadataRequest, catalog: Catalog, call: Call) -> tuple[str, ...]:
    """Return the names of topics that are asked for, are not there, and may be created because they were asked for."""
    creates = catalog.settings.auto_create_topics and request.allow_auto_topic_creation
    if not creates or request.topics is None:
        return ()
    if any(topic.topic_id != NO_ID for topic in request.topics):
        return ()
    names = dict.fromkeys(topic.name for topic in request.topics if topic.name is not None)
    return tuple(name for name in names if name not in catalog.topics_by_name and _may_create(name, call))


def _may_create(name: str, call: Call) -> bool:
    return call.may(Operation.DESCRIBE, Resource.TOPIC, name) and (
        call.may(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME) or call.may(Operation.CREATE, Resource.TOPIC, name)
    )


def _describe(request: MetadataRequest, env: Env, state: State) -> MetadataResponse:
    version, where, brokers = env.call.version, env.where, env.brokers
    if wants_all(request, version):
        topics: Iterable[MetadataResponseTopic] = [
            _describe_topic(name, state, where) for name in state.catalog.topics_by_name
        ]
    else:
        assert request.topics is not None, "null asks for all"
        topics = _select_topics(request.topics, version, state, where)
    if request.include_topic_authorized_operations:
        topics = [_with_operations(topic) for topic in topics]
    asks_cluster = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=tuple([MetadataResponseBroker(b.node_id, b.host, b.port, b.rack) for b in brokers]),
        cluster_id=state.cluster_id,
        controller_id=brokers[0].node_id,
        topics=tuple(topics),
        cluster_authorized_operations=CLUSTER_OPERATIONS if asks_cluster else NOT_ASKED,
    )


def _select_topics(
    asked: Sequence[MetadataRequestTopic], version: int, state: State, where: Where
) -> list[MetadataResponseTopic]:
    """Return each topic once; where any is asked for by its id, those by name are not looked at, as in Kafka."""
    if version < NAMES_MAY_BE_NULL_SINCE and any(t.name is None or t.topic_id != NO_ID for t in asked):
        return [_error(ErrorCode.INVALID_REQUEST, t.name or "", t.topic_id) for t in asked]
    ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != NO_ID)
    if ids:
        return [_by_id(topic_id, state, where) for topic_id in ids]
    names = dict.fromkeys(topic.name for topic in asked if topic.name is not None)
    return [_by_name(name, state, where) for name in names]


def _by_id(topic_id: bytes, state: State, where: Where) -> MetadataResponseTopic:
    topic = state.catalog.topics.by_id(topic_id)
    if topic is None:
        return _error(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    return _describe_topic(topic.name, state, where)


def _by_name(name: str, state: State, where: Where) -> MetadataResponseTopic:
    if name in state.catalog.topics_by_name:
        return _describe_topic(name, state, where)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if reason_invalid(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    return _error(error, name, NO_ID)


def _error(error: ErrorCode, name: str | None, topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, is_internal=name in INTERNAL)


def _describe_topic(name: str, state: State, where: Where) -> MetadataResponseTopic:
    fact = state.catalog.topics_by_name[name]
    return MetadataResponseTopic(
        name=name, topic_id=fact.id, is_internal=name in INTERNAL, partitions=_partitions(name, fact, state, where)
    )


def _partitions(name: str, fact: TopicValue, state: State, where: Where) -> tuple[MetadataResponsePartition, ...]:
    found: list[MetadataResponsePartition] = []
    for index in range(fact.partitions):
        replicas = state.replicas(name, index, fact.replication_factor, where)
        found.append(
            MetadataResponsePartition(
                partition_index=index,
                leader_id=replicas[0],
                leader_epoch=LEADER_EPOCH,
                replica_nodes=replicas,
                isr_nodes=replicas,
            )
        )
    return tuple(found)


def _with_operations(topic: MetadataResponseTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        topic.error_code, topic.name, topic.topic_id, topic.is_internal, topic.partitions, TOPIC_OPERATIONS
    )
