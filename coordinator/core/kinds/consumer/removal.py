"""Members that leave, or are made to: gone in one batch and with one rise of the epoch.

Nothing is assigned anew here. What they held is free at once, and the next heartbeat of somebody who stays finds that.
Where only members of the classic protocol stay, the group becomes a classic one instead, if the policy lets it.
"""

from collections.abc import Mapping
from typing import Any

from coordinator.core.events import Cause
from coordinator.core.kinds.consumer import downgrade, record_builders
from coordinator.core.kinds.consumer.group import Member
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.kinds.modern.topics import metadata_hash
from coordinator.core.refusal import Refusal
from coordinator.core.result import Result


def remove_members(
    transition: GroupTransition,
    members: Mapping[str, Member],
    response: Any,
    cause: Cause,
    reason: str = "",
) -> Result[Any] | Refusal:
    """Return the group without these members, answering `response`."""
    if not members:
        return transition.result(response)
    if downgrade.is_possible_without(transition.group, members, transition.limits):
        return downgrade.downgrade_without(transition, members, response, cause)
    group = transition.group
    for member_id in members:
        transition.write(*record_builders.removal(group.group_id, member_id))
    gone = {member.pattern for member in members.values() if member.pattern} - transition.group.patterns.keys()
    transition.write(*(record_builders.no_pattern(group.group_id, pattern) for pattern in sorted(gone)))
    epoch = group.epoch + 1
    transition.write(record_builders.epoch(group.group_id, epoch, metadata_hash(transition.group, transition.topics)))
    if not transition.group.members:
        transition.write(record_builders.target_epoch(group.group_id, epoch, 0))
    for member in members.values():
        transition.tell(cause, member, reason=reason)
    return transition.result(response)
