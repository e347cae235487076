"""OffsetDelete: forget what a group has committed to topics that it no longer reads."""

from coordinator.core.classic.voting import CONSUMER
from coordinator.core.consumer.group import ConsumerGroup
from coordinator.core.env import Env
from coordinator.core.groups import Group, is_subscribed
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


def offset_delete(group: Group | None, request: OffsetDeleteRequest, env: Env) -> Result[Group]:
    """Write a tombstone for each offset that there is and that nobody reads; each partition has its outcome."""
    if error := _validate(group, request.group_id):
        return Result(response=OffsetDeleteResponse(error_code=error))
    assert group is not None, "there is no group, and that is no reason"
    outcomes = tuple(_outcome(group, topic, env.topics) for topic in request.topics)
    deleted = dict.fromkeys(
        OffsetCommitKey(request.group_id, topic.name, each.partition_index)
        for topic in outcomes
        for each in topic.partitions
        if not each.error_code
    )
    records = tuple(Record(key, None) for key in deleted if _has(env.offsets, key))
    return Result(response=OffsetDeleteResponse(topics=outcomes), records=records)


def _validate(group: Group | None, group_id: str) -> ErrorCode:
    """Return why nothing of the group may be deleted, NONE if something may.

    Members of which nothing is known but that they are no consumers may be using any topic.
    """
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.is_empty or isinstance(group, ConsumerGroup) or group.protocol_type == CONSUMER:
        return ErrorCode.NONE
    return ErrorCode.NON_EMPTY_GROUP


def _outcome(group: Group, topic: OffsetDeleteRequestTopic, topics: Topics) -> OffsetDeleteResponseTopic:
    meant = topics.get(topic.name)
    in_use = is_subscribed(group, topic.name)
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
