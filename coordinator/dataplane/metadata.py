"""Metadata: which topics and brokers there are. By name, by id, or all; a topic that is missed may be created.

Shown by tests/dataplane/test_metadata.py and tests/conformance/stories/topics.py.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from coordinator.core.acls.names import ALL_OPERATIONS, CLUSTER_NAME, NOT_ASKED, Operation, Resource
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.names import INTERNAL, reason_invalid
from coordinator.core.catalog.records import TopicValue
from coordinator.core.decision import Decision, Done, InSteps, Steps, respond_in_steps
from coordinator.core.pace import Pace
from coordinator.core.response_budget import ResponseBudget
from coordinator.core.result import STEP_ENTRIES, Call, Result
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
from protocol.steps import finish_steps

NAMES_MAY_BE_NULL_SINCE: Final = 12
TOPIC_OPERATIONS: Final = ALL_OPERATIONS[Resource.TOPIC]
AT_ONCE_PARTITIONS: Final = 20_000  # described without steps: ten milliseconds
STEP_PARTITIONS: Final = 2_000  # described in one step otherwise
CLUSTER_OPERATIONS: Final = ALL_OPERATIONS[Resource.CLUSTER]


def wants_all(request: MetadataRequest, version: int) -> bool:
    """Return whether all topics are asked for: by null, and in version 0 by an empty list."""
    return request.topics is None or (version == 0 and not request.topics)


def metadata(state: State, request: MetadataRequest, env: Env) -> Decision:
    """Create the topics that are asked for and not there, if that is wanted, and answer from what there is then.

    Many topics are created, and many partitions are described, in steps.
    """
    if _asks_for_more_than_names(request, env.call.version):
        return InSteps(respond_in_steps(_refuse(request)))
    missing = _find_missing_topics(request, state.catalog, env.call)
    has_many = request.topics is not None and len(request.topics) > STEP_ENTRIES
    if has_many or _count_partitions(request, state.catalog, env.call) > AT_ONCE_PARTITIONS:
        return InSteps(respond_in_steps(_answer_in_steps(state, request, env, missing)))
    if names := finish_steps(missing):
        _create(state, names, env)
    return Done(_answer(request, env, state, list(_describe_topics(request, env, state))))


def _asks_for_more_than_names(request: MetadataRequest, version: int) -> bool:
    """Return whether it asks for a topic by an id, or without a name, in a version where it must name all."""
    topics = request.topics or ()
    return version < NAMES_MAY_BE_NULL_SINCE and any(t.name is None or t.topic_id != NO_ID for t in topics)


def _refuse(request: MetadataRequest) -> Steps[MetadataResponse]:
    """Return the error of each topic, and nothing else."""
    pace, topics = Pace(), list[MetadataResponseTopic]()
    for topic in request.topics or ():
        if pace.is_due():
            yield
        topics.append(_error(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id))
    return MetadataResponse(topics=tuple(topics), controller_id=-1)


def _answer_in_steps(
    state: State, request: MetadataRequest, env: Env, missing: Steps[tuple[str, ...]]
) -> Steps[MetadataResponse]:
    names = yield from missing
    for at in range(0, len(names), STEP_ENTRIES):
        _create(state, names[at : at + STEP_ENTRIES], env)
        yield
    topics: list[MetadataResponseTopic] = []
    work = 0
    for topic in _describe_topics(request, env, state):
        topics.append(topic)
        work += 1 + len(topic.partitions)
        if work > STEP_PARTITIONS:
            work = 0
            yield
    return _answer(request, env, state, topics)


def _create(state: State, names: Sequence[str], env: Env) -> None:
    from coordinator.core.catalog.create_topics import auto_create
    from coordinator.core.quotas.mutations import take_tokens

    take = partial(take_tokens, state.catalog.quotas, state.runtime.mutations, env.call, real_ms=state.real_ms)
    state.runtime.record(Result(records=auto_create(state.catalog, names, env.call, take)), env.call.now_ms)


def _count_partitions(request: MetadataRequest, catalog: Catalog, call: Call) -> int:
    """Return how many partitions there are to describe, or more."""
    if catalog.partitions <= AT_ONCE_PARTITIONS or wants_all(request, call.version) or request.topics is None:
        return catalog.partitions
    by_id = catalog.topics.by_id
    names = [known.name if (known := by_id(one.topic_id)) is not None else one.name for one in request.topics]
    return sum([catalog.partitions_of(name) for name in names if name is not None])


def _find_missing_topics(request: MetadataRequest, catalog: Catalog, call: Call) -> Steps[tuple[str, ...]]:
    """Return the names of topics that are asked for, are not there, and may be created because they were asked for.

    Many of them are looked at in steps.
    """
    creates = catalog.settings.auto_create_topics and request.allow_auto_topic_creation
    if not creates or request.topics is None:
        return ()
    pace = Pace()
    names: dict[str, None] = {}
    for topic in request.topics:
        if pace.is_due():
            yield
        if topic.topic_id != NO_ID:
            return ()
        name = topic.name
        if name is not None and name not in names and name not in catalog.topics_by_name and _may_create(name, call):
            names[name] = None
    return tuple(names)


def _may_create(name: str, call: Call) -> bool:
    return call.may(Operation.DESCRIBE, Resource.TOPIC, name) and (
        call.may(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME) or call.may(Operation.CREATE, Resource.TOPIC, name)
    )


def _describe_topics(request: MetadataRequest, env: Env, state: State) -> Iterator[MetadataResponseTopic]:
    """Describe the topics that are asked for, one at each `next`, and charge them. Raises ResponseTooLarge."""
    budget = ResponseBudget()
    for topic in _find_topics(request, env, state):
        budget.charge_elements(1 + len(topic.partitions))
        yield topic


def _find_topics(request: MetadataRequest, env: Env, state: State) -> Iterator[MetadataResponseTopic]:
    """Describe the topics that are asked for. Of all topics, those that have gone are left out."""
    if wants_all(request, env.call.version):
        known = state.catalog.topics_by_name
        return (_describe_topic(name, state, env.where) for name in list(known) if name in known)
    assert request.topics is not None, "null asks for all"
    return _select_topics(request.topics, state, env.where)


def _answer(
    request: MetadataRequest, env: Env, state: State, topics: Sequence[MetadataResponseTopic]
) -> MetadataResponse:
    brokers = env.brokers
    if request.include_topic_authorized_operations:
        topics = [topic if topic.name is None else _with_operations(topic) for topic in topics]
    asks_cluster = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=tuple([MetadataResponseBroker(b.node_id, b.host, b.port, b.rack) for b in brokers]),
        cluster_id=state.cluster_id,
        controller_id=brokers[0].node_id,
        topics=tuple(topics),
        cluster_authorized_operations=CLUSTER_OPERATIONS if asks_cluster else NOT_ASKED,
    )


def _select_topics(
    asked: Sequence[MetadataRequestTopic], state: State, where: Where
) -> Iterator[MetadataResponseTopic]:
    """Describe each topic once; where any is asked for by its id, those by name are not looked at, as in Kafka."""
    ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != NO_ID)
    if ids:
        return (_by_id(topic_id, state, where) for topic_id in ids)
    names = dict.fromkeys(topic.name for topic in asked if topic.name is not None)
    return (_by_name(name, state, where) for name in names)


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
