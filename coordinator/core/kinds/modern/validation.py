"""Validate requests to groups with epochs, whichever kind these are of."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from coordinator.core.env import Env
from coordinator.core.offsets.metadata_length import is_too_long
from coordinator.core.refusal import Refusal
from coordinator.core.topics import NO_ID, Topic
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

MEMBER_EPOCHS_SINCE: Final = 9  # of OffsetCommit: older clients do not know the errors
STALE_IN_TRANSACTIONS_SINCE: Final = 6  # of TxnOffsetCommit, which Kafka has from 4.4 on
UNKNOWN_EPOCH: Final = -1

Stale = Callable[[Any], ErrorCode]
"""The error for an epoch that is not the member's: STALE_MEMBER_EPOCH, or that of the protocol it speaks instead."""


def is_blank(text: str | None) -> bool:
    """Return whether a text is given, and is only white space."""
    return text is not None and not text.strip()


def invalid(message: str) -> Refusal:
    """Refuse a request that makes no sense."""
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def unknown_member(member_id: str, group_id: str) -> Refusal:
    """Refuse a request, because no member has that id."""
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def validate_commit(
    group: Any,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    env: Env,
    stale: Stale,
    has_owned_since: Callable[[Any, Any, Topic, int, int], bool],
) -> ErrorCode:
    """Return NONE if a member may commit these offsets.

    The request must have the member's epoch. An older epoch is good as well if the member has owned each committed
    partition since then: `has_owned_since(group, member, topic, partition, epoch)` says so (KIP-1251). Partitions that
    are refused by themselves do not count: those that do not exist, and those whose metadata is too long.
    """
    version, is_transactional = env.call.version, isinstance(request, TxnOffsetCommitRequest)
    epoch: int = (
        request.generation_id if isinstance(request, TxnOffsetCommitRequest) else request.generation_id_or_member_epoch
    )
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    names_nobody = not request.member_id and request.group_instance_id is None
    if is_transactional and epoch == UNKNOWN_EPOCH and names_nobody:
        return ErrorCode.NONE  # a producer that was not told which member it commits for
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = stale(member)
    if not is_transactional and error == ErrorCode.STALE_MEMBER_EPOCH and version < MEMBER_EPOCHS_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch < member.epoch and all(
        has_owned_since(group, member, topic, partition, epoch)
        for topic, partition in _acceptable_partitions(request, env)
    ):
        return ErrorCode.NONE
    if is_transactional and version < STALE_IN_TRANSACTIONS_SINCE:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def validate_fetch(group: Any, member_id: str | None, epoch: int, stale: Stale) -> ErrorCode:
    """Return NONE if the member may read the group's offsets. A request that names no member may."""
    if member_id is None:
        return ErrorCode.NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka 4.3 answers it
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else stale(member)


def _acceptable_partitions(request: Any, env: Env) -> Iterable[tuple[Topic, int]]:
    """Return the committed partitions that exist, with metadata that is not too long. Versions with names have the
    zero id."""
    most = env.limits.offset_metadata_max_bytes
    for asked in request.topics:
        topic_id = getattr(asked, "topic_id", NO_ID)
        topic = env.topics.get(asked.name) if topic_id == NO_ID else env.topics.by_id(topic_id)
        for partition in asked.partitions:
            if topic is None or not 0 <= partition.partition_index < topic.partitions:
                continue
            if not is_too_long(partition.committed_metadata, most):
                yield topic, partition.partition_index
