"""Checks that the requests about offsets share: that partitions exist, and the sender."""

from typing import Final, Protocol

from coordinator.core.env import Env
from coordinator.core.kinds.kind import Group
from coordinator.core.kinds.registry import kind_of
from coordinator.core.topics import NO_ID, Topic, Topics
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

TOPIC_IDS_SINCE: Final = 10  # KIP-848: OffsetCommit and OffsetFetch name topics by id


class NamedTopic(Protocol):
    """A topic in a request: by name, or from version 10 by id."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> bytes: ...


def resolve_topic(topic: NamedTopic, version: int, topics: Topics) -> Topic | ErrorCode:
    """Return the topic that a request names, or the error for each of its partitions."""
    if version >= TOPIC_IDS_SINCE:
        found = None if topic.topic_id == NO_ID else topics.by_id(topic.topic_id)
        return ErrorCode.UNKNOWN_TOPIC_ID if found is None else found
    found = topics.get(topic.name)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found


def validate_commit(group: Group | None, request: OffsetCommitRequest, env: Env) -> ErrorCode:
    """Return why an OffsetCommit is refused, NONE if it is not."""
    return validate_first_commit(request, env) if group is None else kind_of(group).validate_commit(group, request, env)


def validate_first_commit(request: OffsetCommitRequest, env: Env) -> ErrorCode:
    """Return the same where there is no group. Without a generation the commit makes one of offsets alone."""
    if request.generation_id_or_member_epoch < 0:
        return ErrorCode.NONE
    return ErrorCode.GROUP_ID_NOT_FOUND if env.call.version >= 9 else ErrorCode.ILLEGAL_GENERATION


def validate_txn_commit(group: Group | None, request: TxnOffsetCommitRequest, env: Env) -> ErrorCode:
    """Return the same for TxnOffsetCommit."""
    if not request.group_id:  # which OffsetCommit takes for an id like any other
        return ErrorCode.INVALID_GROUP_ID
    if env.offsets.is_ending(request.producer_id):  # a marker came from an administrator, and there is much to commit
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if group is not None:
        return kind_of(group).validate_commit(group, request, env)
    return ErrorCode.NONE if request.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION


def exists(partition: int, topic: Topic) -> bool:
    """Return whether the topic has that partition."""
    return 0 <= partition < topic.partitions
