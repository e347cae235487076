"""OffsetDelete: delete committed offsets of topics that the group no longer subscribes to.

Shown by tests/core/scripts/offsets/delete_offsets.txt and tests/conformance/stories/offset_delete.py.
"""

from coordinator.core.env import Env
from coordinator.core.kinds.kind import Group
from coordinator.core.kinds.registry import kind_of
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
    """Write a tombstone for each committed offset whose topic no member subscribes to. Kafka: `deleteOffsets`."""
    if error := _validate(group, request.group_id):
        return Result(response=OffsetDeleteResponse(error_code=error))
    assert group is not None, "a missing group is refused"
    outcomes = tuple(_delete_from_topic(group, topic, env.topics) for topic in request.topics)
    deleted = dict.fromkeys(
        OffsetCommitKey(request.group_id, topic.name, each.partition_index)
        for topic in outcomes
        for each in topic.partitions
        if not each.error_code
    )
    records = tuple(Record(key, None) for key in deleted if _has(env.offsets, key))
    return Result(response=OffsetDeleteResponse(topics=outcomes), records=records)


def _validate(group: Group | None, group_id: str) -> ErrorCode:
    """Return why no offset of the group may be deleted, NONE if some may."""
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return kind_of(group).validate_delete_offsets(group)


def _delete_from_topic(group: Group, topic: OffsetDeleteRequestTopic, topics: Topics) -> OffsetDeleteResponseTopic:
    existing = topics.get(topic.name)
    in_use = kind_of(group).is_subscribed(group, topic.name)
    outcomes = []
    for each in topic.partitions:
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE
        if existing is None or not exists(each.partition_index, existing):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        outcomes.append(OffsetDeleteResponsePartition(each.partition_index, error))
    return OffsetDeleteResponseTopic(topic.name, tuple(outcomes))


def _has(offsets: OffsetStore, key: OffsetCommitKey) -> bool:
    """Return whether there is a committed or a pending offset. A tombstone removes both."""
    is_committed = offsets.get(key.group, key.topic, key.partition) is not None
    return is_committed or offsets.has_pending(key.group, key.topic, key.partition)
