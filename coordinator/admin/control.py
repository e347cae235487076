"""The control API, `/v1`: the operator's verbs over HTTP, those of groups and members here, and the other parts beside
it. What each call takes and gives is in `control_types`, and so in the OpenAPI document."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec
import trio

from coordinator.admin.control_brokers import BrokerControl
from coordinator.admin.control_clock import ClockControl
from coordinator.admin.control_records import RecordControl
from coordinator.admin.control_requests import RequestControl
from coordinator.admin.control_state import StateControl
from coordinator.admin.control_types import (
    Faults,
    Groups,
    GroupsQuery,
    HoldBody,
    ReasonBody,
    Removal,
    RemoveMemberBody,
    TargetBody,
    Timeline,
    TimelineQuery,
    WatchQuery,
)  # fmt: skip
from coordinator.admin.control_waiting import WaitControl
from coordinator.admin.operations import JSON, Input, Operation, Text
from coordinator.admin.operations import Refusal as Refused
from coordinator.admin.verb_calls import do, take_steps
from coordinator.admin.watch import WATCHERS_MAX, Change, Watcher
from coordinator.control.resets import Resets
from coordinator.control.timeline import as_data, as_mermaid, as_text, format_timelines
from coordinator.core.group_view import GroupView, MemberView
from coordinator.events import Ring
from coordinator.server.operator import Operator

PLAIN: Final = "text/plain; charset=utf-8"


def control_operations(operator: Operator, ring: Ring, server_port: int) -> list[Operation]:
    """Return the table of all operations."""
    resets = Resets()
    requests = RequestControl(operator, ring, resets, server_port)
    parts = (
        ClockControl(operator),
        GroupControl(operator, ring, resets, requests),
        requests,
        StateControl(operator, requests),
        WaitControl(operator),
        BrokerControl(operator),
        RecordControl(operator),
    )
    return [_after_moves(operator, operation) for part in parts for operation in part.operations()]


def _after_moves(operator: Operator, operation: Operation) -> Operation:
    """Let an operation begin when no move of the clock is under way: a move is one step for those who call as well."""

    async def handle(given: Input) -> Any:
        await operator.clock.arrive()
        result = operation.handle(given)
        return await result if inspect.isawaitable(result) else result

    return msgspec.structs.replace(operation, handle=handle)


class GroupControl:
    """Handlers of the calls about groups and their members."""

    def __init__(self, operator: Operator, ring: Ring, resets: Resets, requests: RequestControl) -> None:
        self._operator = operator
        self._ring = ring
        self._resets = resets
        self._requests = requests
        self._watchers = 0

    def operations(self) -> list[Operation]:
        """Return the table of these operations."""
        return [
            Operation(
                "GET",
                "/v1/watch",
                "The groups as they change, as server-sent events",
                self._watch,
                query=WatchQuery,
                result=Change,
                others=(Watcher.content_type,),
                is_stream=True,
            ),
            Operation("GET", "/v1/groups", "All groups", self._groups, query=GroupsQuery, result=Groups),
            Operation(
                "DELETE",
                "/v1/groups",
                "Remove every group of a prefix",
                self._forget_all,
                query=GroupsQuery,
                result=Removal,
            ),
            Operation("GET", "/v1/groups/{group}", "One group", self._group, result=GroupView),
            Operation(
                "DELETE", "/v1/groups/{group}", "Remove a group, whatever its state", self._forget, result=Removal
            ),
            Operation(
                "GET",
                "/v1/groups/{group}/timeline",
                "What happened to a group, and why",
                self._timeline,
                query=TimelineQuery,
                result=Timeline,
                others=("text/plain",),
            ),
            Operation(
                "GET",
                "/v1/timelines",
                "What happened to the groups since the last reset, as text",
                self._timelines,
                query=GroupsQuery,
                others=("text/plain",),
            ),
            Operation(
                "POST",
                "/v1/groups/{group}/rebalance",
                "Rebalance a group",
                self._rebalance,
                body=ReasonBody,
                result=GroupView,
            ),
            Operation(
                "PUT",
                "/v1/groups/{group}/target",
                "Force the target assignment of a group",
                self._target,
                body=TargetBody,
                result=GroupView,
            ),
            Operation(
                "POST",
                "/v1/groups/{group}/hold",
                "Hold requests of a group at a step of its protocol",
                self._hold,
                body=HoldBody,
                result=Faults,
            ),
            Operation(
                "POST",
                "/v1/groups/{group}/release",
                "Let go of everything that is held of a group",
                self._release,
                result=Faults,
            ),
            Operation(
                "POST",
                "/v1/groups/{group}/members/{member}/expire",
                "Let a member's session expire",
                self._expire,
                body=RemoveMemberBody,
                result=MemberView,
            ),
            Operation(
                "POST",
                "/v1/groups/{group}/members/{member}/kick",
                "Remove a member",
                self._kick,
                body=RemoveMemberBody,
                result=MemberView,
            ),
            Operation(
                "POST", "/v1/groups/{group}/members/{member}/fence", "Fence a member", self._fence, result=MemberView
            ),
        ]

    async def _groups(self, given: Input) -> Groups:
        return Groups(await take_steps(self._operator.groups.views_in_steps(given.query.prefix)))

    def _group(self, given: Input) -> GroupView:
        view: GroupView = do(self._operator.groups.view, given.path["group"])
        return view

    async def _forget(self, given: Input) -> Removal:
        await take_steps(self._operator.groups.forget_in_steps(given.path["group"]))
        return Removal(1)

    async def _forget_all(self, given: Input) -> Removal:
        return Removal(await take_steps(self._operator.groups.forget_all_in_steps(given.query.prefix)))

    async def _timeline(self, given: Input) -> Text:
        group, query = given.path["group"], given.query
        events, latest = self._ring.decode_after(query.after, group), self._ring.latest

        def show() -> Text:
            if query.format == "text":
                return Text(as_text(events).encode(), PLAIN)
            if query.format == "mermaid":
                return Text(as_mermaid(group, events).encode(), PLAIN)
            return Text(msgspec.json.encode(Timeline(latest, as_data(events))) + b"\n", JSON)

        return await trio.to_thread.run_sync(show)

    async def _timelines(self, given: Input) -> Text:
        since = cache(lambda group: self._resets.find(group).event)
        events = (
            (number, event)
            for number, event in self._ring.decode_after(0)
            if event.group.startswith(given.query.prefix) and number > since(event.group)
        )
        lines = await trio.to_thread.run_sync(lambda: "".join(f"{line}\n" for line in format_timelines(events)))
        return Text(lines.encode(), PLAIN)

    def _rebalance(self, given: Input) -> GroupView:
        view: GroupView = do(self._operator.groups.rebalance, given.path["group"], given.body.reason)
        return view

    def _target(self, given: Input) -> GroupView:
        view: GroupView = do(
            self._operator.groups.set_target, given.path["group"], given.body.members, given.body.standbys
        )
        return view

    def _expire(self, given: Input) -> MemberView:
        return self._remove(self._operator.groups.expire, given)

    def _kick(self, given: Input) -> MemberView:
        return self._remove(self._operator.groups.kick, given)

    @staticmethod
    def _remove(verb: Callable[..., MemberView], given: Input) -> MemberView:
        arguments = (given.path["group"], given.path["member"], given.body.reason)
        view: MemberView = do(verb, *arguments, disconnects=given.body.disconnect)
        return view

    def _fence(self, given: Input) -> MemberView:
        view: MemberView = do(self._operator.groups.fence, given.path["group"], given.path["member"])
        return view

    def _hold(self, given: Input) -> Faults:
        rules = self._operator.requests.hold(given.path["group"], given.body.at, given.body.client)
        return Faults([self._requests.view(rule) for rule in rules])

    def _release(self, given: Input) -> Faults:
        return Faults([self._requests.view(rule) for rule in self._operator.requests.release(given.path["group"])])

    def _watch(self, given: Input) -> Watcher:
        if self._watchers >= WATCHERS_MAX:
            raise Refused(f"{WATCHERS_MAX} clients watch already: close one of them", 503)
        self._watchers += 1

        def close() -> None:
            self._watchers -= 1

        return Watcher(self._operator, self._ring, self._requests.view_faults, given.query, close)
