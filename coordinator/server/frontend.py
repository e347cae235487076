"""The server without its sockets: chunks of bytes in, responses as bytes out, in turns.

A turn is one cycle of the poll loop:

    begin ─► receive, for each socket that has something ─► finish: what waits, timers, one append ─► the poller sends

A simulation drives this in memory; `poller` drives it from sockets.

A turn has a budget of time. Once it is over, no further request is decided: what was decided is appended and sent, and
the frames that are left wait in their connections for the next turn. There they go on in this order:

- connections whose turn was cut short, the one that waits longest first;
- what has arrived since;
- connections that give way to the others, one request of each in turn, and at least one in each turn: heavy ones, which
  have kept the loop for long, and those whose next request is not urgent;
- requests that are decided in steps, and large responses, which are encoded in steps: at least one step in each turn.

Urgent is what the members of a group send in order to stay members (`urgency`). So a client that asks for expensive
things is late itself, and members wait for one of its requests at most, however many clients there are.

Timers fire only for a time by which all that had arrived is decided: a member is not expired while its heartbeat waits
for a server that is late. A connection that has more waiting than `SHARE_S` is not waited for: nobody can stop timers.
"""

import itertools
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from heapq import heapify, heappop, heappush
from typing import Any, Final

from coordinator.control.passage import Passage
from coordinator.core.refusal import truncate
from coordinator.core.result import Call
from coordinator.core.scram import Credential
from coordinator.dataplane.withdrawal import RESTING
from coordinator.metrics import Stats, error_counter, error_walker
from coordinator.runtime.api_versions import unknown_version
from coordinator.runtime.clock import Clock, CoordinatorClock
from coordinator.runtime.error_response import error_response
from coordinator.runtime.node import NO_ANSWER, Node
from coordinator.server.authentication import SASL_AUTHENTICATE, Authentication, Settled
from coordinator.server.budget import Budget
from coordinator.server.connection import OWED_BYTES_MAX, Connection, ParkedRequest
from coordinator.server.encoding import ENCODINGS_MAX, READS, SHORT, Encoding, frame_of, is_short
from coordinator.server.foreign import foreign_protocol
from coordinator.server.gate import Gate, throttle
from coordinator.server.listener import Listener
from coordinator.server.quotas import ClientQuotas, is_fetch
from coordinator.server.sasl.outcome import Failure, Success, Work
from coordinator.server.urgency import URGENT, URGENT_BYTES_MAX, is_urgent
from protocol.apis import API_VERSIONS, APIS
from protocol.codec import decode_request, encode_response, encode_response_in_pieces
from protocol.errors import ErrorCode, ProtocolError, UnsupportedVersion
from protocol.header import Request
from protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest

log = logging.getLogger("muster.server")

TURN_S: Final = 0.010  # after which a turn decides nothing more
HEAVY_S: Final = 0.0005  # of processor time: a connection that keeps a turn for longer is heavy for a while
SHARE_S: Final = 0.020  # of processor time for each connection's backlog, before timers fire without the rest of it
CPU_LOOK_S: Final = 0.001  # between two looks at the processor time: what a connection may be charged too much
TURN_OWED_BYTES_MAX: Final = 4 * 1_048_576  # after which a turn decides nothing more
REQUEST_BYTES_MAX: Final = 64 * 1_048_576
RESPONSE_BYTES_MAX: Final = 64 * 1_048_576
LINGER_S: Final = 0.05  # between the response to a failed authentication and the end of the connection
BARE: Final = -1  # in place of the version of SaslAuthenticate: its token is a frame of its own
THROTTLE_MS_MAX: Final = 3_600_000  # however far a client is over its quota
PEERS_MAX: Final = 1_024  # hosts of which is known that the log has named their mistake


class Horizon:
    """A time, and the connections with requests that had arrived by then and are not decided."""

    def __init__(self, at_ms: int, connections: Iterable[Connection]) -> None:
        self.at_ms = at_ms
        self._left_s = dict.fromkeys(connections, SHARE_S)

    def add_time(self, connection: Connection, seconds: float) -> None:
        """Note that so much processor time went into the requests of a connection."""
        left = self._left_s.get(connection)
        if left is None:
            return
        if left <= seconds or not connection.backlog or not connection.may_decide:
            del self._left_s[connection]
        else:
            self._left_s[connection] = left - seconds

    def forget(self, connection: Connection) -> None:
        """Wait no longer for a connection."""
        self._left_s.pop(connection, None)

    @property
    def is_reached(self) -> bool:
        """Whether all that had arrived is decided, or the connection has had its share."""
        return not self._left_s


class Frontend:
    """All connections, their requests, and the turn that decides them."""

    def __init__(
        self,
        node: Node,
        clock: Clock | CoordinatorClock,
        stats: Stats,
        fresh_id: Callable[[], str],
        frame_bytes_max: int,
        *,
        real_s: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] | None = None,
        turn_s: float = TURN_S,
        request_bytes_max: int = REQUEST_BYTES_MAX,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        gate: Gate | None = None,
        failed_authentication_s: float = 0.1,
    ) -> None:
        """`clock` is the coordinator's; `real_s` counts real seconds, for the budget of a turn and for latencies.

        `cpu_s` counts those in which the loop's thread had a processor: a connection is not charged for the time that a
        busy machine takes. Without it the real ones count. A simulation hands in a `real_s` of its own, and no `cpu_s`:
        else, what a turn decides depends on the machine.
        """
        self.node = node
        self._clock = clock
        self._stats = stats
        self.fresh_id = fresh_id
        self._frame_bytes_max = frame_bytes_max
        self.real_s = real_s
        self.cpu_s = cpu_s
        self._cpu_looked_s = 0.0  # the processor time at the latest look
        self._next_look_s = 0.0 if cpu_s else math.inf  # when to look at it again, by the real clock
        self.gate = gate
        self.is_limited = False  # whether any client has a quota
        self._quotas = ClientQuotas()
        self._waits_ms: dict[Connection, int] = {}  # of those whose request is parked: for how long they will wait
        self._muted: list[tuple[float, int, Connection]] = []  # a heap: until when, and the connection's number
        self.is_gated = False  # whether requests pass the gate: while there is something to note or to do
        self._failed_authentication_s = failed_authentication_s
        self.find: Callable[[int, Work], None] = self._find  # off the loop, where there is one
        self._found: deque[tuple[int, Settled]] = deque()  # what was found out, by ticket
        self._failures: list[tuple[float, int, str]] = []  # when to tell, by ticket: a heap
        self._connections = itertools.count(1)
        self._turn_s = turn_s
        self._tickets = itertools.count(1)
        self._parked: dict[int, Connection] = {}  # by ticket
        self._touched: dict[Connection, None] = {}  # those that may have something to send, in order
        self._interrupted: deque[Connection] = deque()  # with a backlog, to go on first
        self._yielding: deque[Connection] = deque()  # with a backlog, to go on when there is time, one request each
        self._replies: deque[tuple[int, Any]] = deque()  # to parked requests, by ticket, to be encoded
        self._encodings: deque[Encoding] = deque()  # large responses, the first to be finished first
        self._is_crowded = False  # there are so many of them that requests for more wait
        self._crowded: deque[Connection] = deque()  # whose next request does so
        self._is_node_next = True  # a step of a long request, not of a large response
        self._horizon: Horizon | None = None
        self._settled_ms = 0  # the time of the last horizon that was reached
        self._decided: dict[int, int] = {}  # of what arrived in this turn, by API key
        self._decided_late: list[tuple[int, float]] = []  # of what arrived before: API key, and when
        self._error_counters: dict[type, Callable[[Any], Iterable[int]]] = {}
        self.now_ms = 0  # the coordinator's time of the turn, 0 between turns
        self._began_s = 0.0  # the turn
        self._over_s = 0.0  # from when on it decides nothing more
        self._checked_s = 0.0  # the latest look at the real clock
        self._owed_bytes = 0  # by this turn
        self._resting: list[tuple[Connection, ParkedRequest, Any, list[bytes]]] = []
        """Responses of this turn that may rest on what it appends to topics, with the bytes that are owed of each."""
        self._told_hosts: set[str] = set()
        self.is_over = False  # the turn's time
        self.has_work = False  # for the next turn, though no client sends anything
        self.requests: Budget[Connection] = Budget(request_bytes_max)  # that are not decided
        self.responses: Budget[Connection] = Budget(response_bytes_max)  # that are not sent

    # -- connections ---------------------------------------------------------------------------------------------------

    def connect(self, host: str, listener: Listener, port: int = 0) -> Connection:
        """Make the state of a client that has connected."""
        number = next(self._connections)
        return Connection(host, listener, self._frame_bytes_max, self.real_s(), port=port, number=number)

    def set_node(self, node: Node) -> None:
        """Go on with another node. Every connection must have been closed: none may get an answer of both."""
        assert not self._parked, "a request of the old node is parked"
        self.node = node
        self._replies.clear()
        self._encodings.clear()
        self._ease()

    def disconnect(self, connection: Connection) -> None:
        """Forget a client that has left. Its parked JoinGroup goes on without it; its long poll does not."""
        connection.closing = True
        self._waits_ms.pop(connection, None)
        if connection.is_muted:
            self._muted = [one for one in self._muted if one[2] is not connection]
            heapify(self._muted)
        connection.backlog.clear()
        connection.take()
        self.requests.set(connection, 0)
        self.note_unsent(connection, 0)
        if self._horizon:
            self._horizon.forget(connection)
        if connection.parked:
            ticket = connection.parked.ticket
            del self._parked[ticket]
            self.node.forget(ticket)
            connection.parked = None
            if self.gate is not None:
                self.gate.forget(connection)

    def close(self, connection: Connection, reason: str) -> None:
        """Decide nothing more for a connection, and close it once its responses are sent. `reason` is counted."""
        self.count_closed(reason)
        connection.closing = True
        connection.backlog.clear()
        connection.frames = type(connection.frames)(connection.frames.limit)
        self.requests.set(connection, 0)
        self._touched[connection] = None

    def count_closed(self, reason: str) -> None:
        """Count a connection that the server closes."""
        self._stats.count_closed_connection(reason)

    def note_unsent(self, connection: Connection, unsent_bytes: int) -> None:
        """Note how many bytes of responses wait in the poller, because the client does not take them."""
        self.responses.set(connection, unsent_bytes)
        self.node.note_unsent(self.responses.total)

    # -- a turn --------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a turn, and go on with the connections that the last one has interrupted."""
        self.now_ms = self._clock.now_ms()
        self._began_s = self._checked_s = began_s = self.real_s()
        self._over_s = began_s + self._turn_s
        self.is_over = False
        self.is_limited = self.node.ledger.catalog.quotas.count > 0
        if self._interrupted:
            self._go_on()

    def receive(self, connection: Connection, chunk: bytes) -> None:
        """Decide the requests that `chunk` completes, as far as there is time and they need not wait."""
        if not self.now_ms:
            self.begin()
        began_s, decided = self._checked_s, self._decided
        if began_s >= self._next_look_s:
            self._look_at_cpu()
        self._touched[connection] = None
        decides = (
            not self.is_over
            and connection.may_decide
            and not connection.backlog
            and connection.heavy_until_s <= began_s
        )
        try:
            for frame in connection.feed(chunk, self._began_s):
                connection.requests += 1
                if decides and 1 < len(frame) <= URGENT_BYTES_MAX and frame[1] in URGENT:  # as `is_urgent` says
                    api_key = self._decide(connection, frame)
                    decides = (
                        self.has_time()
                        and self._checked_s - began_s < HEAVY_S
                        and connection.owed_bytes < OWED_BYTES_MAX
                        and not connection.closing
                    )
                    if api_key >= 0:
                        decided[api_key] = decided.get(api_key, 0) + 1
                    else:
                        decides = False
                elif connection.closing:
                    break  # no response follows to what comes behind
                else:
                    decides = False
                    connection.backlog.append(frame)
        except ProtocolError as error:
            self._refuse(connection, error, chunk)
            return
        if self._checked_s - began_s > HEAVY_S:
            self._charge(connection, began_s)
        if connection.backlog or len(connection.frames):
            self._keep(connection)
        elif self.requests.total:
            self.requests.set(connection, 0)

    def resume(self, connection: Connection) -> None:
        """Go on with what waits behind responses that the client has taken by now."""
        connection.is_blocked = False
        if not self.now_ms:
            self.begin()
        self._touched[connection] = None
        self._enqueue(connection)
        self._go_on()

    def has_time(self) -> bool:
        """Return whether the turn may decide more."""
        self._checked_s = now_s = self.real_s()
        self.is_over = is_over = now_s >= self._over_s or self._owed_bytes >= TURN_OWED_BYTES_MAX
        return not is_over

    def finish(self, read_by_ms: int | None = None) -> Iterable[Connection]:
        """End the turn. Returns the connections that may have something to send, or to be watched for.

        All that had arrived by `read_by_ms` has been received: without it, all that had arrived when the turn began.
        """
        if not self.now_ms:
            self.begin()
        node, parked = self.node, self._parked
        if self.gate is not None and self.gate.next_s is not None:
            self._send_delayed(self.gate)
        if self._muted:
            self._unmute()
        if self._yielding or self._encodings or node.has_steps:
            self._work()
        if self._found or self._failures:
            self._go_on_authenticating()
        settled_ms = self.now_ms if read_by_ms is None else read_by_ms
        if self._interrupted or self._yielding or self._crowded or self._horizon:
            settled_ms = self._settle(settled_ms)
        node.fire(settled_ms)
        replies = self._replies
        replies.extend(node.replies())
        while replies:
            ticket, response = replies.popleft()
            connection = parked.pop(ticket, None)
            if connection is not None:
                self._unpark(connection, response)
            if not self.has_time():
                break  # a response may be large, and there may be many: the others leave in the next turns
            if not replies:
                self._go_on()
                replies.extend(node.replies())
        lost = node.flush()
        if lost:
            self._withdraw(lost)
        self._resting.clear()
        self._count()
        touched, self._touched = self._touched, {}
        self.now_ms = self._owed_bytes = 0
        self.has_work = (
            bool(self._interrupted or self._yielding or self._encodings or replies or self._found) or node.has_steps
        )
        return touched

    def next_deadline_ms(self) -> int | None:
        """Return when a timer of the coordinator fires, by its clock; None if there is no such time."""
        return self.node.next_deadline_ms()

    def next_poll_ms(self) -> int | None:
        """Return when a long poll ends, by the real clock; None if there is no such time."""
        return self.node.next_poll_ms()

    def end_turn(self) -> None:
        """Count how long the turn took, now that its responses have been sent."""
        self._stats.count_turn(self._began_s, self.real_s())

    # -- what waits ----------------------------------------------------------------------------------------------------

    def _keep(self, connection: Connection) -> None:
        """Keep what cannot be decided now, within the budget of all connections."""
        self._enqueue(connection)
        self.requests.set(connection, connection.unread_bytes)
        while (offender := self.requests.offender()) is not None:
            log.warning(
                "connection closed: it holds the most of too many bytes of requests (queued.max.request.bytes)",
                extra={"client": offender.host, "bytes": offender.unread_bytes},
            )
            self.close(offender, "request memory")

    def _enqueue(self, connection: Connection) -> None:
        """Go on with the backlog of a connection later."""
        if connection.backlog and connection.may_decide and not connection.is_queued:
            connection.is_queued = True
            frame = connection.backlog[0]
            if self._is_crowded and not is_short(frame):
                self._crowded.append(connection)
            elif connection.heavy_until_s > self._checked_s or not is_urgent(frame):
                self._yielding.append(connection)
            else:
                self._interrupted.append(connection)

    def _go_on(self) -> None:
        """Decide what waits in the connections that were interrupted, while there is time."""
        while self._interrupted and not self.is_over:
            self._decide_backlog(self._interrupted.popleft(), most=0)

    def _work(self) -> None:
        """Decide one request of each connection that gives way to others and do one step of what is long in turn, while
        there is time; one of each in any case."""
        is_first = True
        while (self._yielding or self._encodings or self.node.has_steps) and (is_first or self.has_time()):
            is_first = False
            if self._yielding:
                self._decide_backlog(self._yielding.popleft(), most=1)
            self._step()

    def _step(self) -> None:
        """Do a step of a long request or of a large response. The latter go first while there are many."""
        if self.node.has_steps and not self._is_crowded and (self._is_node_next or not self._encodings):
            self._is_node_next = False
            self.node.step()
        elif self._encodings:
            self._is_node_next = True
            self._encode_piece()

    def _decide_backlog(self, connection: Connection, most: int) -> None:
        """Decide requests of a queued connection while there is time: `most` of them, or all with 0."""
        connection.is_queued = False
        self._touched[connection] = None
        began_s = self._checked_s
        self._look_at_cpu()
        try:
            while connection.backlog and connection.may_decide:
                if self._is_crowded and not is_short(connection.backlog[0]):
                    break
                api_key = self._decide(connection, connection.backlog.popleft())
                if api_key >= 0:
                    self._decided_late.append((api_key, connection.heard_s))
                most -= 1
                if not (self.has_time() and most) or self._checked_s - began_s >= HEAVY_S:
                    break
        except ProtocolError as error:
            self._refuse(connection, error)
        used_s = self._charge(connection, began_s)
        if self._horizon:
            self._horizon.add_time(connection, used_s)
        if connection.backlog:
            self._enqueue(connection)
        elif self.requests.total:
            self.requests.set(connection, connection.unread_bytes)

    def _look_at_cpu(self) -> float:
        """Return the processor time since the latest look. A look is a system call, and therefore rare."""
        if self.cpu_s is None:
            return math.inf
        before, self._cpu_looked_s = self._cpu_looked_s, self.cpu_s()
        self._next_look_s = self._checked_s + CPU_LOOK_S
        return self._cpu_looked_s - before

    def _charge(self, connection: Connection, began_s: float) -> float:
        """Make a connection heavy if its requests were expensive. Returns the processor time that they took."""
        used_s = min(self._checked_s - began_s, self._look_at_cpu())
        if used_s > HEAVY_S:
            connection.charge(used_s, self._checked_s)
        return used_s

    def _settle(self, read_by_ms: int) -> int:
        """Return the time by which all that had arrived is decided, as far as that is known; something waits."""
        horizon = self._horizon
        if horizon is None:
            self._horizon = Horizon(read_by_ms, (*self._interrupted, *self._yielding, *self._crowded))
        elif horizon.is_reached:
            self._horizon = None
            self._settled_ms = horizon.at_ms
        return self._settled_ms

    # -- one request ---------------------------------------------------------------------------------------------------

    def _decide(self, connection: Connection, frame: bytes) -> int:
        """Decide one request: owe its response, or park it. Raises ProtocolError for bytes that cannot be read.

        Returns its API key if its latency is to be counted: it is not parked.
        """
        passage = None
        if connection.authentication is not None:
            decided = self._authenticate(connection, connection.authentication, frame)
            if decided is not None:
                return decided
        try:
            request = decode_request(frame)
            api_key, version = request.api_key, request.version
            connection.client_id = request.client_id
            ticket = next(self._tickets)
            began_s = self.real_s() if self.is_limited else 0.0
            if self.is_gated and self.gate is not None:
                passage = self.gate.admit(connection, frame, request, ticket, self.now_ms)
            if passage is None or passage.rule is None:
                call = self._call(connection, request, ticket)
                response = self.node.handle(api_key, request.body, call, connection.listener.where)
            else:
                response = self._handle_fault(connection, frame, request, ticket, passage)
        except UnsupportedVersion as error:
            if error.api_key != API_VERSIONS:
                raise
            # The one request of an unknown version that is answered, so that a client can find a known one.
            answer = unknown_version(self.node.offered[API_VERSIONS], API_VERSIONS)
            self._owe_short(connection, API_VERSIONS, 0, error.correlation_id, answer)
            return API_VERSIONS
        if self.is_limited:
            response = self._charge_quotas(connection, api_key, len(frame), began_s, response)
        if response is NO_ANSWER:
            return api_key
        if api_key in SHORT and response is not None and (passage is None or passage.rule is None):
            data = self._owe_short(connection, api_key, version, request.correlation_id, response)
            if passage is not None and self.gate is not None:
                self.gate.note_response(passage, data, self.now_ms)
            return api_key
        body = request.body if api_key in READS else None
        answered = ParkedRequest(ticket, api_key, version, request.correlation_id, connection.heard_s, passage, body)
        if response is None:
            self._park(connection, answered)
            return -1
        return api_key if self._owe(connection, answered, response) else -1

    # -- authentication ------------------------------------------------------------------------------------------------

    def _authenticate(self, connection: Connection, authentication: Authentication, frame: bytes) -> int | None:
        """Handle a frame that belongs to the authentication, and return its API key, or -1 if it is parked.

        Returns None for a request that is decided like any other. Raises ProtocolError for one that must not come now.
        """
        if authentication.takes_tokens:
            parked = ParkedRequest(next(self._tickets), SASL_AUTHENTICATE, BARE, 0, connection.heard_s)
            return self._take_token(connection, authentication, frame, parked)
        now_s = self._checked_s
        if not authentication.is_concerned(int.from_bytes(frame[:2], "big", signed=True), now_s):
            return None
        request = decode_request(frame)
        connection.client_id = request.client_id
        if isinstance(request.body, SaslHandshakeRequest):
            response = authentication.shake_hands(request.body, request.version, now_s, self._stored_credential)
            self._owe_short(connection, request.api_key, request.version, request.correlation_id, response)
            if response.error_code:
                self.close(connection, "authentication failed")
            return request.api_key
        parked = ParkedRequest(
            next(self._tickets), request.api_key, request.version, request.correlation_id, connection.heard_s
        )
        return self._take_token(connection, authentication, request.body.auth_bytes, parked)

    def _stored_credential(self, user: str, mechanism: int) -> Credential | None:
        found = self.node.ledger.catalog.scram.get((user, mechanism))
        if found is None:
            return None
        return Credential(found.salt, found.stored_key, found.server_key, found.iterations)

    def _take_token(
        self, connection: Connection, authentication: Authentication, token: bytes, parked: ParkedRequest
    ) -> int:
        outcome = authentication.step(token)
        if isinstance(outcome, Work):
            self._park(connection, parked)
            self.find(parked.ticket, outcome)
            return -1
        return self._settle_authentication(connection, authentication, outcome, parked)

    def _find(self, ticket: int, work: Work) -> None:
        """Find out here and now what follows: a simulation has no threads."""
        self.note_found(ticket, self.attempt(work))

    def attempt(self, work: Work) -> Settled:
        """Find out what follows from a token. A failure of our own is one of the client's."""
        try:
            return work.find()
        except Exception as error:
            self.node.edge.report("authentication", error)
            return Failure("Authentication failed: internal error")

    def note_found(self, ticket: int, outcome: Settled) -> None:
        """Go on with a connection in the next turn, because it was found out what follows from its token."""
        self._found.append((ticket, outcome))
        self.has_work = True

    def _settle_authentication(
        self, connection: Connection, authentication: Authentication, outcome: Settled, parked: ParkedRequest
    ) -> int:
        """Owe the response to a token, or hold it back for a while if the client has failed."""
        lifetime_ms = 0
        if isinstance(outcome, Success):
            completed = authentication.complete(outcome, self._checked_s)
            if isinstance(completed, Failure):
                outcome = completed
            else:
                lifetime_ms = completed
        if isinstance(outcome, Failure):
            self._park(connection, parked)
            connection.backlog.clear()
            at_s = self._checked_s + self._failed_authentication_s
            heappush(self._failures, (at_s, parked.ticket, truncate(outcome.message)))
            return -1
        if isinstance(outcome, Success):
            assert authentication.principal is not None, "it is complete"
            connection.principal = authentication.principal
            connection.frames.limit = self._frame_bytes_max
        self._owe_token(connection, parked, SaslAuthenticateResponse(0, None, outcome.token, lifetime_ms))
        return parked.api_key

    def _owe_token(self, connection: Connection, parked: ParkedRequest, response: SaslAuthenticateResponse) -> None:
        if parked.version != BARE:
            self._owe_short(connection, parked.api_key, parked.version, parked.correlation_id, response)
        elif not response.error_code:  # a client of bare tokens learns of a failure by the end of the connection
            token = response.auth_bytes
            connection.owed.append(len(token).to_bytes(4, "big") + token)
            connection.owed_bytes += 4 + len(token)

    def _go_on_authenticating(self) -> None:
        """Settle what was found out, and tell clients that have failed once their time has come.

        A client reads the response before it sees the end of the connection: kafka-python looks at neither if both
        arrive together.
        """
        while self._found:
            ticket, outcome = self._found.popleft()
            connection = self._parked.pop(ticket, None)
            if connection is None:
                continue  # it has left
            parked, connection.parked = connection.parked, None
            assert parked is not None, "its token is parked"
            assert connection.authentication is not None, "only such connections send tokens"
            self._touched[connection] = None
            connection.heard_s = self._checked_s
            self._settle_authentication(connection, connection.authentication, outcome, parked)
            self._enqueue(connection)
        while self._failures and self._failures[0][0] <= self._checked_s:
            _, ticket, message = heappop(self._failures)
            connection = self._parked.get(ticket)
            if connection is None or connection.parked is None:
                continue  # it has left
            if message:
                log.warning("authentication failed: %s", message, extra={"client": connection.host})
                response = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
                self._owe_token(connection, connection.parked, response)
                self._touched[connection] = None
                heappush(self._failures, (self._checked_s + LINGER_S, ticket, ""))
            else:
                del self._parked[ticket]
                connection.parked = None
                self.close(connection, "authentication failed")

    @property
    def next_failure_s(self) -> float | None:
        """When the next client is told that its authentication has failed, or is let go, by the real clock."""
        return self._failures[0][0] if self._failures else None

    # -- the way of a request ------------------------------------------------------------------------------------------
    def _charge_quotas(self, connection: Connection, api_key: int, size: int, began_s: float, response: Any) -> Any:
        """Count a request for the quotas of its client. Returns the response, which may tell the client to wait."""
        rules, now_s = self.node.ledger.catalog.quotas, self.real_s()
        principal, client_id = connection.principal, connection.client_id
        wait_ms = self._quotas.charge_request(rules, api_key, principal, client_id, size, now_s - began_s, now_s)
        if response is None:
            self._waits_ms[connection] = wait_ms
            return None
        return self._throttle(connection, response, wait_ms)

    def _throttle(self, connection: Connection, response: Any, wait_ms: int) -> Any:
        """Tell a client to wait if it is over a quota, and do not decide its requests meanwhile."""
        if is_fetch(response):
            rules, principal = self.node.ledger.catalog.quotas, connection.principal
            response, of_bytes_ms = self._quotas.charge_fetch(
                rules, response, principal, connection.client_id, self.real_s()
            )
            wait_ms = max(wait_ms, of_bytes_ms)
        wait_ms = min(max(wait_ms, getattr(response, "throttle_time_ms", 0)), THROTTLE_MS_MAX)
        if wait_ms:
            connection.is_muted = True
            heappush(self._muted, (self.real_s() + wait_ms / 1000, connection.number, connection))
        return response if response is NO_ANSWER else throttle(response, wait_ms)

    @property
    def next_unmuted_s(self) -> float | None:
        """When a client that was told to wait goes on, by the real clock; None if none waits."""
        return self._muted[0][0] if self._muted else None

    def _unmute(self) -> None:
        """Go on with the clients that have waited long enough."""
        now_s = self.real_s()
        while self._muted and self._muted[0][0] <= now_s:
            connection = heappop(self._muted)[2]
            connection.is_muted = any(one is connection for _, _, one in self._muted)
            self._touched[connection] = None
            self._enqueue(connection)

    def _call(self, connection: Connection, request: Request, ticket: int) -> Call:
        """Return what the handlers learn of a request besides its body."""
        return Call(
            ticket,
            self.now_ms,
            request.version,
            request.client_id,
            connection.host,
            self.fresh_id,
            connection.principal,
            connection.listener.name,
        )

    def _handle_fault(
        self, connection: Connection, frame: bytes, request: Request, ticket: int, passage: Passage
    ) -> Any:
        """Return the response to a request that meets a fault, None while it is parked, NO_ANSWER if there is none."""
        assert self.gate is not None, "only the gate finds faults"
        assert passage.rule is not None, "only a rule is a fault"
        action = passage.action
        if action.hold:
            self.gate.hold(passage.rule, connection, frame)
            return None
        response = NO_ANSWER
        if action.is_applied:
            call = self._call(connection, request, ticket)
            response = self.node.handle(request.api_key, request.body, call, connection.listener.where)
        if action.disconnect == "before":
            self.close(connection, "fault")
        elif action.error:
            if response is None:  # it is parked, and its response will come to nobody
                self.node.forget(ticket)
            response = error_response(request.body, request.version, ErrorCode[action.error])
        return response

    def _park(self, connection: Connection, parked: ParkedRequest) -> None:
        connection.parked = parked
        self._parked[parked.ticket] = connection

    def _owe_short(
        self, connection: Connection, api_key: int, version: int, correlation_id: int, response: Any
    ) -> bytes:
        """Encode a short response, and owe it. Returns its bytes."""
        try:
            data = encode_response(api_key, version, correlation_id, response)
        except ProtocolError as error:
            self._fail(connection, error)
            return b""
        for code in (self._error_counters.get(response.__class__) or self._error_counter(response.__class__))(response):
            self._stats.count_error(api_key, code)
        if self.node.is_synced and type(response) in RESTING:
            request = ParkedRequest(0, api_key, version, correlation_id, connection.heard_s)
            self._resting.append((connection, request, response, [data]))
        size = len(data)
        connection.owed.append(data)
        connection.owed_bytes += size
        self._owed_bytes += size
        return data

    def _error_counter(self, cls: type[Any]) -> Callable[[Any], Iterable[int]]:
        """Return a function to the error codes in a response, which is made once for each class of responses."""
        codes = self._error_counters.get(cls)
        if codes is None:
            codes = self._error_counters[cls] = error_counter(cls)
        return codes

    def _owe(self, connection: Connection, request: ParkedRequest, response: Any, *, is_reply: bool = False) -> bool:
        """Encode the response to a request, and owe it. Returns False if it is large, and will be owed later.

        `is_reply`: the request was parked.
        """
        passage = request.passage
        if passage is not None:
            response = throttle(response, passage.action.throttle_ms)
        try:
            later = encode_response_in_pieces(request.api_key, request.version, request.correlation_id, response)
            pieces = list(itertools.islice(later, 2))
        except ProtocolError as error:
            if request.body is None:
                self._fail(connection, error)
                return True
            response, pieces = self._say_failure(request, error)
        if len(pieces) > 1:
            codes = iter(error_walker(response.__class__)(response))
            self._encodings.append(Encoding(request, pieces, later, codes, is_counted=is_reply))
            self._is_crowded = len(self._encodings) >= ENCODINGS_MAX
            self._park(connection, request)
            frame: list[bytes] = []
        else:
            for code in self._error_counter(response.__class__)(response):
                self._stats.count_error(request.api_key, code)
            frame = self._owe_frame(connection, request, pieces)
        if self.node.is_synced and type(response) in RESTING:
            self._resting.append((connection, request, response, frame))
        return len(pieces) == 1

    def _owe_frame(self, connection: Connection, request: ParkedRequest, pieces: list[bytes]) -> list[bytes]:
        """Owe the pieces of a frame, or what a fault makes of them. Returns what is owed."""
        pieces = frame_of(pieces)
        frame = [b"".join(pieces)] if len(pieces) == 2 or request.passage is not None else pieces
        if request.passage is not None:
            self._pass(connection, request, request.passage, frame[0])
            return frame
        for data in frame:
            connection.owed.append(data)
            connection.owed_bytes += len(data)
            self._owed_bytes += len(data)
        return frame

    def _say_failure(self, request: ParkedRequest, error: ProtocolError) -> tuple[Any, list[bytes]]:
        """Return the response to a request that has changed nothing and whose response has no bytes, and its bytes."""
        self.node.edge.report("response", error)
        response = error_response(request.body, request.version, ErrorCode.UNKNOWN_SERVER_ERROR)
        return response, [encode_response(request.api_key, request.version, request.correlation_id, response)[4:]]

    def _fail(self, connection: Connection, error: ProtocolError) -> None:
        """Close a connection whose response has no bytes: the server's fault, and the client would wait for ever."""
        self.node.edge.report("response", error)
        self.close(connection, "internal error")

    def _encode_piece(self) -> None:
        """Do some more of the first large response, and owe it when that is done."""
        encoding = self._encodings[0]
        connection = self._parked.get(encoding.request.ticket)
        if connection is not None:  # else the client has left
            try:
                for code in encoding.step():
                    self._stats.count_error(encoding.request.api_key, code)
            except ProtocolError as error:
                if encoding.request.body is None:
                    self._fail(connection, error)
                else:
                    _, encoding.pieces = self._say_failure(encoding.request, error)
                    encoding.is_done = True
            else:
                if not encoding.is_done and encoding.size <= self.responses.bytes_max:
                    return
            self._end_encoding(connection, encoding)
        self._encodings.popleft()
        self._ease()

    def _end_encoding(self, connection: Connection, encoding: Encoding) -> None:
        """Owe a response that is encoded, or close the connection if it is too large."""
        request = encoding.request
        del self._parked[request.ticket]
        connection.parked = None
        self._touched[connection] = None
        if encoding.is_done:
            if not encoding.is_counted:
                self._decided_late.append((request.api_key, request.since_s))
            self._owe_frame(connection, request, encoding.pieces)
        elif not connection.closing:
            log.warning(
                "connection closed: its response is larger than queued.max.response.bytes",
                extra={"client": connection.host, "api": APIS[request.api_key].name},
            )
            self.close(connection, "response memory")
        self._enqueue(connection)

    def _ease(self) -> None:
        """Let requests for large responses go on, if there are few of these by now."""
        self._is_crowded = len(self._encodings) >= ENCODINGS_MAX
        while self._crowded and not self._is_crowded:
            connection = self._crowded.popleft()
            connection.is_queued = False
            self._enqueue(connection)

    def _withdraw(self, lost: Collection[tuple[str, int]]) -> None:
        """Replace the responses of this turn that rest on records of these partitions, which are lost.

        One that a fault delays or shortens cannot be replaced: its connection is closed.
        """
        for number, (ticket, response) in enumerate(self._replies):
            self._replies[number] = ticket, self.node.dataplane.withdraw(response, lost)
        for connection, request, response, frame in self._resting:
            without = self.node.dataplane.withdraw(response, lost)
            if without is response:
                continue
            self._stats.count_error(request.api_key, ErrorCode.KAFKA_STORAGE_ERROR)
            at = next((at for at, data in enumerate(connection.owed) if frame and data is frame[0]), None)
            if at is None:  # it is not whole yet, or no longer what it was
                self._drop(connection, request)
                continue
            data = encode_response(request.api_key, request.version, request.correlation_id, without)
            connection.owed[at : at + len(frame)] = [data]
            connection.owed_bytes += len(data) - sum(map(len, frame))

    def _drop(self, connection: Connection, request: ParkedRequest) -> None:
        """Close a connection without the responses that it is owed."""
        connection.take()
        for encoding in [one for one in self._encodings if one.request is request]:
            self._encodings.remove(encoding)
            del self._parked[request.ticket]
            connection.parked = None
            self._ease()
        self.close(connection, "internal error")

    def _pass(self, connection: Connection, parked: ParkedRequest, passage: Passage, data: bytes) -> None:
        """Owe the bytes of a response, what a fault has left of them, or all of them later."""
        assert self.gate is not None, "a passage is the gate's"
        action = passage.action
        if action.delay_ms and not passage.is_delayed:
            passage.is_delayed = True
            self._park(connection, parked)
            self.gate.delay(self._checked_s + action.delay_ms / 1000, parked.ticket, data)
            return
        left = self.gate.finish(passage, data, self.now_ms)
        if left:
            connection.owed.append(left)
            connection.owed_bytes += len(left)
            self._owed_bytes += len(left)
        if action.disconnect == "after" or action.truncate is not None:
            self.close(connection, "fault")

    def _unpark(self, connection: Connection, response: Any) -> None:
        """Owe the response to a parked request, and go on with those behind it."""
        parked = connection.parked
        assert parked is not None, "a ticket in the table belongs to a connection with a parked request"
        connection.parked = None
        connection.heard_s = now_s = self._checked_s
        self._touched[connection] = None
        self._stats.count_wait(parked.api_key, now_s - parked.since_s)
        if self.is_limited:
            response = self._throttle(connection, response, self._waits_ms.pop(connection, 0))
        if response is not NO_ANSWER:
            self._owe(connection, parked, response, is_reply=True)
        self._enqueue(connection)

    def _send_delayed(self, gate: Gate) -> None:
        """Owe the responses whose delay is over."""
        for delayed in gate.pop_due(self.real_s()):
            connection = self._parked.pop(delayed.ticket, None)
            parked = None if connection is None else connection.parked
            if connection is not None and parked is not None and parked.passage is not None:
                connection.parked = None
                self._touched[connection] = None
                self._pass(connection, parked, parked.passage, delayed.data)
                self._enqueue(connection)

    def release(self, number: int) -> int:
        """Decide the requests that a rule of the fault plan has held, and that now wait no more. Returns how many."""
        held = [] if self.gate is None else self.gate.release(number)
        for connection, frame in held:
            assert connection.parked is not None, "a held request is parked"
            del self._parked[connection.parked.ticket]
            connection.parked = None
            connection.backlog.appendleft(frame)
            self._enqueue(connection)
        return len(held)

    def _refuse(self, connection: Connection, error: ProtocolError, start: bytes = b"") -> None:
        """Say once why the bytes of a connection cannot be read, and close it behind the responses that it is owed."""
        self._stats.connections_refused += 1
        self.close(connection, "unreadable")
        foreign = None if connection.requests else foreign_protocol(start)
        if foreign is None:
            log.warning("connection closed: %s", error, extra={"client": connection.host})
        elif connection.host not in self._told_hosts:
            if len(self._told_hosts) >= PEERS_MAX:
                self._told_hosts.clear()
            self._told_hosts.add(connection.host)
            log.warning(
                "connection closed: looks like %s, and this port speaks Kafka's protocol %s",
                foreign,
                "without encryption" if connection.listener.tls is None else "behind TLS",
                extra={"client": connection.host},
            )

    def _count(self) -> None:
        """Count the latencies of what the turn decided: from the arrival of the request to the end of the append."""
        if not (self._decided or self._decided_late):
            return
        now_s, stats = self.real_s(), self._stats
        for api_key, times in self._decided.items():
            stats.count_response(api_key, now_s - self._began_s, times)
        self._decided.clear()
        for api_key, arrived_s in self._decided_late:
            stats.count_response(api_key, now_s - arrived_s)
        self._decided_late.clear()
