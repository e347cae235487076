"""The server without its sockets: chunks of bytes in, responses as bytes out, in turns.

A turn is one cycle of the poll loop:

    begin ─► receive, for each socket that has something ─► finish: what waits, timers, one append ─► the poller sends

A simulation drives this in memory; `poller` drives it from sockets.

A turn has a budget of time. Once it is over, no further request is decided: what was decided is appended and sent, and
the frames that are left wait in their connections for the next turn. There they go on in this order:

- connections whose turn was cut short, the one that waits longest first;
- what has arrived since;
- connections that give way to the others, one request of each in turn, and at least one in each turn: heavy ones, which
  have kept the loop for long, and those whose next request is not urgent; of a long request, one step of decoding;
- requests that are decided in steps, and large responses, which are encoded in steps: at least one step in each turn.

Where a turn has one chunk alone and nothing waits, its request is decided at once, urgent or not.
Urgent is what the members of a group send in order to stay members (`urgency`). So a client that asks for expensive
things is late itself, and members wait for one of its requests at most, however many clients there are.

Timers fire only for a time by which all that had arrived is decided: a member is not expired while its heartbeat waits
for a server that is late. A connection that has more waiting than `SHARE_S` is not waited for: nobody can stop timers.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from coordinator.core.decision import Done, Silent
from coordinator.metrics import Stats
from coordinator.runtime.clock import Clock, CoordinatorClock
from coordinator.runtime.engine import Engine
from coordinator.server.authenticator import Authenticator
from coordinator.server.connection import Connection
from coordinator.server.connections import Connections
from coordinator.server.decoding import LONG_BYTES, LongRequests
from coordinator.server.encoder import Encoder
from coordinator.server.encoding import is_short
from coordinator.server.listener import Listener
from coordinator.server.outbox import Outbox
from coordinator.server.quotas import ThrottledClients
from coordinator.server.request_handler import RequestHandler
from coordinator.server.turn import HEAVY_S, TURN_S, Turn
from coordinator.server.urgency import URGENT_BYTES_MAX
from coordinator.server.watermark import Watermark
from protocol.apis import BY_NAME
from protocol.errors import ProtocolError, UnsupportedVersion

if TYPE_CHECKING:  # imported with the first journal or fault
    from coordinator.server.gate import Gate

REQUESTS_BYTES_MAX: Final = 64 * 1_048_576  # of all connections
RESPONSES_BYTES_MAX: Final = 64 * 1_048_576  # of all connections
HEARTBEAT: Final = BY_NAME["Heartbeat"].key


class Holder(Protocol):
    """Holds back clients or responses for a while."""

    @property
    def next_s(self) -> float | None:
        """When it lets the next one go, by the real clock; None if it holds none."""


class Frontend:
    """All connections, their requests, and the turn that decides them."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock | CoordinatorClock,
        stats: Stats,
        fresh_id: Callable[[], str],
        frame_bytes_max: int,
        *,
        real_s: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] | None = None,
        turn_s: float = TURN_S,
        request_bytes_max: int = REQUESTS_BYTES_MAX,
        response_bytes_max: int = RESPONSES_BYTES_MAX,
        failed_authentication_s: float = 0.1,
    ) -> None:
        """`clock` is the coordinator's; `real_s` counts real seconds, for the budget of a turn and for latencies.

        `cpu_s` counts those in which the loop's thread had a processor: a connection is not charged for the time that a
        busy machine takes. Without it the real ones count. A simulation hands in a `real_s` of its own, and no `cpu_s`:
        else, what a turn decides depends on the machine.
        """
        self.engine = engine
        self._clock = clock
        self._stats = stats
        self.turn = Turn(real_s, cpu_s, turn_s)
        self.connections = Connections(
            self.turn, stats, frame_bytes_max=frame_bytes_max, request_bytes_max=request_bytes_max
        )
        self.outbox = Outbox(engine, self.turn, self.connections, stats, response_bytes_max)
        self.encoder = Encoder(engine, self.turn, self.connections, self.outbox, stats)
        self.authenticator = Authenticator(
            engine, self.turn, self.connections, self.encoder, self.outbox, failure_s=failed_authentication_s
        )
        self.throttled = ThrottledClients(engine)
        self._holders: list[Holder] = [self.authenticator, self.throttled]
        self.handler = RequestHandler(
            engine,
            self.turn,
            self.connections,
            self.encoder,
            self.outbox,
            self.authenticator,
            self.throttled,
            stats,
            fresh_id,
        )
        self._long_requests = LongRequests()
        self._is_node_next = True  # a step of a long request, not of a large response
        self._watermark: Watermark | None = None
        self._decided_until_ms = 0  # the last watermark that was reached
        self.has_work = False  # whether the latest turn has left anything for the next one

    def set_gate(self, gate: "Gate") -> None:
        """Let requests and responses pass a gate, once the handler's `is_gated` says so."""
        self.handler.gate = self.encoder.gate = gate
        self._holders = [self.authenticator, self.throttled, gate]

    def set_engine(self, engine: Engine) -> None:
        """Go on with another engine. Every connection must have been closed: none may get an answer of both."""
        assert not self.connections.parked, "a request of the old node is parked"
        self.engine = engine
        for part in (self.outbox, self.encoder, self.authenticator, self.throttled, self.handler):
            part.set_engine(engine)

    # -- connections ---------------------------------------------------------------------------------------------------

    def connect(self, host: str, listener: Listener, port: int = 0) -> Connection:
        """Make the state of a client that has connected."""
        return self.connections.connect(host, listener, port)

    def disconnect(self, connection: Connection) -> None:
        """Forget a client that has left. Its parked JoinGroup goes on without it; its long poll does not."""
        connection.stop()
        self._long_requests.forget(connection)
        self.throttled.forget(connection)
        self.outbox.drop(connection)
        self.connections.requests.set(connection, 0)
        self.outbox.note_unsent(connection, 0)
        if self._watermark:
            self._watermark.forget(connection)
        if connection.parked:
            request = self.connections.unpark(connection)
            self.engine.forget(request.ticket)
            if self.handler.gate is not None:
                self.handler.gate.forget(connection, request.ticket)
        self.engine.disconnect(connection.number, self._clock.now_ms())

    def close(self, connection: Connection, reason: str) -> None:
        """Decide nothing more for a connection, and close it once its responses are sent. `reason` is counted."""
        self.connections.close(connection, reason)

    def count_closed(self, reason: str) -> None:
        """Count a connection that the server closes."""
        self._stats.count_closed_connection(reason)

    # -- a turn --------------------------------------------------------------------------------------------------------

    def begin(self, *, goes_on: bool = True) -> None:
        """Begin a turn, and go on with the connections that the last one has interrupted, unless others go first."""
        self.turn.begin(self._clock.now_ms())
        is_limited = self.engine.world.ledger.catalog.quotas.count > 0
        if is_limited is not self.handler.is_limited:
            self.handler.set_limited(is_limited)
        if self.outbox.held_bytes:
            self.outbox.begin_turn()
        if goes_on and self.connections.resumable:
            self._resume_connections()

    def receive(self, connection: Connection, chunk: bytes, *, is_alone: bool = False) -> None:
        """Decide the requests that `chunk` completes, as far as there is time and they need not wait."""
        self.receive_all(((connection, chunk),), is_alone=is_alone)

    def receive_all(self, chunks: Iterable[tuple[Connection, bytes]], *, is_alone: bool = False) -> None:
        """As `receive`, for many connections; `chunks` may read the sockets one after the other meanwhile.

        `is_alone`: the turn has no other chunk. If nothing else waits either, there is nobody to give way to.
        """
        turn, connections = self.turn, self.connections
        if not turn.now_ms:
            self.begin()
        touched, decide = connections.touched, self._decide
        gives_way = not is_alone or bool(
            connections.resumable or connections.low_priority or self.encoder.encodings or self.engine.unfinished
        )
        for connection, chunk in chunks:
            touched[connection] = None
            frames = connection.receive(chunk, turn.began_s)
            if turn.is_over or connection.backlog or connection.heavy_until_s > turn.checked_s:
                try:
                    connection.keep(frames)
                except ProtocolError as error:
                    connections.refuse(connection, error)
            else:
                decide(connection, frames, chunk, gives_way=gives_way)
            if connection.backlog or connection.frames.is_held:
                connections.keep(connection)
            elif connections.requests.total:
                connections.requests.set(connection, 0)

    @staticmethod
    def block(connection: Connection) -> None:
        """Decide nothing more of a connection until `resume`: its socket takes no more responses for now."""
        connection.is_blocked = True

    def resume(self, connection: Connection) -> None:
        """Go on with what waits behind responses that the client has taken by now."""
        connection.is_blocked = False
        if not self.turn.now_ms:
            self.begin()
        self.connections.touch(connection)
        self.connections.enqueue(connection)
        self._resume_connections()

    def finish(self, read_by_ms: int | None = None) -> Iterable[Connection]:
        """End the turn. Returns the connections that may have something to send, or to be watched for.

        All that had arrived by `read_by_ms` has been received: without it, all that had arrived when the turn began.
        """
        turn, connections = self.turn, self.connections
        if not turn.now_ms:
            self.begin()
        engine = self.engine
        gate = self.handler.gate
        if gate is not None and gate.next_s is not None:
            self.encoder.queue_delayed_responses(gate)
        if self.throttled.muted:
            self._unmute()
        if connections.low_priority or self.encoder.encodings or engine.unfinished:
            self._work()
        if self.authenticator.found or self.authenticator.failures:
            self.authenticator.resume()
        settled_ms = turn.now_ms if read_by_ms is None else read_by_ms
        if connections.resumable or connections.low_priority or connections.awaiting_encoder or self._watermark:
            settled_ms = self._raise_watermark(settled_ms)
        engine.fire(settled_ms)
        if engine.has_share_sessions:
            engine.note_time(turn.now_ms)
        replies = self.outbox.replies
        replies.extend(engine.replies())
        while replies:
            self._reply(*replies.popleft())
            if not turn.check_time():
                break  # a response may be large, and there may be many: the others leave in the next turns
            if not replies:
                self._resume_connections()
                replies.extend(engine.replies())
        engine.flush()
        if engine.is_synced:
            self.outbox.end_turn(connections.touched)
        touched, connections.touched = connections.touched, {}
        turn.end()
        return touched

    def _reply(self, ticket: int, outcome: Done | Silent) -> None:
        """Owe the response to a parked request, unless its client has left."""
        connection = self.connections.parked.get(ticket)
        if connection is not None:
            self.handler.reply(connection, outcome)

    def sync(self) -> None:
        """Wait until everything that was decided is on the disk: what rests on it leaves at the end of this turn."""
        self.outbox.sync()

    def end_turn(self) -> None:
        """Count how long the turn and its requests took, and find out what it has left, now that its responses have
        been sent."""
        connections, outbox = self.connections, self.outbox
        outbox.count_latencies()
        self._stats.count_turn(self.turn.began_s, self.turn.real_s())
        self.has_work = bool(
            connections.resumable
            or connections.low_priority
            or outbox.replies
            or self.encoder.encodings
            or self.authenticator.found
            or self.engine.unfinished
        )

    def next_deadline_ms(self) -> int | None:
        """Return when a timer of the coordinator fires, by its clock; None if there is no such time."""
        return self.engine.next_deadline_ms()

    def next_poll_ms(self) -> int | None:
        """Return when a long poll ends, by the real clock; None if there is no such time."""
        return self.engine.next_poll_ms()

    def next_release_s(self) -> float | None:
        """Return when a client or a response is held back no longer, by the real clock; None if that is not known."""
        next_s = self.outbox.next_s if self.engine.is_synced else None
        for holder in self._holders:
            at_s = holder.next_s
            if at_s is not None and (next_s is None or at_s < next_s):
                next_s = at_s
        return next_s

    # -- what waits ----------------------------------------------------------------------------------------------------

    def _decide(
        self,
        connection: Connection,
        frames: Iterable[bytes],
        chunk: bytes = b"",
        *,
        gives_way: bool = True,
        only_one: bool = False,
    ) -> float:
        """Decide requests of a connection, one after the other. This is the one loop that does.

        It ends where the turn is over, where the connection has to wait, has had enough of the turn, or has to give way
        to others: before a request that is not urgent, or unless it `gives_way`, behind that; with `only_one` behind
        any. What is left waits in the backlog. Returns the processor time that it took.
        """
        turn, handler, outbox = self.turn, self.handler, self.outbox
        began_s, is_late = turn.checked_s, connection.heard_s != turn.began_s
        enough_s = began_s + HEAVY_S
        if began_s >= turn.next_look_s:
            turn.look_at_cpu()
        heartbeat = connection.heartbeat
        if heartbeat is not None and (
            handler.is_observed or began_s >= heartbeat.expires_s or not connection.may_decide()
        ):
            heartbeat = None
        try:
            for frame in frames:
                if heartbeat is not None and (
                    (repeated := heartbeat.repeat(frame, connection.client_id, turn.now_ms)) is not None
                ):
                    outbox.add(connection, repeated, heartbeat.renewal.group_id)
                    api_key, is_urgent = HEARTBEAT, True
                else:
                    heartbeat = None
                    is_urgent = 1 < len(frame) <= URGENT_BYTES_MAX[frame[1]]  # as the function says
                    may_be_next = is_urgent or (not gives_way and self._has_room_for(frame))
                    if not may_be_next or not connection.may_decide():
                        connection.put_back(frame)
                        break
                    api_key = handler.decide(connection, frame) if is_urgent else self._decide_slowly(connection, frame)
                if api_key >= 0:
                    if is_late:
                        outbox.note_decided_late(api_key, connection.heard_s)
                    else:
                        outbox.decided.append(api_key)
                if not (turn.check_time() and is_urgent) or only_one or turn.checked_s >= enough_s:
                    break
            else:
                frames = ()  # there are no more
            if frames and connection.frames.is_held and len(connection.backlog) < 2:  # one was put back
                connection.keep(connection.frames)
        except ProtocolError as error:
            self.connections.refuse(connection, error, chunk)
        return turn.charge(connection, began_s) if turn.checked_s > enough_s else turn.checked_s - began_s

    def _decide_slowly(self, connection: Connection, frame: bytes) -> int:
        """Decide a request that is not urgent; a long one when all its steps of decoding are done.

        Returns as `RequestHandler.decide` does, -1 also while it is decoded.
        """
        request, authentication = None, connection.authentication
        if len(frame) > LONG_BYTES and (authentication is None or authentication.is_complete):
            if (produce := connection.decode_repeated_produce(frame)) is not None:
                return self.handler.decide(connection, frame, produce)
            try:
                request = self._long_requests.decode(connection, frame, self.engine.unfinished.meter)
            except UnsupportedVersion:
                return self.handler.decide(connection, frame)  # knows which of them is answered
            if request is None:
                connection.put_back(frame)
                return -1
            connection.accept(request, frame)
        return self.handler.decide(connection, frame, request)

    def _has_room_for(self, frame: bytes) -> bool:
        """Return whether a request that is not urgent may be decided, as far as large responses are concerned."""
        return not self.connections.is_encoder_full or is_short(frame)

    def _resume_connections(self) -> None:
        """Decide what waits in the connections that go on first, while there is time."""
        resumable = self.connections.resumable
        while resumable and not self.turn.is_over:
            self._decide_backlog(resumable)

    def _work(self) -> None:
        """Decide one request of each connection that gives way to others and do one step of what is long in turn, while
        there is time; one of each in any case."""
        low_priority, is_first = self.connections.low_priority, True
        while (low_priority or self.encoder.encodings or self.engine.unfinished) and (
            is_first or self.turn.check_time()
        ):
            is_first = False
            if low_priority:
                self._decide_backlog(low_priority, only_one=True)
            self._step()

    def _step(self) -> None:
        """Do a step of a long request or of a large response. The latter go first while there are many."""
        has_encodings = bool(self.encoder.encodings)
        if (
            self.engine.unfinished
            and not self.connections.is_encoder_full
            and (self._is_node_next or not has_encodings)
        ):
            self._is_node_next = False
            long_requests = self.engine.long_requests
            long_requests.step()
            for ticket, outcome in long_requests.take_replies():
                self._reply(ticket, outcome)
        elif has_encodings:
            self._is_node_next = True
            self.encoder.step()

    def _decide_backlog(self, queue: deque[Connection], *, only_one: bool = False) -> None:
        """Decide what waits in the first connection of a queue: one request of it if `only_one`."""
        connections = self.connections
        connection = connections.dequeue(queue)
        used_s = self._decide(connection, connection.take_backlog(), gives_way=not only_one, only_one=only_one)
        if self._watermark:
            self._watermark.add_time(connection, used_s)
        if connection.backlog:
            connections.enqueue(connection)
        elif connections.requests.total:
            connections.requests.set(connection, connection.undecided_bytes)

    def _raise_watermark(self, read_by_ms: int) -> int:
        """Raise the watermark if it can be, and return it. Some connections have requests that wait."""
        watermark = self._watermark
        if watermark is None:
            self._watermark = Watermark(read_by_ms, self.connections.undecided_connections())
        elif watermark.is_reached:
            self._watermark = None
            self._decided_until_ms = watermark.at_ms
        return self._decided_until_ms

    def _unmute(self) -> None:
        """Go on with the clients that have waited long enough for their quotas."""
        for connection in self.throttled.unmute(self.turn.real_s()):
            self.connections.touch(connection)
            self.connections.enqueue(connection)
