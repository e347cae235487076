"""Members that leave, or are made to: gone in one batch and with one rise of the epoch.

Nothing is assigned anew here. What they held is free at once, and the next heartbeat of somebody who stays finds that.
Where only members of the classic protocol stay, the group becomes a classic one instead, if the policy lets it.
"""

from collections.abc import Mapping
from typing import Any

from coordinator.core.consumer import downgrade, facts
from coordinator.core.consumer.group import Member
from coordinator.core.consumer.subscription import metadata_hash
from coordinator.core.consumer.turn import Turn
from coordinator.core.events import Cause
from coordinator.core.refusal import Refusal
from coordinator.core.result import Result


def removed(
    turn: Turn, members: Mapping[str, Member], response: Any, cause: Cause, reason: str = ""
) -> Result[Any] | Refusal:
    """The group without these members, answering `response`."""
    if not members:
        return turn.result(response)
    if downgrade.is_possible_without(turn.group, members, turn.limits):
        return downgrade.downgraded(turn, members, response, cause)
    group = turn.group
    for member_id in members:
        turn.write(*facts.removal(group.group_id, member_id))
        turn.cancel_timers(member_id)
    gone = {member.pattern for member in members.values() if member.pattern} - turn.group.patterns.keys()
    turn.write(*(facts.no_pattern(group.group_id, pattern) for pattern in sorted(gone)))
    epoch = group.epoch + 1
    turn.write(facts.epoch(group.group_id, epoch, metadata_hash(turn.group, turn.topics)))
    if not turn.group.members:
        turn.write(facts.target_epoch(group.group_id, epoch, 0))
    for member in members.values():
        turn.tell(cause, member, reason=reason)
    return turn.result(response)
