"""The gate that requests pass on their way: the journal and the fault plan.

    frame ─► decode ─► Gate.admit ─► step ─► Gate.finish ─► send

A frontend has a gate only where somebody may look or interfere; without one, a request passes a single `is None`.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

from coordinator.control.faults import FaultPlan, Rule
from coordinator.control.gated_request import GatedRequest
from coordinator.control.journal import Journal, JournalClient
from coordinator.control.leftovers import Leftovers
from coordinator.control.subject import Subject, TopicNames, subject_of
from coordinator.server.connection import Connection
from protocol.apis import APIS


class Gate:
    """The journal and the fault plan, as the requests of all connections pass them."""

    def __init__(self, journal: Journal | None, faults: FaultPlan, name_of: TopicNames) -> None:
        self.journal = journal
        self.faults = faults
        self.leftovers = Leftovers()
        self._name_of = name_of
        self._held: dict[int, list[tuple[Connection, bytes]]] = {}  # by the number of the rule: the frames that wait
        self._delayed: dict[int, bytes] = {}  # responses that are sent later, by ticket
        self._due: list[tuple[float, int]] = []  # a heap: when, and the ticket; also of clients that have left

    def admit(self, connection: Connection, frame: bytes, request: Any, ticket: int, now_ms: int) -> GatedRequest:
        """Note a request, and find the fault that it meets. Those of members of before a reset are not noted."""
        entry = subject = None
        if self.leftovers:
            subject = self._subject_of(request)
            if (rule := self.leftovers.find(connection.number, subject)) is not None:
                return GatedRequest(None, rule)
        if self.journal is not None:
            client = connection.journal_client
            if client is None or client.principal is not connection.principal:
                listener = connection.listener
                client = connection.journal_client = JournalClient(
                    connection.host, connection.port, connection.number,
                    listener.name, connection.principal, listener.where.node_id,
                )  # fmt: skip
            entry = self.journal.note_request(now_ms, client, frame, ticket)
        if not self.faults:
            return GatedRequest(entry)
        rule = self.faults.find(subject or self._subject_of(request))
        if rule is not None and entry is not None:
            entry.fault = f"fault {rule.number}"
            entry.is_decided = rule.spec.do.is_applied and not rule.spec.do.hold
        return GatedRequest(entry, rule)

    def _subject_of(self, request: Any) -> Subject:
        return subject_of(APIS[request.api_key].name, request.client_id, request.body, self._name_of)

    def finish(self, gated: GatedRequest, data: bytes, now_ms: int) -> bytes | None:
        """Note a response, and do to it what its fault says. Returns what is sent, None for nothing."""
        action = gated.action
        if action.drop == "response" or action.disconnect == "after":
            return None
        if action.truncate is not None:
            data = data[: action.truncate]
        self.note_response(gated, data, now_ms)
        return data

    def note_response(self, gated: GatedRequest, data: bytes, now_ms: int) -> None:
        """Note the response to a request as it is sent."""
        if gated.entry is not None and self.journal is not None:
            self.journal.note_response(gated.entry, data, now_ms)

    # -- requests that wait --------------------------------------------------------------------------------------------

    def hold(self, rule: Rule, connection: Connection, frame: bytes) -> None:
        """Keep a request undecided until its rule ends."""
        self._held.setdefault(rule.number, []).append((connection, frame))

    def release(self, number: int) -> list[tuple[Connection, bytes]]:
        """Return the requests that a rule has held, in the order of their arrival."""
        return self._held.pop(number, [])

    def count_held(self, number: int) -> int:
        """Return how many requests a rule holds now."""
        return len(self._held.get(number, ()))

    def forget(self, connection: Connection, ticket: int) -> None:
        """Hold nothing more of a client that has left, whose request was parked under this ticket."""
        for held in self._held.values():
            held[:] = [one for one in held if one[0] is not connection]
        self._delayed.pop(ticket, None)

    def delay(self, at_s: float, ticket: int, data: bytes) -> None:
        """Keep a response until a real time."""
        self._delayed[ticket] = data
        heappush(self._due, (at_s, ticket))

    def pop_due(self, now_s: float) -> Iterator[tuple[int, bytes]]:
        """Give the responses whose time has come, with their tickets."""
        while self._due and self._due[0][0] <= now_s:
            _, ticket = heappop(self._due)
            if (data := self._delayed.pop(ticket, None)) is not None:
                yield ticket, data

    @property
    def next_s(self) -> float | None:
        """When the next delayed response is due, in real seconds."""
        return self._due[0][0] if self._due else None
