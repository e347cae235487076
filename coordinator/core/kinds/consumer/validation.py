"""Whether a request counts: what is wrong with a ConsumerGroupHeartbeat as such, and whose offsets may be committed.

A commit counts by the member epoch, and for a member that is behind by the epochs of its partitions. The error for a
member of the new protocol is STALE_MEMBER_EPOCH: try again with the epoch of the next heartbeat. For a classic member
it is ILLEGAL_GENERATION. One partition that is refused refuses the whole request.

Shown by tests/core/scripts/consumer/{validation,commits*}.txt and tests/conformance/stories/consumer_offsets.py.
"""

from coordinator.core import regex
from coordinator.core.env import Env
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.modern import validation
from coordinator.core.kinds.modern.epochs import AWAY, LEFT
from coordinator.core.kinds.modern.validation import invalid, is_blank
from coordinator.core.limits import Limits
from coordinator.core.refusal import Refusal
from coordinator.core.topics import Topic
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


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
    """Refuse a request, because no static member has that instance id."""
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
    """Return NONE if a member may commit these offsets."""
    return validation.validate_commit(group, request, env, stale, _has_owned_since)


def validate_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Return NONE if the member may read the group's offsets."""
    return validation.validate_fetch(group, member_id, epoch, stale)


def stale(member: Member) -> ErrorCode:
    """Return the error for an epoch that is not the member's, in the member's protocol."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _has_owned_since(group: ConsumerGroup, member: Member, topic: Topic, partition: int, epoch: int) -> bool:
    """Return whether the member has owned the partition at that epoch already."""
    since = member.assigned.get(topic.id, {}).get(partition)
    if since is None:
        since = member.pending.get(topic.id, {}).get(partition)
    return since is not None and epoch >= since
