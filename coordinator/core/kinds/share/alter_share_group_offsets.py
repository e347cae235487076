"""AlterShareGroupOffsets: an empty share group is to begin at other offsets. A group that is not there yet is made.

What is decided here is which share partitions begin anew, and record 15; the runtime asks the share coordinator, and
puts its errors into the response.

Shown by tests/runtime/test_share_states.py.
"""

from collections.abc import Iterable
from typing import Any

from coordinator.core.env import Env
from coordinator.core.kinds.modern.transition import GroupTransition
from coordinator.core.kinds.share.group import ShareGroup, StatePartitions
from coordinator.core.kinds.share.state_partitions import note_initializing
from coordinator.core.kinds.share.validation import no_share_group
from coordinator.core.result import BeginShareStates, Result
from coordinator.core.topics import NO_ID, Topic
from protocol.errors import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

BY = "AlterShareGroupOffsets"
UNKNOWN_PARTITION = "This server does not host this topic-partition."


def alter_share_group_offsets(
    group: ShareGroup | None, request: AlterShareGroupOffsetsRequest, env: Env
) -> Result[Any]:
    """Decide which share partitions begin at which offsets. Kafka: `GroupMetadataManager.alterShareGroupOffsets`."""
    if not request.group_id:
        return refuse(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    if group is not None and group.members:
        return refuse(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    transition = GroupTransition(group or ShareGroup(request.group_id), env, BY)
    topics: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    missing: dict[bytes, StatePartitions] = {}
    offsets: dict[bytes, dict[int, int]] = {}
    by_name: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for asked in request.topics:
        by_name.setdefault(asked.topic_name, []).extend(asked.partitions)
    for name, partitions in by_name.items():
        topic = env.topics.get(name)
        if topic is None:
            topics[name] = _unknown_topic(name, partitions)
            continue
        known = {one.partition_index: one.start_offset for one in partitions if _exists(one, topic)}
        offsets[topic.id] = known
        if known or topic.id not in transition.group.initializing:  # else what was asked for before would wait longer
            missing[topic.id] = StatePartitions(topic.name, tuple(sorted(known)), transition.now_ms)
        topics[name] = _answer(topic, partitions)
    if missing:
        note_initializing(transition, missing)
    response = AlterShareGroupOffsetsResponse(responses=tuple(topics.values()))
    if any(offsets.values()):
        epoch, at_ms = transition.group.epoch, transition.now_ms
        transition.effects.append(BeginShareStates(request.group_id, offsets, epoch, at_ms, response))
    return transition.result(response) if missing else Result(response=response)


def refuse_other_kind(group: Any, request: AlterShareGroupOffsetsRequest, env: Env) -> Result[Any]:
    """Refuse to alter the offsets of a group of another kind."""
    if not request.group_id:
        return refuse(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    refusal = no_share_group(request.group_id)
    return refuse(refusal.error, refusal.message)


def refuse(error: ErrorCode, message: str | None) -> Result[Any]:
    """Answer with an error of the whole request."""
    return Result(response=AlterShareGroupOffsetsResponse(error_code=error, error_message=message))


def _answer(
    topic: Topic, asked: Iterable[AlterShareGroupOffsetsRequestPartition]
) -> AlterShareGroupOffsetsResponseTopic:
    entry = AlterShareGroupOffsetsResponsePartition
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions = [
        entry(one.partition_index) if _exists(one, topic) else entry(one.partition_index, unknown, UNKNOWN_PARTITION)
        for one in asked
    ]
    return AlterShareGroupOffsetsResponseTopic(topic.name, topic.id, tuple(partitions))


def _exists(one: AlterShareGroupOffsetsRequestPartition, topic: Topic) -> bool:
    return 0 <= one.partition_index < topic.partitions


def _unknown_topic(
    name: str, asked: Iterable[AlterShareGroupOffsetsRequestPartition]
) -> AlterShareGroupOffsetsResponseTopic:
    entry, unknown = AlterShareGroupOffsetsResponsePartition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions = [entry(one.partition_index, unknown, UNKNOWN_PARTITION) for one in asked]
    return AlterShareGroupOffsetsResponseTopic(name, NO_ID, tuple(partitions))
