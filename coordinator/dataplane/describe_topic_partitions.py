"""DescribeTopicPartitions (KIP-966): topics in the order of their names, a page of partitions at a time.

Shown by tests/conformance/stories/{topics,internal_topics}.py.
"""

from itertools import compress
from typing import Final

from coordinator.core.acls.names import Operation, Resource
from coordinator.core.catalog.names import INTERNAL, reason_invalid
from coordinator.core.decision import Steps
from coordinator.core.pace import Pace, map_in_steps, name_units
from coordinator.dataplane.brokers import LEADER_EPOCH, Where
from coordinator.dataplane.metadata import TOPIC_OPERATIONS
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_DESCRIBE, _TOPIC = Operation.DESCRIBE, Resource.TOPIC
PAGE_MAX: Final = 2000  # max.request.partition.size.limit


def describe_topic_partitions(
    state: State, request: DescribeTopicPartitionsRequest, env: Env
) -> Steps[DescribeTopicPartitionsResponse]:
    """Return one page, and the cursor to the next one if there is more."""
    catalog = state.catalog
    cursor = request.cursor
    names = [topic.name for topic in request.topics]
    named = set(names)
    if cursor is not None and _is_invalid(cursor, named, env):
        error = ErrorCode.INVALID_REQUEST
        return _page([DescribeTopicPartitionsResponseTopic(error_code=error, name=name) for name in names], None)
    if not named:
        every = tuple(catalog.topics_by_name)
        seen = yield from map_in_steps(every, lambda name: env.call.may(_DESCRIBE, _TOPIC, name))
        named = set(compress(every, seen))
    names = sorted(named)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    room = max(1, min(request.response_partition_limit, PAGE_MAX))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    pace = Pace()
    for name in names:
        if pace.is_due(name_units(name)):
            yield
        if room <= 0:
            return _page(topics, DescribeTopicPartitionsResponseCursor(name, 0))
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        topic = _topic(name, first, room, state, env.where)
        topics.append(topic)
        room -= len(topic.partitions)
        after = first + len(topic.partitions)
        if name in catalog.topics_by_name and after < catalog.topics_by_name[name].partitions:
            return _page(topics, DescribeTopicPartitionsResponseCursor(name, after))
    return _page(topics, None)


def _is_invalid(cursor: DescribeTopicPartitionsRequestCursor, named: set[str], env: Env) -> bool:
    """Return whether a cursor is of no partition, or of none of the topics: those that the client may not see are told
    elsewhere."""
    is_other = bool(named) and cursor.topic_name not in named and env.call.may(_DESCRIBE, _TOPIC, cursor.topic_name)
    return is_other or cursor.partition_index < 0


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: DescribeTopicPartitionsResponseCursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=cursor)


def _topic(name: str, first: int, room: int, state: State, where: Where) -> DescribeTopicPartitionsResponseTopic:
    fact = state.catalog.topics_by_name.get(name)
    if fact is None:
        is_name = reason_invalid(name) is None
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_name else ErrorCode.INVALID_TOPIC_EXCEPTION
        return DescribeTopicPartitionsResponseTopic(
            error_code=error, name=name, topic_authorized_operations=TOPIC_OPERATIONS
        )
    indexes = range(first, min(fact.partitions, first + room))
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=fact.id,
        is_internal=name in INTERNAL,
        partitions=tuple(
            [_partition(index, state.replicas(name, index, fact.replication_factor, where)) for index in indexes]
        ),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(index: int, replicas: tuple[int, ...]) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=replicas[0],
        leader_epoch=LEADER_EPOCH,
        replica_nodes=replicas,
        isr_nodes=replicas,
        eligible_leader_replicas=(),
        last_known_elr=(),
    )
