"""OffsetDelete: forget what a group has committed to topics that it no longer reads."""

from collections.abc import Callable
from typing import Any

from coordinator.core.classic.group import ClassicGroup
from coordinator.core.classic.voting import CONSUMER
from coordinator.core.offsets.store import OffsetStore
from coordinator.core.offsets.validation import exists
from coordinator.core.records import OffsetCommitKey, Record
from coordinator.core.result import Result
from coordinator.core.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def delete_refusal(group: ClassicGroup) -> ErrorCode:
    """Members of whom nothing is known but that they are no consumers may be using any topic."""
    if group.is_empty or group.protocol_type == CONSUMER:
        return ErrorCode.NONE
    return ErrorCode.NON_EMPTY_GROUP


def offset_delete(
    request: OffsetDeleteRequest,
    offsets: OffsetStore,
    topics: Topics,
    refusal: ErrorCode,
    is_subscribed: Callable[[str], bool],
) -> Result[Any]:
    """Write a tombstone for each offset that there is and that nobody reads; each partition has its outcome.

    `refusal` is the group's, about the whole; `is_subscribed` says whether its members read a topic.
    """
    if refusal:
        return Result(response=OffsetDeleteResponse(error_code=refusal))
    outcomes = tuple(_outcome(topic, topics, is_subscribed) for topic in request.topics)
    deleted = dict.fromkeys(
        OffsetCommitKey(request.group_id, topic.name, each.partition_index)
        for topic in outcomes
        for each in topic.partitions
        if not each.error_code
    )
    records = tuple(Record(key, None) for key in deleted if _has(offsets, key))
    return Result(response=OffsetDeleteResponse(topics=outcomes), records=records)


def _outcome(
    topic: OffsetDeleteRequestTopic, topics: Topics, is_subscribed: Callable[[str], bool]
) -> OffsetDeleteResponseTopic:
    meant = topics.get(topic.name)
    in_use = is_subscribed(topic.name)
    outcomes = []
    for each in topic.partitions:
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE
        if meant is None or not exists(each.partition_index, meant):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        outcomes.append(OffsetDeleteResponsePartition(each.partition_index, error))
    return OffsetDeleteResponseTopic(topic.name, tuple(outcomes))


def _has(offsets: OffsetStore, key: OffsetCommitKey) -> bool:
    """Committed or pending: a tombstone removes both."""
    is_committed = offsets.get(key.group, key.topic, key.partition) is not None
    return is_committed or offsets.has_pending(key.group, key.topic, key.partition)
