"""Members that leave, or are made to: gone in one batch and with one rise of the epoch.

Nothing is assigned anew here. What they had is free at once, and the next heartbeat of a member that stays finds that.
"""

from collections.abc import Mapping
from typing import Any

from coordinator.core.events import Cause
from coordinator.core.kinds.streams import record_builders
from coordinator.core.kinds.streams.group import Member
from coordinator.core.kinds.streams.transition import GroupTransition
from coordinator.core.result import Result


def remove_members(
    transition: GroupTransition, members: Mapping[str, Member], response: Any, cause: Cause, reason: str = ""
) -> Result[Any]:
    """Return the group without these members, answering `response`."""
    if not members:
        return transition.result(response)
    for member_id in members:
        transition.write(*record_builders.removal(transition.group.group_id, member_id))
    raise_epoch(transition)
    for member in members.values():
        transition.tell(cause, member, reason=reason)
    return transition.result(response)


def raise_epoch(transition: GroupTransition) -> None:
    """Raise the group's epoch, with the topics and settings that it was raised for before."""
    group = transition.group
    transition.write(
        record_builders.epoch(
            group.group_id, group.epoch + 1, group.metadata_hash, group.validated_epoch, group.settings
        )
    )
