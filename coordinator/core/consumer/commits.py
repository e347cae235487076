"""Whether a member's offsets count: the member epoch, and for one that is behind the epochs of its partitions.

A member of the new protocol hears STALE_MEMBER_EPOCH: try again with the epoch of the next heartbeat. A classic one
hears ILLEGAL_GENERATION. One partition that is refused refuses the whole request.
"""

from collections.abc import Iterable
from typing import Any, Final

from coordinator.core.consumer.group import ConsumerGroup, Member
from coordinator.core.env import Env
from coordinator.core.topics import NO_ID, Topics
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

MEMBER_EPOCHS_SINCE: Final = 9  # of OffsetCommit: older clients do not know the errors
STALE_IN_TRANSACTIONS_SINCE: Final = 6  # of TxnOffsetCommit, which Kafka has from 4.4 on
UNKNOWN_EPOCH: Final = -1


def validate_commit(group: ConsumerGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest, env: Env) -> ErrorCode:
    """NONE when the commit counts."""
    call, topics = env.call, env.topics
    is_transactional = isinstance(request, TxnOffsetCommitRequest)
    epoch = request.generation_id if isinstance(request, TxnOffsetCommitRequest) else _epoch(request)
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    names_nobody = not request.member_id and request.group_instance_id is None
    if is_transactional and epoch == UNKNOWN_EPOCH and names_nobody:
        return ErrorCode.NONE  # a producer that was not told which member it commits for
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not is_transactional and member.classic is None and call.version < MEMBER_EPOCHS_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch < member.epoch and all(_owned_since(member, topic, p, epoch) for topic, p in _partitions(request, topics)):
        return ErrorCode.NONE
    if is_transactional and call.version < STALE_IN_TRANSACTIONS_SINCE:
        return ErrorCode.ILLEGAL_GENERATION
    return stale(member)


def validate_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """NONE when the member may read the group's offsets; whoever names no member may."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    if member_id is None:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka 4.3 answers it
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else stale(member)


def stale(member: Member) -> ErrorCode:
    """The word for an epoch that is not the member's, in the member's protocol."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _epoch(request: Any) -> int:
    epoch: int = request.generation_id_or_member_epoch
    return epoch


def _owned_since(member: Member, topic_id: bytes, partition: int, epoch: int) -> bool:
    """Whether the member has owned the partition at that epoch already (KIP-1251)."""
    since = member.assigned.get(topic_id, {}).get(partition)
    if since is None:
        since = member.pending.get(topic_id, {}).get(partition)
    return since is not None and epoch >= since


def _partitions(request: Any, topics: Topics) -> Iterable[tuple[bytes, int]]:
    """What is committed, as far as it exists, by topic ids. Versions with names have the zero id."""
    for asked in request.topics:
        topic_id = getattr(asked, "topic_id", NO_ID)
        topic = topics.get(asked.name) if topic_id == NO_ID else topics.by_id(topic_id)
        for partition in asked.partitions:
            if topic is not None and 0 <= partition.partition_index < topic.partitions:
                yield topic.id, partition.partition_index
