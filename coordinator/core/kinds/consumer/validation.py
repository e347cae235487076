"""Whether a request counts: what is wrong with a ConsumerGroupHeartbeat as such, and whose offsets may be committed.

A commit counts by the member epoch, and for a member that is behind by the epochs of its partitions. The error for a
member of the new protocol is STALE_MEMBER_EPOCH: try again with the epoch of the next heartbeat. For a classic member
it is ILLEGAL_GENERATION. One partition that is refused refuses the whole request.
"""

from collections.abc import Iterable
from typing import Any, Final

from coordinator.core import regex
from coordinator.core.env import Env
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.modern.epochs import AWAY, LEFT
from coordinator.core.kinds.modern.validation import invalid, is_blank
from coordinator.core.limits import Limits
from coordinator.core.refusal import Refusal
from coordinator.core.topics import NO_ID, Topics
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

MEMBER_EPOCHS_SINCE: Final = 9  # of OffsetCommit: older clients do not know the errors
STALE_IN_TRANSACTIONS_SINCE: Final = 6  # of TxnOffsetCommit, which Kafka has from 4.4 on
UNKNOWN_EPOCH: Final = -1


def validate_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, limits: Limits) -> Refusal | None:
    """Return the first thing that is wrong, None if nothing is."""
    epoch, is_joining = request.member_epoch, request.member_epoch == 0
    if is_blank(request.member_id) and (version >= 1 or epoch > 0 or epoch == LEFT):
        return invalid("MemberId can't be empty.")
    if is_blank(request.group_id):
        return invalid("GroupId can't be empty.")
    if is_blank(request.instance_id):
        return invalid("InstanceId can't be empty.")
    if is_blank(request.rack_id):
        return invalid("RackId can't be empty.")
    if is_joining and request.rebalance_timeout_ms == -1:
        return invalid("RebalanceTimeoutMs must be provided in first request.")
    if is_joining and (request.topic_partitions is None or request.topic_partitions):
        return invalid("TopicPartitions must be empty when (re-)joining.")
    if is_joining and request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    if epoch == AWAY and request.instance_id is None:
        return invalid("InstanceId can't be null.")
    if epoch < AWAY:
        return invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in limits.group_consumer_assignors:
        supported = ", ".join(limits.group_consumer_assignors)
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}."
        return Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    return None


def unknown_instance(instance_id: str) -> Refusal:
    """No static member of that instance id."""
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def fenced_instance(instance_id: str, member_id: str) -> Refusal:
    """Refuse a request, because the static member has another member id by now."""
    message = f"Static member {member_id} with instance id {instance_id} was fenced by another member."
    return Refusal(ErrorCode.FENCED_INSTANCE_ID, message)


def of_pattern(pattern: str) -> Refusal | None:
    """Return why nobody can subscribe to what matches the pattern, or None when one can."""
    reason = regex.reason_invalid(pattern)
    if reason is None:
        return None
    message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
    return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message)


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
    """Return the word for an epoch that is not the member's, in the member's protocol."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _epoch(request: Any) -> int:
    epoch: int = request.generation_id_or_member_epoch
    return epoch


def _owned_since(member: Member, topic_id: bytes, partition: int, epoch: int) -> bool:
    """Return whether the member has owned the partition at that epoch already (KIP-1251)."""
    since = member.assigned.get(topic_id, {}).get(partition)
    if since is None:
        since = member.pending.get(topic_id, {}).get(partition)
    return since is not None and epoch >= since


def _partitions(request: Any, topics: Topics) -> Iterable[tuple[bytes, int]]:
    """Return the committed partitions that exist, by topic id. Versions with names have the zero id."""
    for asked in request.topics:
        topic_id = getattr(asked, "topic_id", NO_ID)
        topic = topics.get(asked.name) if topic_id == NO_ID else topics.by_id(topic_id)
        for partition in asked.partitions:
            if topic is not None and 0 <= partition.partition_index < topic.partitions:
                yield topic.id, partition.partition_index
