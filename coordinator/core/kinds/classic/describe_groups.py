"""DescribeGroups: describe classic groups and their members.

Shown by tests/core/scripts/offsets/describe.txt and tests/conformance/stories/admin_groups.py.
"""

from typing import Final

from coordinator.core.env import Env
from coordinator.core.kinds.classic.group import ClassicGroup, Member
from coordinator.core.kinds.classic.states import State
from coordinator.core.refusal import truncate
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import (
    DescribeGroupsResponseDescribedGroup,
    DescribeGroupsResponseDescribedGroupMember,
)

NOT_FOUND_SINCE: Final = 6  # earlier versions describe a group that does not exist as a dead one


def describe(group: object, group_id: str, env: Env) -> DescribeGroupsResponseDescribedGroup:
    """Describe a group. A group that does not exist (None) or is not a classic one is described as dead."""
    if isinstance(group, ClassicGroup):
        return _describe_members(group)
    if env.call.version < NOT_FOUND_SINCE:
        return DescribeGroupsResponseDescribedGroup(group_id=group_id, group_state=State.DEAD.value)
    why = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
    return DescribeGroupsResponseDescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=truncate(why),
        group_id=group_id,
        group_state=State.DEAD.value,
    )


def _describe_members(group: ClassicGroup) -> DescribeGroupsResponseDescribedGroup:
    """Describe the members. The protocol and the members' metadata are reported only while the group is stable."""
    protocol = group.protocol if group.state is State.STABLE else None
    return DescribeGroupsResponseDescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=tuple([_describe_member(member, protocol) for member in group.members.values()]),
    )


def _describe_member(member: Member, protocol: str | None) -> DescribeGroupsResponseDescribedGroupMember:
    return DescribeGroupsResponseDescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=member.assignment,
    )
