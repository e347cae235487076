"""Answers to members, each built in one place."""

from coordinator.core.kinds.classic.group import ClassicGroup, Member
from coordinator.core.refusal import refuse_join
from coordinator.core.result import Reply
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.sync_group import SyncGroupResponse


def join_response(
    group: ClassicGroup, member_id: str, *, leader: str | None = None, skip: bool = False
) -> JoinGroupResponse:
    """Admission to the current generation. Only the leader learns who else is in it."""
    leader = leader or group.leader
    assert leader is not None, f"group {group.group_id} has members and no leader"
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader,
        skip_assignment=skip,
        member_id=member_id,
        members=roster(group) if leader == member_id else (),
    )


def roster(group: ClassicGroup) -> tuple[JoinGroupResponseMember, ...]:
    """Return all members with what they said under the chosen protocol."""
    protocol = group.protocol
    return tuple(
        [
            JoinGroupResponseMember(member.member_id, member.instance_id, member.metadata(protocol))
            for member in group.members.values()
        ]
    )


def refuse_sync(error: ErrorCode) -> SyncGroupResponse:
    """Refuse a SyncGroup: there is no assignment."""
    return SyncGroupResponse(error_code=error)


def refuse_parked_requests(member: Member, error: ErrorCode, member_id: str) -> tuple[Reply, ...]:
    """Refuse the parked requests of a member. (Kafka never answers the SyncGroup of a member that is removed.)"""
    replies: tuple[Reply, ...] = ()
    if member.join_ticket is not None:
        replies += (Reply(member.join_ticket, refuse_join(error, member_id, member.join_version)),)
    if member.sync_ticket is not None:
        replies += (Reply(member.sync_ticket, refuse_sync(error)),)
    return replies


def sync_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """Return the member's assignment in the current generation."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
