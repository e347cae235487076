"""What is wrong with a ConsumerGroupHeartbeat as such, before any group is looked at."""

from coordinator.core.consumer.group import AWAY, LEFT
from coordinator.core.limits import Limits
from coordinator.core.refusal import Refusal
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def validate_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, limits: Limits) -> Refusal | None:
    """The first thing that is wrong, None if nothing is."""
    epoch, is_joining = request.member_epoch, request.member_epoch == 0
    if _is_blank(request.member_id) and (version >= 1 or epoch > 0 or epoch == LEFT):
        return _invalid("MemberId can't be empty.")
    if _is_blank(request.group_id):
        return _invalid("GroupId can't be empty.")
    if _is_blank(request.instance_id):
        return _invalid("InstanceId can't be empty.")
    if _is_blank(request.rack_id):
        return _invalid("RackId can't be empty.")
    if is_joining and request.rebalance_timeout_ms == -1:
        return _invalid("RebalanceTimeoutMs must be provided in first request.")
    if is_joining and (request.topic_partitions is None or request.topic_partitions):
        return _invalid("TopicPartitions must be empty when (re-)joining.")
    if is_joining and request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    if epoch == AWAY and request.instance_id is None:
        return _invalid("InstanceId can't be null.")
    if epoch < AWAY:
        return _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in limits.group_consumer_assignors:
        supported = ", ".join(limits.group_consumer_assignors)
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}."
        return Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    return None


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
