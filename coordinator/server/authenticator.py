"""The way of a token: what follows from it is found out, on the loop or off it, and its client is told.

SaslHandshake ─► token ─► Authentication.step ─► Work, in a thread ─► settle ─► the response to a success, at once
                                          └───────── else ──────────────┘  └─► to a failure, after a while
"""

import logging
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from coordinator.core.refusal import truncate
from coordinator.core.scram import Credential
from coordinator.runtime.engine import Engine
from coordinator.server.authentication import SASL_AUTHENTICATE, Authentication, Settled
from coordinator.server.connection import Connection, ParkedRequest
from coordinator.server.connections import Connections
from coordinator.server.encoder import Encoder
from coordinator.server.outbox import Outbox
from coordinator.server.sasl.outcome import Failure, Success, Work
from coordinator.server.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest

log = logging.getLogger("muster.server")

LINGER_S: Final = 0.05  # between the response to a failed authentication and the end of the connection
BARE: Final = -1  # in place of the version of SaslAuthenticate: its token is a frame of its own


class Authenticator:
    """The authentications of all connections whose listener asks for one."""

    def __init__(
        self,
        engine: Engine,
        turn: Turn,
        connections: Connections,
        encoder: Encoder,
        outbox: Outbox,
        *,
        failure_s: float,
    ) -> None:
        """`failure_s`: how long the response to a failure is held back."""
        self._engine = engine
        self._turn = turn
        self._connections = connections
        self._encoder = encoder
        self._outbox = outbox
        self._failure_s = failure_s
        self._find: Callable[[int, Work], None] = self._find_here
        self.found: deque[tuple[int, Settled]] = deque()  # what was found out, by ticket
        self.failures: list[tuple[float, int, str]] = []  # when to tell, by ticket: a heap

    def set_engine(self, engine: Engine) -> None:
        """Look users up in this engine from now on."""
        self._engine = engine

    @property
    def next_s(self) -> float | None:
        """When the next client is told that its authentication has failed, or is let go, by the real clock."""
        return self.failures[0][0] if self.failures else None

    def authenticate(self, connection: Connection, authentication: Authentication, frame: bytes) -> int | None:
        """Handle a frame that belongs to the authentication, and return its API key, or -1 if it is parked.

        Returns None for a request that is decided like any other. Raises ProtocolError for one that must not come now.
        """
        if authentication.takes_tokens:
            parked = ParkedRequest(self._connections.next_ticket(), SASL_AUTHENTICATE, BARE, 0, connection.heard_s)
            return self._take_token(connection, authentication, frame, parked)
        now_s = self._turn.checked_s
        if not authentication.is_concerned(int.from_bytes(frame[:2], "big", signed=True), now_s):
            return None
        request = connection.decode(frame)
        if isinstance(request.body, SaslHandshakeRequest):
            response = authentication.shake_hands(request.body, request.version, now_s, self._stored_credential)
            self._encoder.queue_short_response(connection, request, response)
            if response.error_code:
                self._connections.close(connection, "authentication failed")
            return request.api_key
        ticket = self._connections.next_ticket()
        parked = ParkedRequest(ticket, request.api_key, request.version, request.correlation_id, connection.heard_s)
        return self._take_token(connection, authentication, request.body.auth_bytes, parked)

    def _stored_credential(self, user: str, mechanism: int) -> Credential | None:
        found = self._engine.world.ledger.catalog.scram.get((user, mechanism))
        if found is None:
            return None
        return Credential(found.salt, found.stored_key, found.server_key, found.iterations)

    def _take_token(
        self, connection: Connection, authentication: Authentication, token: bytes, parked: ParkedRequest
    ) -> int:
        outcome = authentication.step(token)
        if isinstance(outcome, Work):
            self._connections.park(connection, parked)
            self._find(parked.ticket, outcome)
            return -1
        return self._settle(connection, authentication, outcome, parked)

    # -- what follows from a token -------------------------------------------------------------------------------------

    def find_with(self, find: Callable[[int, Work], None]) -> None:
        """Let `find` find out what follows from a token, off the loop, and call `resume_with`."""
        self._find = find

    def _find_here(self, ticket: int, work: Work) -> None:
        """Find out here and now what follows: a simulation has no threads."""
        self.resume_with(ticket, self.attempt(work))

    def attempt(self, work: Work) -> Settled:
        """Find out what follows from a token. A failure of our own is one of the client's."""
        try:
            return work.find()
        except Exception as error:
            self._engine.world.edge.report("authentication", error)
            return Failure("Authentication failed: internal error")

    def resume_with(self, ticket: int, outcome: Settled) -> None:
        """Go on with a connection in the next turn, because it was found out what follows from its token."""
        self.found.append((ticket, outcome))

    def _settle(
        self, connection: Connection, authentication: Authentication, outcome: Settled, parked: ParkedRequest
    ) -> int:
        """Queue the response to a token, or hold it back for a while if the client has failed."""
        lifetime_ms = 0
        if isinstance(outcome, Success):
            completed = authentication.complete(outcome, self._turn.checked_s)
            if isinstance(completed, Failure):
                outcome = completed
            else:
                lifetime_ms = completed
        if isinstance(outcome, Failure):
            self._connections.park(connection, parked)
            connection.drop_backlog()
            at_s = self._turn.checked_s + self._failure_s
            heappush(self.failures, (at_s, parked.ticket, truncate(outcome.message)))
            return -1
        if isinstance(outcome, Success):
            self._connections.authenticate(connection)
        self._respond(connection, parked, SaslAuthenticateResponse(0, "", outcome.token, lifetime_ms))
        return parked.api_key

    def _respond(self, connection: Connection, parked: ParkedRequest, response: SaslAuthenticateResponse) -> None:
        if parked.version != BARE:
            self._encoder.queue_short_response(connection, parked, response)
        elif not response.error_code:  # a client of bare tokens learns of a failure by the end of the connection
            token = response.auth_bytes
            self._outbox.add(connection, len(token).to_bytes(4, "big") + token)

    def resume(self) -> None:
        """Settle what was found out, and tell clients that have failed once their time has come.

        A client reads the response before it sees the end of the connection: kafka-python looks at neither if both
        arrive together.
        """
        while self.found:
            ticket, outcome = self.found.popleft()
            connection = self._connections.parked.get(ticket)
            if connection is None:
                continue  # it has left
            parked = self._connections.unpark(connection)
            assert connection.authentication is not None, "only such connections send tokens"
            connection.restart_wait(self._turn.checked_s)
            self._settle(connection, connection.authentication, outcome, parked)
            self._connections.enqueue(connection)
        while self.failures and self.failures[0][0] <= self._turn.checked_s:
            _, ticket, message = heappop(self.failures)
            connection = self._connections.parked.get(ticket)
            if connection is None or connection.parked is None:
                continue  # it has left
            if message:
                log.warning("authentication failed: %s", message, extra={"client": connection.host})
                response = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
                self._respond(connection, connection.parked, response)
                self._connections.touch(connection)
                heappush(self.failures, (self._turn.checked_s + LINGER_S, ticket, ""))
            else:
                self._connections.unpark(connection)
                self._connections.close(connection, "authentication failed")
