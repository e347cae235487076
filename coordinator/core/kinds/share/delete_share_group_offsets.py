"""DeleteShareGroupOffsets: the states of topics are forgotten, of a share group without members.

DeleteShareGroupOffsets     record 15: the topics are being deleted     the runtime asks the share coordinator
NoteEndedStates            record 15: they are gone

Shown by tests/runtime/test_share_states.py.
"""

from typing import Any

from coordinator.core.cleanup import forget_group
from coordinator.core.env import Env
from coordinator.core.kinds.modern.transition import GroupTransition
from coordinator.core.kinds.share.group import ShareGroup, StateTopics
from coordinator.core.kinds.share.state_partitions import find_all_states, write_states
from coordinator.core.kinds.share.validation import no_share_group
from coordinator.core.result import EndAllShareStates, EndShareStates, NoteEndedStates, Result
from coordinator.core.topics import Topic
from coordinator.core.verbs import BY as OPERATOR
from coordinator.core.verbs import Forget, VerbResponse
from protocol.errors import ErrorCode
from protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

BY = "DeleteShareGroupOffsets"
NOTHING_TO_DELETE = "There is no offset information to delete."
UNKNOWN_TOPIC = "This server does not host this topic-partition."


def delete_share_group_offsets(
    group: ShareGroup | None, request: DeleteShareGroupOffsetsRequest, env: Env
) -> Result[Any]:
    """Decide which states end. Kafka: `GroupMetadataManager.sharePartitionsEligibleForOffsetDeletion`."""
    if not request.group_id:
        return refuse(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    if group is None:
        return _no_group(request.group_id)
    if group.members:
        return refuse(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    initializing, initialized, deleting = dict(group.initializing), dict(group.initialized), dict(group.deleting)
    ending: dict[bytes, tuple[int, ...]] = {}
    errors: list[DeleteShareGroupOffsetsResponseTopic] = []
    for name in (one.topic_name for one in request.topics):
        topic = env.topics.get(name)
        found = _partitions(group, topic)
        if topic is None or not found:
            message = UNKNOWN_TOPIC if topic is None else NOTHING_TO_DELETE
            errors.append(_error(name, message))
            continue
        ending[topic.id] = found
        initializing.pop(topic.id, None)
        initialized.pop(topic.id, None)
        deleting[topic.id] = topic.name
    transition = GroupTransition(group, env, BY)
    response = DeleteShareGroupOffsetsResponse(responses=tuple(errors))
    if group.initializing or group.initialized or group.deleting:
        write_states(transition, initializing, initialized, deleting)
    if ending:
        transition.effects.append(EndShareStates(group.group_id, ending, transition.now_ms, response))
    return transition.result(response)


def end_all_states(group: ShareGroup, request: EndAllShareStates, env: Env) -> Result[Any]:
    """Begin to end all states of an empty group, which is deleted next.

    Kafka: `GroupMetadataManager.shareGroupBuildPartitionDeleteRequest`.
    """
    states = find_all_states(group, env.topics)
    if not states:
        return Result(response=ErrorCode.NONE)
    return _end(GroupTransition(group, env, "DeleteGroups"), states).result()


def forget(group: ShareGroup, verb: Forget, env: Env) -> Result[Any]:
    """Begin to end all states of a group, with members or without, or remove the group if it has none.

    A group of the same id would go on where this one has stopped, if its states stayed. They end first, so that a
    server that stops meanwhile still has the group to forget.
    """
    states = find_all_states(group, env.topics)
    if not states:
        return forget_group(group, verb, env)
    return _end(GroupTransition(group, env, OPERATOR), states, forgets=True).result(VerbResponse())


def _end(
    transition: GroupTransition[ShareGroup], states: StateTopics, *, forgets: bool = False
) -> GroupTransition[ShareGroup]:
    """Write that these states are going, and ask the share coordinator to forget them."""
    write_states(transition, {}, {}, {topic_id: one.name for topic_id, one in states.items()})
    ending = {topic_id: one.partitions for topic_id, one in states.items()}
    effect = EndShareStates(transition.group.group_id, ending, transition.now_ms, forgets=forgets)
    transition.effects.append(effect)
    return transition


def note_ended_states(group: ShareGroup, told: NoteEndedStates, env: Env) -> Result[Any]:
    """Write that the states of topics are gone. Kafka: `completeDeleteShareGroupOffsets`."""
    transition = GroupTransition(group, env, "ShareStates")
    deleting = {topic_id: name for topic_id, name in group.deleting.items() if topic_id not in told.topics}
    write_states(transition, group.initializing, group.initialized, deleting)
    return transition.result()


def refuse_other_kind(group: Any, request: DeleteShareGroupOffsetsRequest, env: Env) -> Result[Any]:
    """Refuse to delete the share offsets of a group of another kind."""
    if not request.group_id:
        return refuse(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    return _no_group(request.group_id)


def refuse(error: ErrorCode, message: str | None) -> Result[Any]:
    """Answer with an error of the whole request."""
    return Result(response=DeleteShareGroupOffsetsResponse(error_code=error, error_message=message))


def _no_group(group_id: str) -> Result[Any]:
    refusal = no_share_group(group_id)
    return refuse(refusal.error, refusal.message)


def _partitions(group: ShareGroup, topic: Topic | None) -> tuple[int, ...]:
    """Return the partitions of a topic of which states may exist."""
    if topic is None:
        return ()
    if topic.id in group.initialized:
        asked = group.initializing.get(topic.id)
        return tuple(sorted({*group.initialized[topic.id].partitions, *(() if asked is None else asked.partitions)}))
    return tuple(range(topic.partitions)) if topic.id in group.deleting else ()


def _error(name: str, message: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=message
    )
