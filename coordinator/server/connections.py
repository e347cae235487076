"""All connections: whose request is parked, who waits for what, who may have something to send, and what they hold."""

import itertools
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from coordinator.core.principal import Principal
from coordinator.metrics import Stats
from coordinator.server.budget import Budget
from coordinator.server.connection import Connection, ParkedRequest
from coordinator.server.encoding import is_short
from coordinator.server.foreign import foreign_protocol
from coordinator.server.listener import Listener
from coordinator.server.turn import Turn
from coordinator.server.urgency import is_urgent
from protocol.errors import ProtocolError

log = logging.getLogger("muster.server")

PEERS_MAX: Final = 1_024  # hosts that the log has been told of already


class Connections:
    """The connections of all clients, as far as the parts of the server share them."""

    def __init__(self, turn: Turn, stats: Stats, *, frame_bytes_max: int, request_bytes_max: int) -> None:
        self._turn = turn
        self._stats = stats
        self._frame_bytes_max = frame_bytes_max
        self._numbers = itertools.count(1)
        self.next_ticket: Callable[[], int] = itertools.count(1).__next__  # under which a request may be parked
        self.parked: dict[int, Connection] = {}  # by ticket
        self.touched: dict[Connection, None] = {}  # those that may have something to send, in order
        self.resumable: deque[Connection] = deque()  # have a backlog, and go on first
        self.low_priority: deque[Connection] = deque()  # have a backlog, and give way to all others
        self.is_encoder_full = False  # so many large responses are being encoded that requests for more wait
        self.awaiting_encoder: deque[Connection] = deque()  # whose next request does so
        self.requests: Budget[Connection] = Budget(request_bytes_max)  # that are not decided
        self._told_hosts: set[str] = set()

    def connect(self, host: str, listener: Listener, port: int) -> Connection:
        """Make the state of a client that has connected."""
        number = next(self._numbers)
        return Connection(host, listener, self._frame_bytes_max, self._turn.real_s(), port=port, number=number)

    def authenticate(self, connection: Connection) -> None:
        """Let a connection go on as the client that it has proved to be, with frames of any size."""
        assert connection.authentication is not None, "only such a connection has something to prove"
        assert connection.authentication.principal is not None, "it is complete"
        self.identify(connection, connection.authentication.principal)
        connection.frames.limit = self._frame_bytes_max

    @staticmethod
    def identify(connection: Connection, principal: Principal) -> None:
        """Note who the client is."""
        connection.principal = principal

    def close(self, connection: Connection, reason: str) -> None:
        """Decide nothing more for a connection, and close it once its responses are sent. `reason` is counted."""
        self._stats.count_closed_connection(reason)
        connection.stop()
        self.requests.set(connection, 0)
        self.touch(connection)

    def refuse(self, connection: Connection, error: ProtocolError, start: bytes = b"") -> None:
        """Say once why the bytes of a connection cannot be read, and close it behind its responses."""
        self._stats.connections_refused += 1
        foreign = foreign_protocol(start) if connection.client_id is None else None
        self.close(connection, "unreadable")
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

    # -- parked requests -----------------------------------------------------------------------------------------------

    def park(self, connection: Connection, request: ParkedRequest) -> None:
        """Decide nothing more of a connection until there is a response to this request."""
        connection.parked = request
        self.parked[request.ticket] = connection

    def unpark(self, connection: Connection) -> ParkedRequest:
        """Park the request of a connection no longer, and return it."""
        request = connection.parked
        assert request is not None, "a ticket in the table belongs to a connection with a parked request"
        connection.parked = None
        self.parked.pop(request.ticket, None)
        self.touched[connection] = None
        return request

    # -- what waits to be decided --------------------------------------------------------------------------------------

    def touch(self, connection: Connection) -> None:
        """Look at the end of the turn at what a connection has to send."""
        self.touched[connection] = None

    def enqueue(self, connection: Connection) -> None:
        """Go on with the backlog of a connection later."""
        if connection.backlog and connection.may_decide() and not connection.is_queued:
            connection.is_queued = True
            frame = connection.backlog[0]
            if self.is_encoder_full and not is_short(frame):
                self.awaiting_encoder.append(connection)
            elif connection.heavy_until_s > self._turn.checked_s or not is_urgent(frame):
                self.low_priority.append(connection)
            else:
                self.resumable.append(connection)

    def dequeue(self, queue: deque[Connection]) -> Connection:
        """Take the connection out of a queue that is to go on first."""
        connection = queue.popleft()
        connection.is_queued = False
        self.touched[connection] = None
        return connection

    def set_encoder_full(self, is_encoder_full: bool) -> None:
        """Let requests for large responses wait, or go on."""
        self.is_encoder_full = is_encoder_full
        while self.awaiting_encoder and not is_encoder_full:
            self.enqueue(self.dequeue(self.awaiting_encoder))

    def keep(self, connection: Connection) -> None:
        """Keep what cannot be decided now, within the budget of all connections."""
        self.enqueue(connection)
        self.requests.set(connection, connection.undecided_bytes)
        while (offender := self.requests.offender()) is not None:
            log.warning(
                "connection closed: it holds the most of too many bytes of requests (queued.max.request.bytes)",
                extra={"client": offender.host, "bytes": offender.undecided_bytes},
            )
            self.close(offender, "request memory")

    def undecided_connections(self) -> tuple[Connection, ...]:
        """Return the connections with requests that are not decided and could be."""
        return (*self.resumable, *self.low_priority, *self.awaiting_encoder)
