"""Checks that the requests about offsets share: that partitions exist, the sender, the length of metadata."""

from typing import Final, Protocol

from coordinator.core.env import Env
from coordinator.core.groups import Group
from coordinator.core.kinds.classic.states import COMMIT
from coordinator.core.kinds.classic.validation import validate_member
from coordinator.core.kinds.consumer import validation as consumer
from coordinator.core.kinds.consumer.group import ConsumerGroup
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


def topic_meant(topic: NamedTopic, version: int, topics: Topics) -> Topic | ErrorCode:
    """Return the topic that a request names, or the error for each of its partitions."""
    if version >= TOPIC_IDS_SINCE:
        found = None if topic.topic_id == NO_ID else topics.by_id(topic.topic_id)
        return ErrorCode.UNKNOWN_TOPIC_ID if found is None else found
    found = topics.get(topic.name)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found


def is_too_long(metadata: str | None, most: int) -> bool:
    """Return whether a commit's metadata is longer than `most` UTF-16 code units, which is how Kafka counts its
    bytes."""
    if metadata is None or len(metadata) * 2 <= most:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > most


def validate_commit(group: Group | None, request: OffsetCommitRequest, env: Env) -> ErrorCode:
    """Return why the group refuses an OffsetCommit, NONE if it does not.

    A commit without a generation is one of a consumer that manages its partitions itself, or an operator's: it is
    taken as long as the group has no members.
    """
    if isinstance(group, ConsumerGroup):
        return consumer.validate_commit(group, request, env)
    generation, member_id = request.generation_id_or_member_epoch, request.member_id
    instance_id, version = request.group_instance_id, env.call.version
    if group is None:
        if generation < 0:
            return ErrorCode.NONE  # a group of offsets alone comes to be
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.is_empty:
        return ErrorCode.NONE
    if generation < 0 and not member_id and instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if error := validate_member(group, member_id, instance_id):
        return error
    return ErrorCode.ILLEGAL_GENERATION if generation != group.generation else COMMIT[group.state]


def validate_txn_commit(group: Group | None, request: TxnOffsetCommitRequest, env: Env) -> ErrorCode:
    """Return the same for TxnOffsetCommit, whose old versions know no members, and which no state stops."""
    if not request.group_id:  # which OffsetCommit takes for an id like any other
        return ErrorCode.INVALID_GROUP_ID
    if isinstance(group, ConsumerGroup):
        return consumer.validate_commit(group, request, env)
    generation, member_id, instance_id = request.generation_id, request.member_id, request.group_instance_id
    if group is None:
        return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and (group.is_empty or (not member_id and instance_id is None)):
        return ErrorCode.NONE
    if error := validate_member(group, member_id, instance_id):
        return error
    return ErrorCode.ILLEGAL_GENERATION if generation != group.generation else ErrorCode.NONE


def exists(partition: int, topic: Topic) -> bool:
    """Return whether the topic has that partition."""
    return 0 <= partition < topic.partitions
