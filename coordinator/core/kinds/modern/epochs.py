"""Epochs of groups and of their members, and the refusal of a request with another one."""

from typing import Any, Final, Protocol

from msgspec.structs import replace

from coordinator.core.env import Env
from coordinator.core.refusal import Refusal
from coordinator.core.result import LongTarget, Result, SetTimer
from coordinator.core.timers import session
from protocol.errors import ErrorCode

TOO_LARGE: Final = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
"""The refusal of a heartbeat whose records are more than the log takes at once."""
LEFT: Final = -1  # the epoch of a member that leaves for good, and of one whose current assignment was deleted
AWAY: Final = -2  # the epoch of a static member that left and is expected back


class GroupWithTarget(Protocol):
    """A group with a target assignment. Its epoch counts changes of what the target depends on."""

    @property
    def epoch(self) -> int: ...
    @property
    def assignment_epoch(self) -> int:
        """The epoch that the target was computed for."""

    @property
    def assignment_at_ms(self) -> int:
        """When that was; 0 if it is not known, so that the next need not wait."""

    @property
    def long_target(self) -> LongTarget | None:
        """The target that is being computed in steps."""


def is_target_due(group: GroupWithTarget, interval_ms: int, now_ms: int) -> bool:
    """Return whether the target is behind the group's epoch, and may be computed again already (KIP-1263)."""
    if group.epoch <= group.assignment_epoch or is_being_computed(group):
        return False
    return not is_within_interval(group, interval_ms, now_ms)


def is_being_computed(group: GroupWithTarget) -> bool:
    """Return whether a target is being computed in steps."""
    return group.long_target is not None and not group.long_target.is_too_large


def refuse_target(group: GroupWithTarget) -> Refusal | None:
    """Refuse a heartbeat that finds the target due, if the log does not take the target of this epoch.

    Kafka computes it again for each heartbeat, which is UNKNOWN_SERVER_ERROR then (`CoordinatorRuntime.append`).
    """
    target = group.long_target
    if target is None or not target.is_too_large or not group.assignment_epoch < group.epoch == target.epoch:
        return None
    return TOO_LARGE


def refuse_and_renew(group: Any, request: Any, refused: Result[Any], timeout_ms: int, env: Env) -> Result[Any]:
    """Renew the session of a member whose heartbeat is refused because the log does not take the records.

    Kafka schedules the timeout before it appends, and takes back what the records have changed, not timers
    (`GroupMetadataManager.consumerGroupHeartbeat`, `CoordinatorRuntime.append`). One that would join has no session.
    """
    if group is None or request.member_epoch < 0 or request.member_id not in group.members:
        return refused
    key = session(group.group_id, request.member_id)
    return replace(refused, effects=(SetTimer(key, env.call.now_ms + timeout_ms),))


def is_within_interval(group: GroupWithTarget, interval_ms: int, now_ms: int) -> bool:
    """Return whether the last target is too new for another one.

    A target from the future was computed before the clock was put back: waiting for its time could take for ever.
    """
    return 0 <= now_ms - group.assignment_at_ms < interval_ms


def fenced_epoch(kind: str, epoch: int, known: int) -> Refusal:
    """Refuse a request, because its epoch is not that of the member."""
    than = "greater" if epoch > known else "smaller"
    message = (
        f"The {kind} group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({known}). The member must abandon all its partitions and rejoin."
    )
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, message)
