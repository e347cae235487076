"""The control API, `/v1`: the operator's verbs over HTTP. What each call takes and gives is in the types here, and so
in the OpenAPI document."""

import json
from collections.abc import Callable, Generator
from functools import cache, partial
from itertools import islice
from typing import Final, TypeVar

import msgspec
import trio

from coordinator.admin.control_brokers import BrokerControl
from coordinator.admin.control_records import RecordControl
from coordinator.admin.control_types import (
    PAGE_MAX,
    Advance,
    ClockQuery,
    Faults,
    FaultView,
    Findings,
    Groups,
    GroupsQuery,
    HoldBody,
    JournalBody,
    JournalState,
    ReasonBody,
    Removal,
    RemoveMemberBody,
    Requests,
    RequestsQuery,
    ResetBody,
    ScenarioView,
    SetClock,
    Snapshots,
    StepClock,
    TargetBody,
    Timeline,
    TimelineQuery,
    Verify,
    VerifyResult,
    Wait,
    WatchQuery,
)
from coordinator.admin.http import Pieces
from coordinator.admin.operations import JSON, Input, Operation, Text
from coordinator.admin.operations import Refusal as Refused
from coordinator.admin.portions import cut_state
from coordinator.admin.verb_calls import check_bounds, do, refuse_nonsense
from coordinator.admin.watch import WATCHERS_MAX, Change, Watcher
from coordinator.control.faults import FaultSpec, Rule, check
from coordinator.control.journal import Filter, describe_entry
from coordinator.control.journal_file import write_in_pieces
from coordinator.control.lint import lint
from coordinator.control.names import check_api, check_state
from coordinator.control.pcapng import write_pcapng
from coordinator.control.resets import Mark, Resets
from coordinator.control.scenarios import Scenario, ScenarioSpec
from coordinator.control.timeline import as_data, as_mermaid, as_text, format_timelines
from coordinator.control.verify import Times, verify
from coordinator.control.verify import check as check_expectations
from coordinator.core.group_view import GroupView, MemberView
from coordinator.events import Ring
from coordinator.runtime.snapshot import to_tar
from coordinator.server.loop_time import SNAPSHOTS, doing
from coordinator.server.operator import Operator
from coordinator.server.verbs.clock import ClockMove, ClockState, KeepAlive, keep_everybody, keep_nobody
from coordinator.server.verbs.records import STATES
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.state import State

WAIT_MS_MAX: Final = 300_000
ADVANCE_MS_MAX: Final = 10 * 365 * 86_400_000
PCAPNG: Final = "application/x-pcapng"
TAR: Final = "application/x-tar"
LINES: Final = "application/jsonl"
PLAIN: Final = "text/plain; charset=utf-8"
OF_MEMBERS: Final = ("state", "members", "generation", "assigned", "tasks", "offsets", "exists")
OF_GROUPS: Final = (*OF_MEMBERS, "records", "coordinator")
"""Conditions of a wait that are about its group."""


T = TypeVar("T")


async def _take_steps(steps: Generator[None, None, T]) -> T:
    """Do what a verb does in steps, and serve clients in between. Returns what it ends with."""
    try:
        while True:
            try:
                do(next, steps)
            except StopIteration as stop:
                value: T = stop.value
                return value
            await trio.lowlevel.checkpoint()
    finally:
        steps.close()


class Control:
    """Handlers of the control API."""

    def __init__(self, operator: Operator, ring: Ring, server_port: int) -> None:
        self._operator = operator
        self._ring = ring
        self._server_port = server_port
        self._watchers = 0
        self._resets = Resets()

    def operations(self) -> list[Operation]:
        """Return the table of all operations."""
        return [
            Operation(
                "GET",
                "/v1/clock",
                "The clock and its pending deadlines",
                self._clock,
                query=ClockQuery,
                result=ClockState,
            ),
            Operation(
                "PUT", "/v1/clock", "Freeze the clock, or let it run", self._set_clock, body=SetClock, result=ClockState
            ),
            Operation(
                "POST", "/v1/clock/advance", "Move the clock forward", self._advance, body=Advance, result=ClockMove
            ),
            Operation(
                "POST",
                "/v1/clock/step",
                "Move the clock to the next deadline",
                self._step,
                body=StepClock,
                result=ClockMove,
            ),
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
            Operation("GET", "/v1/faults", "The faults in force", self._faults, result=Faults),
            Operation(
                "POST", "/v1/faults", "Put a fault into force", self._add_fault, body=FaultSpec, result=FaultView
            ),
            Operation("DELETE", "/v1/faults", "End every fault", self._remove_faults, result=Faults),
            Operation("GET", "/v1/faults/{number}", "One fault", self._fault, result=FaultView),
            Operation("DELETE", "/v1/faults/{number}", "End a fault", self._remove_fault, result=FaultView),
            Operation(
                "POST", "/v1/scenarios", "Begin a scenario", self._add_scenario, body=ScenarioSpec, result=ScenarioView
            ),
            Operation("GET", "/v1/scenarios/{number}", "How far a scenario is", self._scenario, result=ScenarioView),
            Operation("DELETE", "/v1/scenarios/{number}", "End a scenario", self._remove_scenario, result=ScenarioView),
            Operation(
                "PUT",
                "/v1/journal",
                "Turn the journal on or off",
                self._set_journal,
                body=JournalBody,
                result=JournalState,
            ),
            Operation("GET", "/v1/journal", "How much the journal keeps", self._journal, result=JournalState),
            Operation(
                "GET",
                "/v1/journal/file",
                "The journal with whole frames, for muster replay",
                self._journal_file,
                others=(LINES,),
                is_stream=True,
            ),
            Operation(
                "GET",
                "/v1/requests",
                "The last requests, decoded",
                self._requests,
                query=RequestsQuery,
                result=Requests,
                others=(LINES, PCAPNG),
            ),
            Operation("GET", "/v1/lint", "Findings about clients", self._lint, result=Findings),
            Operation("POST", "/v1/reset", "Start again with nothing", self._reset, body=ResetBody, result=Removal),
            Operation("GET", "/v1/state", "Topics and offsets", self._state, query=GroupsQuery, result=State),
            Operation("POST", "/v1/state", "Create topics and commit offsets", self._seed, body=State, result=State),
            Operation("GET", "/v1/snapshots", "All snapshots", self._snapshots, result=Snapshots),
            Operation("PUT", "/v1/snapshots/{name}", "Take a snapshot", self._take_snapshot, result=Snapshots),
            Operation("GET", "/v1/snapshots/{name}", "A snapshot as a tar file", self._snapshot, others=(TAR,)),
            Operation("DELETE", "/v1/snapshots/{name}", "Remove a snapshot", self._remove_snapshot, result=Snapshots),
            Operation(
                "POST", "/v1/snapshots/{name}/restore", "Start again with a snapshot", self._restore, result=Snapshots
            ),
            Operation("POST", "/v1/wait", "Wait until something holds", self._wait, body=Wait, result=GroupView | None),
            Operation(
                "POST",
                "/v1/verify",
                "Whether what is expected has happened",
                self._verify,
                body=Verify,
                result=VerifyResult,
            ),
            *BrokerControl(self._operator).operations(),
            *RecordControl(self._operator).operations(),
        ]

    # -- clock ---------------------------------------------------------------------------------------------------------

    def _clock(self, given: Input) -> ClockState:
        state = self._operator.clock.state()
        return msgspec.structs.replace(
            state, deadlines=state.deadlines[: check_bounds("limit", given.query.limit, 0, 100_000)]
        )

    def _set_clock(self, given: Input) -> ClockState:
        body: SetClock = given.body
        if (body.mode == "rate") != (body.rate is not None):
            raise Refused("invalid rate: expected a rate with mode rate, and with no other")
        if body.rate is not None and not 0 < body.rate <= 10_000:
            raise Refused(f"invalid rate {body.rate}: expected more than 0, and at most 10000")
        rate = {"real": 1.0, "frozen": 0.0}.get(body.mode, body.rate)
        assert rate is not None, "mode rate has a rate"
        state = self._operator.clock.set_rate(rate)
        return msgspec.structs.replace(state, deadlines=[])

    def _advance(self, given: Input) -> ClockMove:
        body: Advance = given.body
        return self._operator.clock.advance(
            check_bounds("ms", body.ms, 0, ADVANCE_MS_MAX), self._keep_alive(body.keep_alive)
        )

    def _step(self, given: Input) -> ClockMove:
        return self._operator.clock.step(self._keep_alive(given.body.keep_alive))

    def _keep_alive(self, wanted: str | list[str]) -> KeepAlive:
        if isinstance(wanted, list):
            return self._operator.clock.keep_named(wanted)
        if wanted == "connected":
            return self._operator.clock.keep_connected()
        return keep_everybody if wanted == "all" else keep_nobody

    # -- groups --------------------------------------------------------------------------------------------------------

    async def _groups(self, given: Input) -> Groups:
        return Groups(await _take_steps(self._operator.groups.views_in_steps(given.query.prefix)))

    def _group(self, given: Input) -> GroupView:
        view = self._operator.groups.find(given.path["group"])
        if view is None:
            raise Refused(f"there is no group {given.path['group']!r}", 404)
        return view

    def _forget(self, given: Input) -> Removal:
        do(self._operator.groups.forget, given.path["group"])
        return Removal(1)

    async def _forget_all(self, given: Input) -> Removal:
        return Removal(await _take_steps(self._operator.groups.forget_all_in_steps(given.query.prefix)))

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
        return Faults([self._view(rule) for rule in rules])

    def _release(self, given: Input) -> Faults:
        return Faults([self._view(rule) for rule in self._operator.requests.release(given.path["group"])])

    def _watch(self, given: Input) -> Watcher:
        if self._watchers >= WATCHERS_MAX:
            raise Refused(f"{WATCHERS_MAX} clients watch already: close one of them", 503)
        self._watchers += 1

        def close() -> None:
            self._watchers -= 1

        return Watcher(self._operator, self._ring, self._view_faults, given.query, close)

    # -- requests ------------------------------------------------------------------------------------------------------

    def _faults(self, given: Input) -> Faults:
        return Faults(self._view_faults())

    def _view_faults(self) -> list[FaultView]:
        return [self._view(rule) for rule in self._operator.requests.faults]

    def _add_fault(self, given: Input) -> FaultView:
        refuse_nonsense(check, given.body)
        return self._view(self._operator.requests.add_fault(given.body))

    def _fault(self, given: Input) -> FaultView:
        rule = self._operator.requests.faults.get(_number(given))
        if rule is None:
            raise Refused(f"there is no fault {given.path['number']}", 404)
        return self._view(rule)

    def _remove_fault(self, given: Input) -> FaultView:
        return self._view(do(self._operator.requests.remove_fault, _number(given)))

    def _remove_faults(self, given: Input) -> Faults:
        self._operator.requests.remove_faults()
        return Faults([])

    def _view(self, rule: Rule) -> FaultView:
        spec = rule.spec
        return FaultView(
            rule.number, spec.on, spec.do, spec.count, spec.probability, spec.seed, rule.seen, rule.hits,
            self._operator.requests.count_held(rule.number),
        )  # fmt: skip

    def _add_scenario(self, given: Input) -> ScenarioView:
        return _view_scenario(refuse_nonsense(self._operator.scenarios.add, given.body))

    def _scenario(self, given: Input) -> ScenarioView:
        return _view_scenario(do(self._operator.scenarios.get, _number(given)))

    def _remove_scenario(self, given: Input) -> ScenarioView:
        return _view_scenario(do(self._operator.scenarios.remove, _number(given)))

    def _set_journal(self, given: Input) -> JournalState:
        self._operator.requests.set_journal(check_bounds("bytes_max", given.body.bytes_max, 0, 1 << 30))
        self._resets.note_new_journal()
        return self._journal_state()

    def _journal(self, given: Input) -> JournalState:
        return self._journal_state()

    def _journal_state(self) -> JournalState:
        try:
            journal = self._operator.requests.journal
        except Refusal:
            return JournalState(0, 0, 0, 0, "the journal is off")
        return JournalState(journal.bytes_max, journal.bytes, len(journal), journal.latest, journal.obstacle)

    def _journal_file(self, given: Input) -> Pieces:
        return Pieces(write_in_pieces(do(lambda: self._operator.requests.journal)), LINES)

    async def _requests(self, given: Input) -> Requests | Text:
        query: RequestsQuery = given.query
        refuse_nonsense(check_api, "api", query.api)
        journal = do(lambda: self._operator.requests.journal)
        wanted = Filter(query.api, query.group, query.topic, query.client, query.after)
        entries = journal.entries(wanted, self._operator.requests.topic_name)
        limit, latest = check_bounds("limit", query.limit, 1, PAGE_MAX), journal.latest

        def describe() -> Requests | Text:
            found = [entry for entry, _ in islice(entries, limit)]
            if query.format == "pcapng":
                return Text(write_pcapng(found, self._server_port), PCAPNG)
            described = [describe_entry(entry) for entry in found]
            if query.format == "jsonl":
                return Text("".join(json.dumps(one) + "\n" for one in described).encode(), LINES)
            return Requests(latest, described)

        return await trio.to_thread.run_sync(describe)

    async def _lint(self, given: Input) -> Findings:
        entries = do(lambda: self._operator.requests.journal).entries(Filter())
        return Findings(await trio.to_thread.run_sync(lambda: lint(entry for entry, _ in entries)))

    async def _verify(self, given: Input) -> VerifyResult:
        body: Verify = given.body
        refuse_nonsense(check_expectations, body.expect)
        journal = do(lambda: self._operator.requests.journal)
        verdict = await trio.to_thread.run_sync(partial(
            verify,
            body.expect,
            journal.entries(Filter(after=body.after), self._operator.requests.topic_name),
            self._ring.decode_after(0),
            in_order=body.in_order,
            resets=self._resets,
            dropped=Mark(journal.dropped if journal.dropped > body.after else 0, self._ring.dropped),
        ))  # fmt: skip
        if not verdict.ok:
            raise Refused("; ".join(verdict.differences), 409)
        return VerifyResult(True)

    # -- state ---------------------------------------------------------------------------------------------------------

    async def _reset(self, given: Input) -> Removal:
        prefix, keep = given.body.prefix, tuple(given.body.keep)
        removal = Removal(len(self._operator.groups.names()), len(self._operator.state.topics()))
        if prefix or keep:
            counts = await _take_steps(self._operator.state.reset_prefix_in_steps(prefix, keep))
            removal = Removal(*counts)
        else:
            do(self._operator.state.reset)
        self._note_reset(prefix)
        return removal

    def _note_reset(self, prefix: str = "") -> None:
        self._resets.note(prefix, Mark(self._journal_state().latest, self._ring.latest))

    async def _state(self, given: Input) -> State:
        return await _take_steps(self._operator.state.contents_in_steps(given.query.prefix))

    async def _seed(self, given: Input) -> State:
        for portion in cut_state(given.body):
            do(self._operator.state.seed, portion)
            await trio.lowlevel.checkpoint()
        return await _take_steps(self._operator.state.contents_in_steps())

    def _snapshots(self, given: Input) -> Snapshots:
        return Snapshots(self._operator.state.snapshots())

    async def _take_snapshot(self, given: Input) -> Snapshots:
        with doing(SNAPSHOTS):
            await _take_steps(self._operator.state.take_snapshot_in_steps(given.path["name"]))
        return self._snapshots(given)

    async def _snapshot(self, given: Input) -> Text:
        snapshot = do(self._operator.state.snapshot, given.path["name"])
        return Text(await trio.to_thread.run_sync(to_tar, snapshot), TAR)

    def _remove_snapshot(self, given: Input) -> Snapshots:
        do(self._operator.state.remove_snapshot, given.path["name"])
        return self._snapshots(given)

    def _restore(self, given: Input) -> Snapshots:
        with doing(SNAPSHOTS):
            do(self._operator.state.restore, given.path["name"])
        self._note_reset()
        return self._snapshots(given)

    # -- waiting -------------------------------------------------------------------------------------------------------

    async def _wait(self, given: Input) -> GroupView | None:
        body: Wait = given.body
        if not body.group and body.fault is None:
            raise Refused("invalid wait: expected a group or a fault")
        if not body.group and (surplus := [name for name in OF_GROUPS if getattr(body, name) != getattr(Wait(), name)]):
            raise Refused(f"invalid wait: expected a group with {', '.join(surplus)}")
        refuse_nonsense(check_state, "state", body.state)
        _refuse_strange_records(body)
        timeout_ms = check_bounds("timeout_ms", body.timeout_ms, 0, WAIT_MS_MAX)
        with trio.move_on_after(timeout_ms / 1000):
            while self._missing(body) is not None:
                await self._operator.next_turn()
        missing = self._missing(body)
        if missing is not None:
            raise Refused(f"not within {timeout_ms} ms: {missing}", 408)
        return self._operator.groups.find(body.group) if body.group else None

    def _missing(self, body: Wait) -> str | None:
        """Return what does not hold yet, None if everything holds."""
        if body.fault is not None:
            rule = self._operator.requests.faults.get(body.fault)
            if rule is None:
                return f"there is no fault {body.fault}"
            if rule.hits < body.hits:
                return f"fault {body.fault} has met {rule.hits} requests, expected {body.hits}"
        if not body.group:
            return None
        if body.coordinator is not None:
            coordinator = self._operator.brokers.coordinator(body.group)
            if coordinator.is_loading or coordinator.broker != body.coordinator:
                state = "is loaded by" if coordinator.is_loading else "is coordinated by"
                return f"group {body.group!r} {state} broker {coordinator.broker}, expected {body.coordinator}"
        if body.records is not None:
            difference = self._operator.records.find_difference(body.group, body.records)
            if difference is not None or all(getattr(body, name) == getattr(Wait(), name) for name in OF_MEMBERS):
                return difference
        view = self._operator.groups.find(body.group)
        if view is None or not body.exists:
            if (view is not None) == body.exists:
                return None
            return f"there is {'no' if body.exists else 'a'} group {body.group!r}"
        return missing_in(view, body)


def _refuse_strange_records(body: Wait) -> None:
    """Refuse states and offsets that no record can ever have."""
    for topic, partitions in (body.records or {}).items():
        for partition, records in partitions.items():
            for offset, state in records.items():
                if not (offset.isascii() and offset.isdigit()):
                    raise Refused(f"invalid offset {offset!r} of {topic}-{partition}: expected a number")
                if state not in STATES:
                    raise Refused(f"invalid state {state!r} of record {offset}: expected {', '.join(STATES)}")


def missing_in(view: GroupView, body: Wait) -> str | None:
    """Return what a group lacks of what is waited for, None if it lacks nothing."""
    if body.state not in ("", view.state):
        return f"the state is {view.state}, expected {body.state}"
    for name, expected, found in (
        ("members", body.members, len(view.members)),
        ("generation", body.generation, view.generation),
    ):
        if expected is not None and not _times(expected).agrees(found):
            return f"{name}: {found}, expected {_times(expected)}"
    for name, topics in (body.assigned or {}).items():
        owned = next(
            (one.assignment for one in view.members if name in (one.member_id, one.client_id, one.instance_id)), None
        )
        wanted = {topic: sorted(partitions) for topic, partitions in topics.items() if partitions}
        if owned != wanted:
            return f"{name} owns {owned}, expected {wanted}"
    for name, roles in (body.tasks or {}).items():
        held = next((one.tasks for one in view.members if name in (one.member_id, one.client_id)), None)
        if not isinstance(held, dict):
            return f"{name} is no member with tasks, expected {roles}"
        if any(sorted(held.get(role, [])) != sorted(tasks) for role, tasks in roles.items()):
            return f"{name} has tasks {held}, expected {roles}"
    for topic, partitions in (body.offsets or {}).items():
        for partition, expected in partitions.items():
            offset = view.offsets.get(topic, {}).get(partition)
            if offset is None or not _times(expected).agrees(offset):
                return f"the offset of {topic}-{partition} is {offset}, expected {_times(expected)}"
    return None


def _view_scenario(scenario: Scenario) -> ScenarioView:
    steps = len(scenario.spec.steps)
    return ScenarioView(
        scenario.number, scenario.spec.name, steps, scenario.reached, scenario.reached == steps, scenario.error
    )


def _times(expected: int | Times) -> Times:
    return Times(expected, expected) if isinstance(expected, int) else expected


def _number(given: Input) -> int:
    text = given.path["number"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Refused(f"invalid number {text!r}: expected that of a fault or a scenario")
    return int(text)
