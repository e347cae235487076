"""What a member may do wrong, as a value: the error it is answered, and a sentence for people."""

from coordinator.core import regex
from coordinator.core.refusal import Refusal
from protocol.errors import ErrorCode


def unknown_member(member_id: str, group_id: str) -> Refusal:
    """No member of that id."""
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def unknown_instance(instance_id: str) -> Refusal:
    """No static member of that instance id."""
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def fenced_instance(instance_id: str, member_id: str) -> Refusal:
    """The static member goes by another member id by now."""
    message = f"Static member {member_id} with instance id {instance_id} was fenced by another member."
    return Refusal(ErrorCode.FENCED_INSTANCE_ID, message)


def of_pattern(pattern: str) -> Refusal | None:
    """Why nobody can subscribe to what matches the pattern, or None when one can."""
    reason = regex.reason_invalid(pattern)
    if reason is None:
        return None
    message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
    return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
