"""A heartbeat that is sent again, and does the same again.

Nearly every heartbeat is the one before it once more, comes to a group in which nothing has happened since, and renews
the same session. A group is a value, which is replaced whenever anything in it changes. So until it is replaced, what
was decided once holds, and only the time is new.
"""

from typing import Final

from msgspec import Struct

from coordinator.core.kinds.kind import Group
from coordinator.core.kinds.registry import kind_of
from coordinator.core.limits import Limits
from coordinator.core.timers import Timer, Timers, session
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

SUCCESS: Final = HeartbeatResponse()
"""The response to a heartbeat that may be done again: this very object, and no equal one."""


class Validity(Struct, gc=False):
    """Whether a group is still the value that it was.

    It does not hold the group: old values would live as long as the connections that keep a renewal.
    """

    is_current: bool = True


class Renewal(Struct, frozen=True, gc=False):
    """What a successful heartbeat of a member has done. To do it again is to postpone the timer, while the group is
    the same value."""

    group_id: str
    validity: Validity  # of the group, shared by its renewals
    timer: Timer  # of the member's session
    timeout_ms: int


class Renewals:
    """Makes the renewals of a shard, and ends them when their groups change."""

    __slots__ = ("_current",)

    def __init__(self) -> None:
        self._current: dict[str, Validity] = {}  # by group id; of groups that have renewals

    def __len__(self) -> int:
        """Return how many groups have renewals."""
        return len(self._current)

    def find(self, group: Group | None, timers: Timers, heartbeat: HeartbeatRequest, limits: Limits) -> Renewal | None:
        """Return what a heartbeat has done that was successful a moment ago; None if it was to a group of a kind where
        it depends on more than the group."""
        timer = timers.find(session(heartbeat.group_id, heartbeat.member_id))
        if group is None or timer is None or not (kind := kind_of(group)).repeats_heartbeats:
            return None
        validity = self._current.setdefault(group.group_id, Validity())
        timeout_ms = kind.session_timeout_ms(group, heartbeat.member_id, limits)
        return Renewal(group.group_id, validity, timer, timeout_ms)

    def end(self, group_id: str) -> None:
        """End those of a group: it is another value now, or gone."""
        if self._current and (validity := self._current.pop(group_id, None)) is not None:
            validity.is_current = False

    def end_all(self) -> None:
        """End all of them."""
        for group_id in tuple(self._current):
            self.end(group_id)
