"""The part of the control API about requests: faults, scenarios, the journal, and what it shows."""

import json
from functools import partial
from itertools import islice
from typing import Final

import trio

from coordinator.admin.control_types import (
    PAGE_MAX,
    Faults,
    FaultView,
    Findings,
    JournalBody,
    JournalState,
    LintQuery,
    Requests,
    RequestsQuery,
    ScenarioView,
    Verify,
    VerifyResult,
)  # fmt: skip
from coordinator.admin.http import Pieces
from coordinator.admin.operations import Input, Operation, Text
from coordinator.admin.operations import Refusal as Refused
from coordinator.admin.verb_calls import check_bounds, do, refuse_nonsense
from coordinator.control.decoded import Decoder
from coordinator.control.faults import FaultSpec, Rule, check
from coordinator.control.journal import Filter, describe_entry
from coordinator.control.journal_file import write_in_pieces
from coordinator.control.lint import lint
from coordinator.control.names import check_api
from coordinator.control.pcapng import write_pcapng
from coordinator.control.resets import Mark, Resets
from coordinator.control.scenarios import Scenario, ScenarioSpec
from coordinator.control.verify import check as check_expectations
from coordinator.control.verify import verify
from coordinator.events import Ring
from coordinator.server.operator import Operator
from coordinator.server.verbs.refusal import Refusal

PCAPNG: Final = "application/x-pcapng"
LINES: Final = "application/jsonl"
EXPECTATIONS_MAX: Final = 1_000  # each is compared with all of the journal


class RequestControl:
    """Handlers of the calls about requests."""

    def __init__(self, operator: Operator, ring: Ring, resets: Resets, server_port: int) -> None:
        self._operator = operator
        self._ring = ring
        self._resets = resets
        self._server_port = server_port
        self._decoder: Decoder | None = None  # of verifications that are asked for at once
        self._verifications, self._verifying = 0, trio.Lock()  # each has the decoder for itself

    def operations(self) -> list[Operation]:
        """Return the table of these operations."""
        return [
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
            Operation("GET", "/v1/lint", "Findings about clients", self._lint, query=LintQuery, result=Findings),
            Operation(
                "POST",
                "/v1/verify",
                "Whether what is expected has happened",
                self._verify,
                body=Verify,
                result=VerifyResult,
            ),
        ]

    def note_reset(self, prefix: str = "", keep: tuple[str, ...] = ()) -> None:
        """Note that topics and groups of a prefix are gone: what is verified later does not expect them."""
        self._resets.note(prefix, Mark(self._journal_state().latest, self._ring.latest), keep)

    def _faults(self, given: Input) -> Faults:
        return Faults(self.view_faults())

    def view_faults(self) -> list[FaultView]:
        """Return the faults in force."""
        return [self.view(rule) for rule in self._operator.requests.faults]

    def _add_fault(self, given: Input) -> FaultView:
        refuse_nonsense(check, given.body)
        return self.view(self._operator.requests.add_fault(given.body))

    def _fault(self, given: Input) -> FaultView:
        rule = self._operator.requests.faults.get(_number(given))
        if rule is None:
            raise Refused(f"there is no fault {given.path['number']}", 404)
        return self.view(rule)

    def _remove_fault(self, given: Input) -> FaultView:
        return self.view(do(self._operator.requests.remove_fault, _number(given)))

    def _remove_faults(self, given: Input) -> Faults:
        self._operator.requests.remove_faults()
        return Faults(self.view_faults())  # none, but for that of a scenario's next step

    def view(self, rule: Rule) -> FaultView:
        """Return a fault, with what it has met."""
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
        state = self._journal_state()
        self._resets.note_new_journal(state.latest)
        return state

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
        entries = journal.entries(wanted, self._operator.requests.topic_names())
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
        query: LintQuery = given.query
        entries = do(lambda: self._operator.requests.journal).entries(Filter(after=query.after))
        return Findings(await trio.to_thread.run_sync(lambda: lint(entry for entry, _ in entries)))

    async def _verify(self, given: Input) -> VerifyResult:
        body: Verify = given.body
        if len(body.expect) > EXPECTATIONS_MAX:
            raise Refused(f"invalid expect: expected {EXPECTATIONS_MAX} of them at most")
        refuse_nonsense(check_expectations, body.expect)
        needs_journal = any(not one.event for one in body.expect)
        journal = do(lambda: self._operator.requests.journal) if needs_journal else None
        compare = partial(
            verify,
            body.expect,
            () if journal is None else journal.after(body.after),
            self._ring.decode_after(0),
            in_order=body.in_order,
            resets=self._resets,
            after=Mark(body.after, body.after_event),
            dropped=Mark(0 if journal is None else journal.dropped, self._ring.dropped),
            name_of=self._operator.requests.topic_names(),
        )
        self._verifications += 1
        self._decoder = decoder = self._decoder or Decoder()
        try:
            async with self._verifying:
                compare_in_thread = partial(refuse_nonsense, partial(compare, decoder=decoder))
                verdict = await trio.to_thread.run_sync(compare_in_thread)
        finally:
            self._verifications -= 1
            if not self._verifications:
                self._decoder = None
        if not verdict.ok:
            raise Refused("; ".join(verdict.differences), 409)
        return VerifyResult(True)


def _view_scenario(scenario: Scenario) -> ScenarioView:
    steps = len(scenario.spec.steps)
    return ScenarioView(
        scenario.number, scenario.spec.name, steps, scenario.reached, scenario.reached == steps, scenario.error
    )


def _number(given: Input) -> int:
    text = given.path["number"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Refused(f"invalid number {text!r}: expected that of a fault or a scenario")
    return int(text)
