"""Whether a request to a share group counts: what is wrong with a heartbeat as such, and with a member's epoch."""

from typing import Final

from coordinator.core.kinds.modern.epochs import LEFT, fenced_epoch
from coordinator.core.kinds.modern.validation import invalid, is_blank
from coordinator.core.kinds.share.group import Member, ShareGroup
from coordinator.core.limits import Limits
from coordinator.core.refusal import Refusal
from protocol.errors import ErrorCode
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

MEMBER_ID_MAX: Final = 36  # characters. Kafka: `KafkaApis.isMemberIdValid`


def validate_heartbeat(request: ShareGroupHeartbeatRequest) -> Refusal | None:
    """Return the first thing that is wrong, None if nothing is. Kafka: `throwIfShareGroupHeartbeatRequestIsInvalid`."""
    if not 1 <= _utf16_units(request.member_id) <= MEMBER_ID_MAX:
        return Refusal(ErrorCode.INVALID_REQUEST)  # without words, as by Kafka
    if is_blank(request.member_id):
        return invalid("MemberId can't be empty.")
    if is_blank(request.group_id):
        return invalid("GroupId can't be empty.")
    if is_blank(request.rack_id):
        return invalid("RackId can't be empty.")
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        return invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEFT:
        return invalid("MemberEpoch is invalid.")
    return None


def validate_room(group: ShareGroup, member_id: str, limits: Limits) -> Refusal | None:
    """Return why nobody may join. Kafka: `throwIfShareGroupIsFull`."""
    if len(group.members) < limits.group_share_max_size or member_id in group.members:
        return None
    message = f"The share group has reached its maximum capacity of {limits.group_share_max_size} members."
    return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def validate_epoch(member: Member, epoch: int) -> Refusal | None:
    """Return why a member may not go on with this epoch. The one before is taken for a retry; 0 rejoins."""
    if epoch in (0, member.epoch) or (epoch < member.epoch and epoch == member.previous_epoch):
        return None
    return fenced_epoch("share", epoch, member.epoch)


def no_share_group(group_id: str) -> Refusal:
    """Refuse a request, because no share group has that id; there may be one of another kind."""
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group, or does not exist.")


def _utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
