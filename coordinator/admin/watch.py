"""`GET /v1/watch`: the groups as they change, as server-sent events. The page lives on it.

The first message has everything, each later one what is different. A message is sent at most every fifth of a second,
and the server spends a twentieth of its time on a watcher at most.
"""

from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import msgspec
import trio
from msgspec import Struct

from coordinator.admin.control_types import FaultView, WatchQuery
from coordinator.control.timeline import as_data
from coordinator.core.events import Event
from coordinator.core.group_view import GroupView
from coordinator.dataplane.share.operating import SharePartitionView
from coordinator.events import Ring
from coordinator.runtime.node import Node
from coordinator.server.operator import Operator
from coordinator.server.verbs.clock import ClockState
from coordinator.server.verbs.overview import GroupSummary, Overview, Position

WATCHERS_MAX: Final = 16
PAUSE_SECONDS: Final = 0.2  # between two messages
SHARE: Final = 20  # a look that took a second is followed by so many seconds of rest
LOOK_SECONDS: Final = 1.0  # a look without a turn: a fault may have been put into force
SILENCE_SECONDS: Final = 15.0  # then a comment is sent, so that a client that has left is found out
EVENTS_MAX: Final = 200  # in a message
RUNS_MAX: Final = 200  # of records in flight, in a message


class GroupDetail(Struct, frozen=True):
    """The group that is watched."""

    view: GroupView
    positions: list[Position]
    records: list[SharePartitionView] = []  # of a share group that are in flight, some runs of them


class Change(Struct, frozen=True):
    """A message. A field that is null has not changed."""

    first: bool  # everything: what was known before is void
    clock: ClockState  # with the deadlines of the watched group
    latest: int  # the number of the latest event of any group
    total: int  # groups of the prefix, though not all of them may be listed
    groups: list[GroupSummary]  # new or changed
    gone: list[str]
    events: list[dict[str, Any]]  # new ones, oldest first: of the watched group, or of all
    group: GroupDetail | None = None
    is_group_gone: bool = False  # the watched group does not exist
    faults: list[FaultView] | None = None


class Watcher:
    """One client that watches. A `Stream` of the HTTP server."""

    content_type = "text/event-stream"

    def __init__(
        self,
        operator: Operator,
        ring: Ring,
        faults: Callable[[], list[FaultView]],
        query: WatchQuery,
        on_close: Callable[[], None],
    ) -> None:
        self._operator = operator
        self._ring = ring
        self._faults = faults
        self._query = query
        self._on_close = on_close
        self._node: Node | None = None  # whose groups are known to the client
        self._groups: dict[str, GroupSummary] = {}
        self._detail: GroupDetail | None = None
        self._told_faults: list[FaultView] | None = None
        self._clock = (0.0, 0.0, 0.0)  # what the coordinator's clock showed (ms), when (s), and its rate
        self._latest = 0
        self._pause_s = 0.0

    async def next_chunk(self) -> bytes:
        """Return the next message, once something has changed, or a comment."""
        silent_s = trio.current_time() + SILENCE_SECONDS
        while True:
            await trio.sleep(self._pause_s)
            change = await self._look()
            if change is not None:
                return b"data: " + msgspec.json.encode(change) + b"\n\n"
            if trio.current_time() >= silent_s:
                return b": still here\n\n"
            with trio.move_on_after(LOOK_SECONDS):
                await self._operator.next_turn()

    def close(self) -> None:
        """Forget the client, which has left."""
        self._on_close()

    async def _look(self) -> Change | None:
        """Return what has changed, None if nothing has."""
        used_s, overview = 0.0, None
        steps = self._operator.overview.look(self._query.prefix)
        while overview is None:
            began_s = monotonic()
            overview = next(steps)
            used_s += monotonic() - began_s
            await trio.lowlevel.checkpoint()  # clients are served between two steps
        began_s = monotonic()
        change = self._compare(overview)
        used_s += monotonic() - began_s
        self._pause_s = max(PAUSE_SECONDS, used_s * SHARE)
        return change

    def _compare(self, overview: Overview) -> Change | None:
        is_first = self._node is not self._operator.overview.node
        if is_first:  # also after a reset
            self._node, self._groups, self._detail = self._operator.overview.node, {}, None
            self._told_faults = None
        known, self._groups = self._groups, overview.groups
        groups = [one for name, one in overview.groups.items() if known.get(name) != one]
        gone = [name for name in known if name not in overview.groups]
        detail, is_group_gone = self._look_at_group()
        faults = self._faults()
        events = self._take_events()
        clock = self._operator.clock.glance(self._query.group)
        has_changed = is_first or groups or gone or events or detail or is_group_gone or faults != self._told_faults
        if not has_changed and not self._has_moved(clock):
            return None
        self._clock = (clock.now_ms, monotonic(), clock.rate)
        told_faults, self._told_faults = self._told_faults, faults
        return Change(
            is_first,
            clock,
            self._ring.latest,
            overview.total,
            groups,
            gone,
            events,
            detail,
            is_group_gone,
            None if faults == told_faults else faults,
        )

    def _look_at_group(self) -> tuple[GroupDetail | None, bool]:
        """Return the watched group if it has changed, and whether it has gone."""
        if not self._query.group:
            return None, False
        view = self._operator.groups.find(self._query.group)
        detail = None if view is None else self._detail_of(view)
        if detail == self._detail:
            return None, False
        self._detail = detail
        return detail, detail is None

    def _detail_of(self, view: GroupView) -> GroupDetail:
        records = self._operator.records.view(view.group, most=RUNS_MAX)
        return GroupDetail(view, self._operator.overview.positions(view), records)

    def _take_events(self) -> list[dict[str, Any]]:
        after, self._latest = self._latest, self._ring.latest
        if after == self._latest:
            return []
        found = list(self._ring.after(after, self._query.group or None))[-EVENTS_MAX:]
        return as_data((number, msgspec.json.decode(data, type=Event)) for number, data in found)

    def _has_moved(self, clock: ClockState) -> bool:
        """Return whether the clock shows another time than the client works out for itself."""
        shown_ms, at_s, rate = self._clock
        expected_ms = shown_ms + (monotonic() - at_s) * 1000 * rate
        return clock.rate != rate or abs(clock.now_ms - expected_ms) > 250
