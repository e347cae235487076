"""A response becomes bytes, which go into the outbox; large ones do so in steps."""

import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from coordinator.metrics import Stats
from coordinator.runtime.engine import Engine
from coordinator.runtime.error_response import error_response
from coordinator.server.connection import Connection, EncodedResponse, ParkedRequest, Piece
from coordinator.server.connections import Connections
from coordinator.server.encoding import (
    ENCODINGS_MAX,
    READS,
    Encoding,
    frame_of,
    has_ranges,
    is_fetch_short,
    read_ranges,
)
from coordinator.server.outbox import Outbox
from coordinator.server.quotas import throttle
from coordinator.server.turn import Turn
from protocol.apis import APIS, keys_with
from protocol.codec import encode_response, encode_response_in_pieces, write_correlation_id
from protocol.error_codes import error_counter, error_walker
from protocol.errors import ErrorCode, ProtocolError
from protocol.header import Request
from protocol.messages.fetch import FetchResponse
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse
from protocol.traits import Trait

if TYPE_CHECKING:  # imported with the first journal or fault
    from coordinator.control.gated_request import GatedRequest
    from coordinator.server.gate import Gate

log = logging.getLogger("muster.server")

LATEST_BYTES_MAX: Final = 1_024
"""Of the response to a commit or a fetch that its connection keeps. A client that commits the same partitions again
gets the same object from the handler (`core/offsets/offset_commit.py`), as does one that fetches again and again where
nothing is new (`dataplane/fetch.py`), and a member that sends heartbeats; so they need no other bytes."""
KEPT: Final = keys_with(Trait.CONSTANT)
BRIEF_BYTES_MAX: Final = 16_384  # of an assignment that is encoded at once


def _is_latest(connection: Connection, response: Any) -> bool:
    """Return whether it is the response whose bytes the connection keeps."""
    return connection.latest.response is response


def _is_brief(response: Any) -> bool:
    """Return whether the response to a request that was parked is short, as are most of long polls and joins."""
    cls = response.__class__
    return (
        (cls is FetchResponse and is_fetch_short(response))
        or (cls is JoinGroupResponse and not response.members)
        or (cls is SyncGroupResponse and len(response.assignment) <= BRIEF_BYTES_MAX)
    )


class Encoder:
    """Makes bytes of responses, and counts the errors in them. It alone writes `latest` of a connection."""

    def __init__(self, engine: Engine, turn: Turn, connections: Connections, outbox: Outbox, stats: Stats) -> None:
        self._engine = engine
        self._outbox = outbox
        self.gate: Gate | None = None
        self._turn = turn
        self._connections = connections
        self._stats = stats
        self._error_counters: dict[type, Callable[[Any], Iterable[int]]] = {}
        self.encodings: deque[Encoding] = deque()  # large responses, the first to be finished first

    def set_engine(self, engine: Engine) -> None:
        """Forget the responses of the old engine."""
        self._engine = engine
        self.encodings.clear()
        self._connections.set_encoder_full(False)

    def queue_short_response(
        self, connection: Connection, request: Request | ParkedRequest, response: Any, group_id: str | None = None
    ) -> bytes:
        """Encode a short response, and queue it. Returns its bytes. With a `group_id` it tells of that group alone."""
        latest, version = connection.latest, request.version
        if latest.response is response and latest.version == version:
            data = latest.head + write_correlation_id(request.correlation_id) + latest.tail
        else:
            api_key = request.api_key
            try:
                data = encode_response(api_key, version, request.correlation_id, response)
            except ProtocolError as error:
                if api_key not in READS:
                    self._fail(connection, error)
                    return b""
                response, data = self._say_failure(request, error)
            cls = response.__class__
            codes = self._error_counter(cls)(response)
            for code in codes:
                self._stats.count_error(api_key, code)
            if request.api_key in KEPT and not codes and len(data) <= LATEST_BYTES_MAX:
                connection.latest = EncodedResponse(response, version, data[:4], data[8:])
        outbox = self._outbox
        outbox.add(connection, data, group_id)
        if outbox.is_synced:
            outbox.note_revocable(connection, request, response, [data])
        return data

    def _error_counter(self, cls: type[Any]) -> Callable[[Any], Iterable[int]]:
        """Return a function to the error codes in a response, which is made once for each class of responses."""
        codes = self._error_counters.get(cls)
        if codes is None:
            codes = self._error_counters[cls] = error_counter(cls)
        return codes

    def queue_response(
        self, connection: Connection, request: ParkedRequest, response: Any, *, is_reply: bool = False
    ) -> bool:
        """Encode the response to a request, and queue it. Returns False if it is large, and will be queued later.

        `is_reply`: the request was parked.
        """
        gated = request.gated
        if gated is not None:
            try:
                response = throttle(read_ranges(response), gated.action.throttle_ms)
            except OSError as error:  # as where the poller sends them
                log.warning(
                    "connection closed: records cannot be read: %s", str(error), extra={"client": connection.host}
                )
                self._connections.close(connection, "internal error")
                return True
        elif has_ranges(response):
            self._queue_ranges(connection, request, response)
            return True
        elif _is_latest(connection, response) or _is_brief(response):
            self.queue_short_response(connection, request, response)
            return True
        try:
            later = encode_response_in_pieces(request.api_key, request.version, request.correlation_id, response)
            pieces = list(itertools.islice(later, 2))
        except ProtocolError as error:
            if request.api_key not in READS:
                self._fail(connection, error)
                return True
            response, data = self._say_failure(request, error)
            pieces = [data[4:]]
        if len(pieces) > 1:
            codes = iter(error_walker(response.__class__)(response))
            self.encodings.append(Encoding(request, pieces, later, codes, is_counted=is_reply))
            self._update_backpressure()
            self._connections.park(connection, request)
            frame: list[Piece] = []
        else:
            for code in self._error_counter(response.__class__)(response):
                self._stats.count_error(request.api_key, code)
            frame = self._queue_frame(connection, request, pieces)
        self._outbox.note_revocable(connection, request, response, frame)
        return len(pieces) == 1

    def _queue_ranges(self, connection: Connection, request: ParkedRequest, response: FetchResponse) -> None:
        """Queue a Fetch response whose records are sent as they lie in their files."""
        later = encode_response_in_pieces(request.api_key, request.version, request.correlation_id, response)
        frame = frame_of(list(later))
        for code in self._error_counter(FetchResponse)(response):
            self._stats.count_error(request.api_key, code)
        for piece in frame:
            self._outbox.add(connection, piece)
        self._outbox.note_revocable(connection, request, response, frame)

    def _queue_frame(self, connection: Connection, request: ParkedRequest, pieces: list[bytes]) -> list[Piece]:
        """Queue the pieces of a frame, or what a fault makes of them. Returns what is queued."""
        if len(pieces) > 1 and request.gated is None:
            frame = frame_of(pieces)
            for piece in frame:
                self._outbox.add(connection, piece)
            return frame
        data = b"".join((sum(map(len, pieces)).to_bytes(4, "big"), *pieces))
        if request.gated is None:
            self._outbox.add(connection, data)
        else:
            self._pass(connection, request, request.gated, data)
        return [data]

    def _say_failure(self, request: Request | ParkedRequest, error: ProtocolError) -> tuple[Any, bytes]:
        """Return the response to a request that has changed nothing and whose response has no bytes, and its frame."""
        self._engine.world.edge.report("response", error)
        response = error_response(request.body, request.version, ErrorCode.UNKNOWN_SERVER_ERROR)
        return response, encode_response(request.api_key, request.version, request.correlation_id, response)

    def _fail(self, connection: Connection, error: ProtocolError) -> None:
        """Close a connection whose response has no bytes: the server's fault, and the client would wait for ever."""
        self._engine.world.edge.report("response", error)
        self._connections.close(connection, "internal error")

    # -- large responses -----------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Encode some more of the first large response, and queue it when that is done."""
        encoding = self.encodings[0]
        connection = self._connections.parked.get(encoding.request.ticket)
        if connection is not None:  # else the client has left
            try:
                for code in encoding.step():
                    self._stats.count_error(encoding.request.api_key, code)
            except ProtocolError as error:
                if encoding.request.api_key not in READS:
                    self._fail(connection, error)
                else:
                    encoding.pieces = [self._say_failure(encoding.request, error)[1][4:]]
                    encoding.is_done = True
            else:
                if not encoding.is_done and encoding.size <= self._outbox.unsent.bytes_max:
                    return
            self._end_encoding(connection, encoding)
        self.encodings.popleft()
        self._update_backpressure()

    def _end_encoding(self, connection: Connection, encoding: Encoding) -> None:
        """Queue a response that is encoded, or close the connection if it is too large."""
        request = self._connections.unpark(connection)
        if encoding.is_done:
            if not encoding.is_counted:
                self._outbox.note_decided_late(request.api_key, request.since_s)
            self._queue_frame(connection, request, encoding.pieces)
        elif not connection.closing:
            log.warning(
                "connection closed: its response is larger than queued.max.response.bytes",
                extra={"client": connection.host, "api": APIS[request.api_key].name},
            )
            self._connections.close(connection, "response memory")
        self._connections.enqueue(connection)

    def _update_backpressure(self) -> None:
        """Let requests for large responses go on, if there are few of these by now."""
        self._connections.set_encoder_full(len(self.encodings) >= ENCODINGS_MAX)

    # -- faults --------------------------------------------------------------------------------------------------------

    def _pass(self, connection: Connection, parked: ParkedRequest, gated: "GatedRequest", data: bytes) -> None:
        """Queue the bytes of a response, or what a fault has left of them, now or later."""
        assert self.gate is not None, "a gated is the gate's"
        action = gated.action
        if action.delay_ms and not gated.is_delayed:
            gated.is_delayed = True
            self._connections.park(connection, parked)
            self.gate.delay(self._turn.checked_s + action.delay_ms / 1000, parked.ticket, data)
            return
        left = self.gate.finish(gated, data, self._turn.now_ms)
        if left:
            self._outbox.add(connection, left)
        if action.closes_behind:
            self._connections.close(connection, "fault")

    def queue_delayed_responses(self, gate: "Gate") -> None:
        """Queue the responses whose delay is over."""
        for ticket, data in gate.pop_due(self._turn.real_s()):
            connection = self._connections.parked.get(ticket)
            if connection is None or connection.parked is None or connection.parked.gated is None:
                continue  # it has left
            parked = self._connections.unpark(connection)
            assert parked.gated is not None, "it was looked at"
            self._pass(connection, parked, parked.gated, data)
            self._connections.enqueue(connection)
