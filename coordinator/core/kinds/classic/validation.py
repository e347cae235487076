"""Validate the sender of a request: the checks that requests share."""

from collections.abc import Sequence
from typing import assert_never

from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.states import State
from coordinator.core.limits import Limits
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequestProtocol


def validate_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Return NONE for a member of the group. The instance id, if one is given, must be the member's own (KIP-345)."""
    if instance_id is not None:
        known = group.instances.get(instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if known != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if group.members.get(member_id) is not None else ErrorCode.UNKNOWN_MEMBER_ID


def supports_protocols(group: ClassicGroup, protocol_type: str, protocols: Sequence[JoinGroupRequestProtocol]) -> bool:
    """Return whether a joiner fits: into an empty group any type with a protocol does, else there must be one for all.

    All members count, the joiner's own old entry among them, as in Kafka: so a lone member that comes back with other
    protocols is refused.
    """
    if group.is_empty:
        return protocol_type != "" and len(protocols) > 0
    if group.protocol_type != protocol_type:
        return False
    everybody, supports = len(group.members), group.supports
    return everybody in [supports.get(protocol.name, 0) for protocol in protocols]


def has_room(group: ClassicGroup, member_id: str, limits: Limits) -> bool:
    """Return whether `group.max.size` lets a joiner in.

    In a rebalance those who have joined count, and not the members: so the last ones to come back to a group that is
    too large are refused.
    """
    match group.state:
        case State.EMPTY | State.DEAD:
            return True
        case State.PREPARING_REBALANCE:
            if group.joined < limits.group_max_size:
                return True
            member = group.members.get(member_id)
            return member is not None and member.join_ticket is not None
        case State.COMPLETING_REBALANCE | State.STABLE:
            return member_id in group.members or len(group.members) < limits.group_max_size
        case never:
            assert_never(never)
