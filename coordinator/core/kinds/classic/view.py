"""What an operator sees of the members of a classic group."""

from coordinator.core.group_view import Assignment, MemberView
from coordinator.core.kinds.classic.group import ClassicGroup, Member
from coordinator.core.kinds.classic.voting import CONSUMER
from coordinator.core.topics import Topics
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import partitions_by_topic, read_assignment


def view(group: ClassicGroup, topics: Topics) -> list[MemberView]:
    """Return its members."""
    return [_view_member(group, member) for member in group.members.values()]


def _view_member(group: ClassicGroup, member: Member) -> MemberView:
    waits_in = "JoinGroup" if member.join_ticket is not None else "SyncGroup" if member.sync_ticket is not None else ""
    return MemberView(
        member.member_id,
        member.client_id,
        member.instance_id,
        member.client_host,
        _decode_assignment(member.assignment) if group.protocol_type == CONSUMER else {},
        waits_in=waits_in,
    )


def _decode_assignment(data: bytes) -> Assignment:
    """Read an assignment of a consumer. One that cannot be read belongs to the clients, and shows as empty."""
    try:
        return partitions_by_topic(read_assignment(data))
    except ProtocolError:
        return {}
