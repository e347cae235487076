"""The gate that requests pass on their way: the journal and the fault plan.

    frame ─► decode ─► Gate.admit ─► step ─► Gate.finish ─► send

A frontend has a gate only where somebody may look or interfere; without one, a request passes a single `is None`.
"""

import itertools
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct

from coordinator.control.faults import FaultPlan, Rule
from coordinator.control.gated_request import GatedRequest
from coordinator.control.journal import Journal, JournalClient
from coordinator.control.leftovers import Leftovers
from coordinator.control.subject import Subject, TopicNames, subject_of
from coordinator.server.connection import Connection
from protocol.apis import APIS


class LateResponse(Struct, order=True):
    """A response that is sent later."""

    at_s: float
    number: int
    ticket: int
    data: bytes


class Gate:
    """The journal and the fault plan, as the requests of all connections pass them."""

    def __init__(self, journal: Journal | None, faults: FaultPlan, name_of: TopicNames) -> None:
        self.journal = journal
        self.faults = faults
        self.leftovers = Leftovers()
        self._name_of = name_of
        self._held: dict[int, list[tuple[Connection, bytes]]] = {}  # by the number of the rule: the frames that wait
        self._delayed: list[LateResponse] = []
        self._numbers = itertools.count()

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

    def forget(self, connection: Connection) -> None:
        """Hold nothing more of a client that has left."""
        for held in self._held.values():
            held[:] = [one for one in held if one[0] is not connection]

    def delay(self, at_s: float, ticket: int, data: bytes) -> None:
        """Keep a response until a real time."""
        heappush(self._delayed, LateResponse(at_s, next(self._numbers), ticket, data))

    def pop_due(self, now_s: float) -> Iterator[LateResponse]:
        """Give the responses whose time has come."""
        while self._delayed and self._delayed[0].at_s <= now_s:
            yield heappop(self._delayed)

    @property
    def next_s(self) -> float | None:
        """When the next delayed response is due, in real seconds."""
        return self._delayed[0].at_s if self._delayed else None
