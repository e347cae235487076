"""What is wrong with a heartbeat as such, whichever protocol with epochs it is of."""

from coordinator.core.refusal import Refusal
from protocol.errors import ErrorCode


def is_blank(text: str | None) -> bool:
    """Return whether a text is there, and says nothing."""
    return text is not None and not text.strip()


def invalid(message: str) -> Refusal:
    """Refuse a request that makes no sense."""
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def unknown_member(member_id: str, group_id: str) -> Refusal:
    """No member of that id."""
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")
