"""The server without its sockets: chunks of bytes in, answers as bytes out, in turns.

`receive` decides what a chunk completes, `finish` ends the turn: timers that are due, answers to parked requests, one
append for all, and then the connections that have something to send. A simulation drives this in memory; `poller`
drives it from sockets.
"""

import itertools
import logging
from collections.abc import Callable, Iterable
from typing import Any

from coordinator.core.result import Call
from coordinator.metrics import Stats, error_counter
from coordinator.runtime.api_versions import unknown_version
from coordinator.runtime.clock import Clock
from coordinator.runtime.node import NO_ANSWER, Node
from coordinator.server.connection import Connection, Parked
from coordinator.server.listener import Listener
from protocol.apis import API_VERSIONS
from protocol.codec import decode_request, encode_response
from protocol.errors import ProtocolError, UnsupportedVersion

log = logging.getLogger("muster.server")


class Frontend:
    """All connections, their requests, and the turn that decides them."""

    def __init__(
        self, node: Node, clock: Clock, stats: Stats, fresh_id: Callable[[], str], frame_bytes_max: int
    ) -> None:
        self._node = node
        self._clock = clock
        self._stats = stats
        self._fresh_id = fresh_id
        self._frame_bytes_max = frame_bytes_max
        self._tickets = itertools.count(1)
        self._parked: dict[int, Connection] = {}  # by ticket
        self._touched: dict[Connection, None] = {}  # who may have something to send, in order
        self._decided: dict[int, int] = {}  # in this turn, by API key
        self._error_counters: dict[type, Callable[[Any], Iterable[int]]] = {}
        self._now_ms = 0  # of the turn, 0 between turns
        self._unsent_bytes = 0

    def connect(self, host: str, listener: Listener) -> Connection:
        """A client has connected."""
        return Connection(host, listener, self._frame_bytes_max, self._clock.now_ms())

    def disconnect(self, connection: Connection) -> None:
        """A client has left. What it was parked for goes on without it, but for a long poll."""
        connection.closing = True
        connection.backlog.clear()
        connection.take()
        if connection.parked:
            ticket = connection.parked.ticket
            del self._parked[ticket]
            self._node.forget(ticket)
            connection.parked = None

    def receive(self, connection: Connection, chunk: bytes) -> None:
        """Decide the requests that `chunk` makes whole, as far as they need not wait."""
        now_ms = self._now_ms or self._begin()
        self._touched[connection] = None
        try:
            for frame in connection.feed(chunk, now_ms):
                connection.requests += 1
                if connection.may_decide and not connection.backlog:
                    self._decide(connection, frame)
                elif connection.closing:
                    break  # nobody will answer what comes behind
                else:
                    connection.backlog.append(frame)
        except ProtocolError as error:
            self._refuse(connection, error)

    def resume(self, connection: Connection) -> None:
        """The client takes its answers again: go on with what waited behind them."""
        connection.is_blocked = False
        if not self._now_ms:
            self._begin()
        self._touched[connection] = None
        self._drain(connection)

    def held(self, more_bytes: int) -> None:
        """So many more bytes of answers (or fewer) wait in the poller, because their clients do not take them."""
        self._unsent_bytes += more_bytes
        self._node.held(self._unsent_bytes)

    def finish(self) -> Iterable[Connection]:
        """End the turn. Returns the connections that may have something to send, or to be watched for."""
        now_ms = self._now_ms or self._begin()
        node, parked = self._node, self._parked
        node.fire(now_ms)
        while replies := node.replies():
            for ticket, response in replies:
                connection = parked.pop(ticket, None)
                if connection is not None:
                    self._unpark(connection, response, now_ms)
        node.flush()
        self._count()
        touched, self._touched = self._touched, {}
        self._now_ms = 0
        return touched

    def next_deadline_ms(self) -> int | None:
        """When the next turn must be, though no client says a word; None if there is no such time."""
        return self._node.next_deadline_ms()

    def _begin(self) -> int:
        self._now_ms = self._clock.now_ms()
        return self._now_ms

    def _decide(self, connection: Connection, frame: bytes) -> None:
        """Decide one request: owe its answer, or park it. Raises ProtocolError for bytes that cannot be read."""
        try:
            request = decode_request(frame)
            api_key, version = request.api_key, request.version
            ticket = next(self._tickets)
            call = Call(ticket, self._now_ms, version, request.client_id, connection.host, self._fresh_id)
            response = self._node.handle(api_key, request.body, call, connection.listener.where)
        except UnsupportedVersion as error:
            if error.api_key != API_VERSIONS:
                raise
            # The one request of an unknown version that is answered, so that a client can find a known one.
            answer = unknown_version(self._node.offered[API_VERSIONS], API_VERSIONS)
            connection.owe(encode_response(API_VERSIONS, 0, error.correlation_id, answer))
            return
        if response is None:
            connection.parked = Parked(ticket, api_key, version, request.correlation_id, self._now_ms)
            self._parked[ticket] = connection
            return
        self._decided[api_key] = self._decided.get(api_key, 0) + 1
        if response is not NO_ANSWER:
            self._owe(connection, api_key, version, request.correlation_id, response)

    def _owe(self, connection: Connection, api_key: int, version: int, correlation_id: int, response: Any) -> None:
        codes = self._error_counters.get(response.__class__)
        if codes is None:
            codes = self._error_counters[response.__class__] = error_counter(response.__class__)
        try:
            answer = encode_response(api_key, version, correlation_id, response)
        except ProtocolError as error:  # our own doing, not the client's; it would wait for ever for this answer
            log.error("an answer cannot be written: %s", error, extra={"client": connection.host})
            connection.closing = True
            connection.backlog.clear()
            return
        for code in codes(response):
            self._stats.failed(api_key, code)
        connection.owe(answer)

    def _unpark(self, connection: Connection, response: Any, now_ms: int) -> None:
        """A parked request is answered: then those behind it are decided, in the same turn."""
        parked = connection.parked
        assert parked is not None, "a ticket that waits has a connection that waits"
        connection.parked = None
        connection.heard_ms = now_ms
        self._touched[connection] = None
        self._stats.answered(parked.api_key, (now_ms - parked.since_ms) / 1000)
        self._owe(connection, parked.api_key, parked.version, parked.correlation_id, response)
        self._drain(connection)

    def _drain(self, connection: Connection) -> None:
        try:
            while connection.backlog and connection.may_decide:
                self._decide(connection, connection.backlog.popleft())
        except ProtocolError as error:
            self._refuse(connection, error)

    def _refuse(self, connection: Connection, error: ProtocolError) -> None:
        """Bytes that cannot be read: say why once, send what was decided before them, close."""
        log.warning("connection closed: %s", error, extra={"client": connection.host})
        self._stats.connections_refused += 1
        connection.closing = True
        connection.backlog.clear()

    def _count(self) -> None:
        """One latency for all that the turn decided at once: from its start to the end of its append."""
        if self._decided:
            seconds = (self._clock.now_ms() - self._now_ms) / 1000
            for api_key, times in self._decided.items():
                self._stats.answered(api_key, seconds, times)
            self._decided.clear()
