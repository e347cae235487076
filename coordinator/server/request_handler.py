"""One request on its way through the server: who asks, the gate, the engine, quotas, and the response."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from coordinator.core.decision import PARKED, SILENT, Done, Outcome, Parked, Silent
from coordinator.core.renewal import SUCCESS
from coordinator.core.result import Call
from coordinator.metrics import Stats
from coordinator.runtime.api_versions import unknown_version
from coordinator.runtime.engine import Engine
from coordinator.runtime.error_response import error_response
from coordinator.server.authentication import NEVER_S
from coordinator.server.authenticator import Authenticator
from coordinator.server.connection import Connection, ParkedRequest
from coordinator.server.connections import Connections
from coordinator.server.encoder import Encoder
from coordinator.server.encoding import READS, SHORT, has_ranges
from coordinator.server.outbox import Outbox
from coordinator.server.quotas import ThrottledClients
from coordinator.server.repeated_heartbeat import keep
from coordinator.server.turn import Turn
from coordinator.server.urgency import URGENT_BYTES
from protocol.apis import API_VERSIONS, APIS, FETCH
from protocol.errors import ErrorCode, UnsupportedVersion
from protocol.header import Request
from protocol.messages.produce import ProduceRequest

if TYPE_CHECKING:  # imported with the first journal or fault
    from coordinator.control.gated_request import GatedRequest
    from coordinator.server.gate import Gate

log = logging.getLogger("muster.server")


class RequestHandler:
    """Handles one request after the other. In which order, and when, the frontend decides."""

    def __init__(
        self,
        engine: Engine,
        turn: Turn,
        connections: Connections,
        encoder: Encoder,
        outbox: Outbox,
        authenticator: Authenticator,
        throttled: ThrottledClients,
        stats: Stats,
        fresh_id: Callable[[], str],
    ) -> None:
        self._engine = engine
        self.fresh_id = fresh_id
        self.gate: Gate | None = None
        self.is_gated = False  # whether requests pass the gate: while there is something to note or to do
        self.is_limited = False  # whether any client has a quota
        self.is_observed = False  # whether they pass the gate, or are charged to quotas
        self._turn = turn
        self._connections = connections
        self._next_ticket = connections.next_ticket
        self._encoder = encoder
        self._outbox = outbox
        self._authenticator = authenticator
        self._throttled = throttled
        self._stats = stats

    def set_engine(self, engine: Engine) -> None:
        """Have requests decided by this engine from now on."""
        self._engine = engine

    def set_gated(self, is_gated: bool) -> None:
        """Let requests pass the gate from now on, or no longer."""
        self.is_gated = is_gated
        self.is_observed = is_gated or self.is_limited

    def set_limited(self, is_limited: bool) -> None:
        """Charge requests to the quotas of their clients from now on, or no longer."""
        self.is_limited = is_limited
        self.is_observed = is_limited or self.is_gated

    def decide(self, connection: Connection, frame: bytes, request: Request | None = None) -> int:
        """Decide one request: queue its response, or park it. Raises ProtocolError for bytes that cannot be read.

        `request` is what was decoded of the frame, if that is done.
        Returns its API key if its latency is to be counted, since it is not parked; else -1.
        """
        if connection.authentication is not None:
            decided = self._authenticator.authenticate(connection, connection.authentication, frame)
            if decided is not None:
                connection.heartbeat = None  # it was the client's whose authentication it was
                return decided
        gated = None
        try:
            request = connection.decode(frame) if request is None else request
            api_key, listener = request.api_key, connection.listener
            call = Call(
                self._next_ticket(),
                self._turn.now_ms,
                request.version,
                request.client_id,
                connection.host,
                self.fresh_id,
                connection.principal,
                listener.name,
                None,
                connection.number,
            )
            if self.is_observed:
                outcome, gated = self._pass_gate_and_charge(connection, frame, request, call)
            else:
                outcome = self._engine.handle(api_key, request.body, call, listener.where)
        except UnsupportedVersion as error:
            if error.api_key != API_VERSIONS:
                raise
            # The one request of an unknown version that is answered, so that a client can find a known one.
            answer = unknown_version(self._engine.offered[API_VERSIONS], API_VERSIONS)
            self._encoder.queue_short_response(connection, Request(API_VERSIONS, 0, error.correlation_id), answer)
            return API_VERSIONS
        if type(outcome) is not Done:
            if isinstance(outcome, Parked):
                self._connections.park(connection, self._park(connection, request, call, gated))
                return -1
            if isinstance(outcome, Silent) and outcome.closes:
                self._close_unanswered(connection, api_key, outcome.closes)
            return api_key
        response = outcome.response
        if (
            api_key in SHORT
            and len(frame) <= URGENT_BYTES
            and (gated is None or gated.rule is None)
            and (api_key != FETCH or not has_ranges(response))
        ):
            data = self._encoder.queue_short_response(connection, request, response, outcome.group_id)
            if gated is not None and self.gate is not None:
                self.gate.note_response(gated, data, self._turn.now_ms)
            if response is SUCCESS and not self.is_observed:
                renewal, authentication = self._engine.find_renewal(request.body), connection.authentication
                expires_s = NEVER_S if authentication is None else authentication.expires_s
                connection.heartbeat = keep(renewal, request.client_id, expires_s, frame, data)
            return api_key
        answered = self._park(connection, request, call, gated)
        return api_key if self._encoder.queue_response(connection, answered, response) else -1

    @staticmethod
    def _park(connection: Connection, request: Request, call: Call, gated: "GatedRequest | None") -> ParkedRequest:
        body = request.body if request.api_key in READS else None
        return ParkedRequest(
            call.ticket, request.api_key, call.version, request.correlation_id, connection.heard_s, gated, body
        )

    def _pass_gate_and_charge(
        self, connection: Connection, frame: bytes, request: Request, call: Call
    ) -> tuple[Outcome, "GatedRequest | None"]:
        """Handle a request that passes the gate, or whose client may have a quota."""
        gated = None
        began_s = self._turn.real_s() if self.is_limited else 0.0
        if self.is_gated and self.gate is not None:
            gated = self.gate.admit(connection, frame, request, call.ticket, call.now_ms)
        if gated is None or gated.rule is None:
            outcome = self._engine.handle(request.api_key, request.body, call, connection.listener.where)
        else:
            outcome = self._handle_fault(connection, frame, request, call, gated)
        if self.is_limited:
            now_s = self._turn.real_s()
            outcome = self._throttled.charge(connection, request.api_key, len(frame), now_s - began_s, outcome, now_s)
        return outcome, gated

    def reply(self, connection: Connection, outcome: Done | Silent) -> None:
        """Queue the response to a parked request, and go on with those behind it."""
        parked = self._connections.unpark(connection)
        now_s = self._turn.checked_s
        connection.restart_wait(now_s)
        self._stats.count_wait(parked.api_key, now_s - parked.since_s)
        if self.is_limited:
            outcome = self._throttled.end_wait(connection, outcome, self._turn.real_s())
        if isinstance(outcome, Done):
            self._encoder.queue_response(connection, parked, outcome.response, is_reply=True)
        elif outcome.closes:
            self._close_unanswered(connection, parked.api_key, outcome.closes)
        if connection.backlog:
            self._connections.enqueue(connection)

    def _close_unanswered(self, connection: Connection, api_key: int, reason: str) -> None:
        """Close a connection whose request has failed, where no response can say so."""
        log.warning(
            "connection closed: no response can say that its request has failed",
            extra={"client": connection.host, "api": APIS[api_key].name, "reason": reason},
        )
        self._connections.close(connection, reason)

    # -- faults --------------------------------------------------------------------------------------------------------

    def _handle_fault(
        self, connection: Connection, frame: bytes, request: Request, call: Call, gated: "GatedRequest"
    ) -> Outcome:
        """Decide a request that meets a fault."""
        assert self.gate is not None, "only the gate finds faults"
        assert gated.rule is not None, "only a rule is a fault"
        action = gated.action
        if action.hold:
            self.gate.hold(gated.rule, connection, frame)
            return PARKED
        outcome: Outcome = SILENT
        if action.is_applied:
            outcome = self._engine.handle(request.api_key, request.body, call, connection.listener.where)
        is_unanswered = type(request.body) is ProduceRequest and not request.body.acks
        if action.disconnect == "before" or (is_unanswered and (action.error or action.closes_behind)):
            self._connections.close(connection, "fault")  # a producer without acks is told of an error so by Kafka, too
        elif action.error:
            if isinstance(outcome, Parked) and not self._is_under_way(request.api_key, call.ticket):
                self._engine.forget(call.ticket)  # its response would come to nobody
            outcome = Done(error_response(request.body, request.version, ErrorCode[action.error]))
        return outcome

    def _is_under_way(self, api_key: int, ticket: int) -> bool:
        """Return whether a request changes something in further steps, which are done though nobody waits for them."""
        return api_key not in READS and self._engine.unfinished.find(ticket) is not None

    def release(self, number: int) -> int:
        """Decide the requests that a rule of the fault plan has held, and that now wait no more. Returns how many."""
        held = [] if self.gate is None else self.gate.release(number)
        for connection, frame in held:
            self._connections.unpark(connection)
            connection.put_back(frame)
            self._connections.enqueue(connection)
        return len(held)
