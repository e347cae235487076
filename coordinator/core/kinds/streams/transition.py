"""One operation on a streams group while it is worked out, and how it begins."""

from typing import Any, Final

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.modern import transition
from coordinator.core.kinds.registry import kind_of
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.core.refusal import Refusal
from protocol.errors import ErrorCode

CLASSIC: Final = "classic"


class GroupTransition(transition.GroupTransition[StreamsGroup]):
    """An operation on a streams group."""

    is_new = False  # nobody has asked this group for anything before
    was_classic = False  # it is made of a classic one


def begin_transition(group: Any, group_id: str, env: Env, by: str) -> GroupTransition | Refusal:
    """Return the streams group that a member may join: as it is, made new, or made of an empty classic one."""
    if type(group) is StreamsGroup:
        return GroupTransition(group, env, by)
    if group is not None and not (kind_of(group).name == CLASSIC and group.is_empty):
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
    made = GroupTransition(StreamsGroup(group_id), env, by, None if group is None else group.state)
    made.is_new = True
    if group is None:
        made.tell(Cause.GROUP_CREATED)
    else:
        made.was_classic = True
        made.records.extend(kind_of(group).tombstones(group))
        made.tell(Cause.PROTOCOL_UPGRADED)
    return made
