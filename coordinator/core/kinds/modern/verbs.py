"""What the operator's verbs do to groups with epochs, whichever kind they are of."""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator.core.events import Cause
from coordinator.core.kinds.modern.transition import GroupTransition
from coordinator.core.result import Result
from coordinator.core.verbs import Rebalance, RemoveMember, VerbResponse


def refuse(message: str) -> Result[Any]:
    """Answer a verb that cannot be carried out."""
    return Result(response=VerbResponse(message))


def refuse_unknown_member(verb: RemoveMember) -> Result[Any]:
    """Answer the removal of a member that is not there."""
    return refuse(f"there is no member {verb.member_id!r} in group {verb.group_id!r}")


def rebalance(transition: GroupTransition[Any], verb: Rebalance, raise_epoch: Callable[[Any], None]) -> Result[Any]:
    """Raise the group's epoch: a new target is computed at the next heartbeat of a member."""
    if not transition.group.members:
        return refuse(f"group {verb.group_id!r} has no members")
    raise_epoch(transition)
    transition.tell(Cause.REBALANCE_REQUESTED, reason=verb.reason)
    return transition.result(VerbResponse())


def write_target(
    transition: GroupTransition[Any], targets: Mapping[str, Any], records: Any, nothing: Any
) -> Result[Any]:
    """Write the target of each member, `nothing` for one without, as if an assignor had computed it.

    `records` is the module that makes the records of the kind.
    """
    group = transition.group
    for member_id in group.members:
        transition.write(records.target(group.group_id, member_id, targets.get(member_id, nothing)))
    transition.write(records.target_epoch(group.group_id, group.epoch, transition.now_ms))
    transition.tell(Cause.ASSIGNMENT_FORCED)
    return transition.result(VerbResponse())
