"""Build the events of a classic group: its state before and after, and the cause."""

from msgspec import Struct

from coordinator.core.events import Cause, Event
from coordinator.core.kinds.classic.group import ClassicGroup, Member


class Why(Struct, frozen=True, gc=False):
    """Why a group moves: the cause, the request or timer, the member it is about, and the member's own words."""

    cause: Cause
    by: str
    member: Member | None = None
    member_id: str = ""  # where there is no member (any more)
    reason: str | None = None
    last_beat_ms: int = -1
    deadline_ms: int = -1


def event(before: ClassicGroup, after: ClassicGroup, now_ms: int, why: Why) -> Event:
    """Return the event that `after` came of `before`, or that something happened to a member while the state stayed."""
    member = why.member
    return Event(
        at_ms=now_ms,
        group=after.group_id,
        cause=why.cause,
        before=before.state,
        after=after.state,
        generation=after.generation,
        member=why.member_id if member is None else member.member_id,
        instance=None if member is None else member.instance_id,
        client_id="" if member is None else member.client_id,
        protocol=after.protocol or "",
        members=len(after.members),
        by=why.by,
        reason=why.reason or "",
        last_beat_ms=why.last_beat_ms,
        deadline_ms=why.deadline_ms,
    )
