"""The one place that touches clients' sockets.

    poll once ─► one recv for each ready connection ─► Frontend decides ─► timers, one append ─► one send a connection

A Trio task and a wait for each connection would cost more than all that is decided (40 us a frame where this costs
10), so one selector holds every socket, and Trio waits on the selector's own descriptor. Trio owns the rest of what
waits: the alarm for the next deadline, the sweep of idle connections, the pause when descriptors run out.

When the turn's time is over, sockets that are ready and not yet looked at are left for the next turn, which begins
with them, before what was interrupted, and polls again behind the last of them: each socket has its turn, however busy
the others are.
"""

import logging
import math
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import trio

from coordinator.config import Config
from coordinator.runtime.clock import Clock, CoordinatorClock
from coordinator.server.acceptor import Acceptor
from coordinator.server.admission import Admission
from coordinator.server.connection import Connection, MemberName, connections_of
from coordinator.server.frontend import Frontend
from coordinator.server.link import EmptyRecordsError, HandshakeError, Link, SecureLink
from coordinator.server.listener import Listener
from coordinator.server.loop_time import CONNECTIONS, REQUESTS, WORK
from coordinator.server.sasl.outcome import Work
from coordinator.server.selector import EVENTS_MAX, READ, WRITE, selector
from coordinator.server.waker import Waker
from storage.file_range import FileRange

log = logging.getLogger("muster.server")

CHUNK_BYTES: Final = 262_144  # produced batches are that long, and each further chunk is a turn more
SEND_BYTES: Final = 1_048_576  # to one connection in one turn, of responses that its socket did not take at once
SPINS: Final = 64  # polls of the sockets before falling asleep: about as long as what follows
WAIT_S: Final = 0.001  # for the next request, asleep but not in Trio's loop
SKIPS_MAX: Final = 15  # tries, of either, after failures in a row
CHECKPOINT_S: Final = 0.002  # of turns, before the other tasks have theirs
HANDSHAKE_STEPS_MAX: Final = 4  # steps of TLS handshakes in one turn: about a millisecond each
SWEEP_SECONDS: Final = 5.0
THREADS_MAX: Final = 2  # that check tokens at a time
NEVER_MS: Final = 2**62

T = TypeVar("T")


class Backoff:
    """Exponential backoff: after n failures in a row, skip the next 2**n - 1 tries, at most `SKIPS_MAX`."""

    def __init__(self) -> None:
        self._skips = self._left = 0

    def try_or_skip(self) -> bool:
        """Return whether to try now; otherwise count the try that is skipped."""
        if self._left:
            self._left -= 1
            return False
        return True

    def note(self, success: bool) -> bool:
        """Note whether the try has succeeded, and return that."""
        self._skips = 0 if success else min(2 * self._skips + 1, SKIPS_MAX)
        self._left = self._skips
        return success


class Poller:
    """All client connections of the process, in turns."""

    def __init__(
        self,
        frontend: Frontend,
        listeners: Sequence[Listener],
        clock: Clock | CoordinatorClock,
        *,
        after_turn: Callable[[], None],
        connections_max: int,
        idle_ms: int,
        parked_ms: int = 2**31 - 1,
        send_ms: int = 30_000,
        authentication_ms: int = 30_000,
        room: int = 2**31 - 1,
        admission: Admission | None = None,
        real: Clock | None = None,
        waker: Waker | None = None,
    ) -> None:
        """`clock` is the coordinator's, `real` the one by which long polls end.

        One connection more than `connections_max` is closed; one more than `room` waits to be accepted. A turn follows
        when another thread has called `waker`."""
        self._frontend = frontend
        self._turn = frontend.turn
        self._outbox = frontend.outbox
        self._clock = clock
        self._real = real or Clock.real()
        self._after_turn = after_turn  # what need not be done before the responses have left
        self._admission = Admission(Config()) if admission is None else admission
        self._idle_s = idle_ms / 1000
        self._parked_s = parked_ms / 1000
        self._send_s = send_ms / 1000
        self._authentication_s = authentication_ms / 1000
        self._handshake_steps_left = HANDSHAKE_STEPS_MAX
        self._selector = selector()
        self._waker = waker
        self._links: dict[int, Link] = {}
        self._link_of: dict[Connection, Link] = {}
        self._acceptor = Acceptor(
            listeners,
            self._selector,
            frontend,
            self._admission,
            admit=self._admit,
            count=self._links.__len__,
            connections_max=connections_max,
            room=room,
        )
        self._ready: list[tuple[int, int]] = []  # what the last poll found and no turn has looked at
        self._polls_left = 0  # until every socket that was ready at the first of them has been reported
        self._polled_ms = 0  # a time before that, by the coordinator's clock: that of a turn which had begun
        self._read_by_ms = 0  # all that had arrived by then has been received
        self._spinning, self._sleeping = Backoff(), Backoff()
        self._alarm = trio.CancelScope()
        # The deadlines that the alarm is set for, by either clock: Trio's time is looked up only for new ones.
        self._alarm_ms = self._poll_alarm_ms = NEVER_MS
        self._nursery: trio.Nursery | None = None
        self._released: trio.Event | None = None  # set once clients are served again
        self.is_running = False
        self._is_closed = False
        self._threads = trio.CapacityLimiter(THREADS_MAX)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; then every connection is closed, and nobody is thrown out of a group."""
        WORK.set(CONNECTIONS)
        if self._waker is not None:
            self._selector.watch(self._waker.fileno(), READ, 0)
        try:
            self._frontend.authenticator.find_with(self._find)
            async with trio.open_nursery() as self._nursery:
                self._acceptor.start(self._nursery)
                for task in (self._wait_for_sockets, self._wait_for_deadlines, self._sweep_now_and_then):
                    self._nursery.start_soon(task)
                self.is_running = True
                task_status.started()
        finally:
            self.is_running, self._is_closed = False, True
            for link in list(self._links.values()):
                self._close(link)
            self._selector.close()

    async def _wait_for_sockets(self) -> None:
        WORK.set(REQUESTS)
        while True:
            await trio.lowlevel.wait_readable(self._selector.fileno())
            if self._released is not None:
                await self._released.wait()
            began_s = self._turn.real_s()
            while not self.is_held and (self.turn() or self._spin_then_sleep()):
                if self._turn.checked_s - began_s > CHECKPOINT_S:
                    await trio.lowlevel.checkpoint()  # the other tasks' turn
                    began_s = self._turn.checked_s

    def _spin_then_sleep(self) -> bool:
        """Poll on for a moment, then sleep for one, before the loop gives way to Trio's. Returns whether a socket is
        ready.

        A client that sends its next request when it has its response is waited for each time. To spin costs as much
        processor time as the wait is long; to sleep costs falling asleep and waking up; and to sleep in Trio's loop a
        pass through that as well. Where spinning was in vain, the client is slower or needs this processor.
        """
        if self._spinning.try_or_skip():
            is_ready = self._spinning.note(any(self._poll() for _ in range(SPINS)))
        else:
            is_ready = self._poll()
        if not is_ready and self._sleeping.try_or_skip():
            is_ready = self._sleeping.note(self._poll(WAIT_S))
        return is_ready

    async def _wait_for_deadlines(self) -> None:
        """Have a turn when a timer is due: what has arrived by then is decided first."""
        WORK.set(REQUESTS)
        while True:
            self._alarm_ms = self._poll_alarm_ms = NEVER_MS
            with trio.CancelScope() as self._alarm:
                self.set_alarm()
                await trio.sleep_forever()
            if self._released is not None:
                await self._released.wait()
            self.turn()

    def set_alarm(self) -> None:
        """Wake up for the next deadline. Code that changes the node outside of a turn calls this afterwards."""
        frontend = self._frontend
        if self._ready or frontend.has_work:
            self._alarm.deadline = -math.inf
            return
        engine = frontend.engine  # asked directly: this is done after every turn
        due_ms = engine.next_deadline_ms()
        if due_ms is not None and due_ms < self._alarm_ms:  # else the alarm comes early, which does no harm
            self._alarm_ms = due_ms
            self._wake_at(self._clock.trio_time(due_ms))
        poll_ms = engine.world.dataplane.next_poll_ms()
        if poll_ms is not None and poll_ms < self._poll_alarm_ms:
            self._poll_alarm_ms = poll_ms
            self._wake_at(self._real.trio_time(poll_ms))
        release_s = frontend.next_release_s()
        if release_s is not None:
            self._wake_at(trio.current_time() + max(0.0, release_s - self._turn.real_s()))

    def reset_alarm(self) -> None:
        """Set the alarm anew, because the coordinator's clock was moved or goes at another rate."""
        self._alarm_ms = self._poll_alarm_ms = NEVER_MS
        self._alarm.deadline = math.inf
        self.set_alarm()

    def _wake_at(self, time: float) -> None:
        self._alarm.deadline = min(self._alarm.deadline, time)

    def turn(self) -> bool:
        """Read, decide and answer what is ready. Returns whether something is left for the next turn."""
        if self.is_held:
            return False
        frontend = self._frontend
        frontend.begin(goes_on=not self._ready)  # else those that were interrupted would keep those out for long
        self._handshake_steps_left = HANDSHAKE_STEPS_MAX
        if not self._ready:
            self._poll()
        frontend.receive_all(self._receive(), is_alone=len(self._ready) == 1)
        if not (self._ready or self._polls_left):
            self._read_by_ms = self._polled_ms
        self._finish(self._read_by_ms)
        return bool(self._ready) or frontend.has_work

    def perform(self, action: Callable[[int], T]) -> T:
        """Do what an operator asks for in a turn of its own, and send what it leads to.

        What it has changed is on the disk when this returns, with --fsync. `action` gets the coordinator's time of the
        turn. Timers that are due by then fire, whatever is about to arrive.
        """
        self._frontend.begin()
        now_ms = self._turn.now_ms
        try:
            return action(now_ms)
        finally:
            self._frontend.sync()
            self._finish(now_ms)

    def hold(self) -> None:
        """Read nothing from clients until `release`: what is done meanwhile is one step for them."""
        assert self._released is None, "who holds clients is alone"
        self._released = trio.Event()

    @property
    def is_held(self) -> bool:
        """Whether nothing is read from clients: a turn does nothing then, but those of `perform`.

        So it is once the server has stopped: a verb that is done to its end may go on behind that.
        """
        return self._released is not None or self._is_closed

    def release(self) -> None:
        """Serve clients again, if they are held."""
        if self._released is not None:
            self._released.set()
            self._released = None

    def close_all(self, reason: str) -> None:
        """Close every connection, whatever is on the way to them."""
        for link in list(self._links.values()):
            self._close(link, reason)

    def close_member(self, reason: str, member: MemberName, client_id: str) -> None:
        """Close the connections of a member, whose client id is "" if it has none, whatever is on the way to them."""
        links = {link.connection: link for link in self._links.values()}
        for connection in connections_of(member, client_id, links):
            self._close(links[connection], reason)

    def client_ids(self) -> frozenset[str]:
        """Return the client ids of all connections, "" for one that has none, or has not told it yet."""
        return frozenset(link.connection.client_id or "" for link in self._links.values())

    def start_listening(self, listener: Listener) -> Listener:
        """Take connections again, unless the server has stopped. Returns the listener as it is now. Raises OSError."""
        return listener if self._is_closed else self._acceptor.start_listening(listener)

    def stop_listening(self, listener: Listener) -> Listener:
        """Take no more connections, and close those there are. Returns the listener as it is now."""
        for link in list(self._links.values()):
            if link.connection.listener.where is listener.where:
                self._close(link, "broker stopped")
        return self._acceptor.stop_listening(listener)

    def _finish(self, read_by_ms: int) -> None:
        """End the turn: fire timers, append, and send."""
        frontend = self._frontend
        self._deliver(frontend.finish(read_by_ms))
        if self._outbox.unsent.total > self._outbox.unsent.bytes_max:
            self._close_offenders()
        frontend.end_turn()
        self._after_turn()
        self.set_alarm()

    def _poll(self, seconds: float = 0.0) -> bool:
        """Return whether something is ready, or will be within so many seconds, and keep what is for the next turn.

        A series of polls ends when it has reported every socket that was ready at its first.
        """
        if not self._polls_left:
            self._polled_ms = self._turn.began_ms
            self._polls_left = len(self._links) // EVENTS_MAX + 1
        self._ready = ready = self._selector.poll(seconds)
        self._polls_left = self._polls_left - 1 if len(ready) == EVENTS_MAX else 0
        return bool(ready)

    def _receive(self) -> Iterator[tuple[Connection, bytes]]:
        """Read each socket that is ready once, as long as the turn has time. The others are left for the next turn."""
        turn, links = self._turn, self._links
        ready, self._ready = iter(self._ready), []
        for fd, mask in ready:
            if turn.is_over:
                self._ready = [(fd, mask), *ready]
                return
            link = links.get(fd)
            if link is None:
                self._look_at(fd)
                continue
            if mask != READ and not (self._resume_link(link, fd, mask) and mask & ~WRITE):
                continue
            try:
                chunk = link.receive(CHUNK_BYTES) if not link.is_handshaking else self._continue_handshake(link)
            except OSError as error:
                self._note_unreadable(link, error)
                continue
            if chunk:
                yield link.connection, chunk
            else:
                self._close(link)

    def _look_at(self, fd: int) -> None:
        """Take connections from a listener, or note that the waker has woken the poller."""
        if (listener := self._acceptor.listening.get(fd)) is not None:
            self._acceptor.accept(listener)
        elif self._waker is not None and fd == self._waker.fileno():
            self._waker.rest()

    def _resume_link(self, link: Link, fd: int, mask: int) -> bool:
        """If its socket takes more, send what is kept and decide what waits behind it. Returns whether the connection
        is still there."""
        if mask & WRITE:
            if link.is_behind:
                self._send_kept(link)
            if not link.is_behind:
                self._frontend.resume(link.connection)
            self._turn.check_time()
        return link.sock.fileno() == fd

    def _note_unreadable(self, link: Link, error: OSError) -> None:
        """Close a connection whose socket could not be read, unless there is only nothing to be read."""
        if isinstance(error, (BlockingIOError, InterruptedError)):
            self._turn.check_time()  # TLS may have taken time without a request
        elif isinstance(error, HandshakeError):
            self._refuse(link, f"the TLS handshake failed: {error}", "TLS handshake")
        elif isinstance(error, EmptyRecordsError):
            self._refuse(link, str(error), "TLS without requests")
        else:
            self._close(link)

    def _continue_handshake(self, link: Link) -> bytes:
        """Continue a handshake, and return the data behind its end. Raises OSError, as receiving does.

        A turn takes at most HANDSHAKE_STEPS_MAX such steps. The next poll reports the other sockets again, so that
        requests are served in between.
        """
        if not self._handshake_steps_left:
            raise BlockingIOError
        self._handshake_steps_left -= 1
        assert isinstance(link, SecureLink), "a handshake without TLS"
        try:
            chunk = link.continue_handshake()
        finally:
            self._turn.check_time()
        if not link.is_handshaking:
            if (principal := link.find_principal()) is not None:
                self._frontend.connections.identify(link.connection, principal)
        if link.is_behind:
            link.unsent_since_s = self._turn.real_s()
        self._watch(link, READ | (WRITE if link.is_behind else 0))
        if chunk is None:
            raise BlockingIOError
        return chunk

    def _refuse(self, link: Link, why: str, reason: str) -> None:
        """Log why a TLS connection is closed, and close it."""
        client = {"client": link.connection.host, "listener": link.connection.listener.name}
        log.warning("connection closed: %s", why, extra=client)
        self._close(link, reason)

    def _admit(self, sock: socket.socket, host: str, port: int, listener: Listener) -> None:
        kind = Link if listener.tls is None else SecureLink
        link = kind(sock, self._frontend.connect(host, listener, port), self._turn.real_s())
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._watch(link, READ)
        except OSError as error:  # some systems say so when the client has left already
            log.warning("a connection was not taken: %s", error.strerror, extra={"client": link.connection.host})
            sock.close()
            self._admission.leave(host)
            return
        self._links[sock.fileno()] = self._link_of[link.connection] = link

    def _deliver(self, connections: Iterable[Connection]) -> None:
        """Send the responses that may leave, as much as their sockets take, and watch for what they need next."""
        link_of, take = self._link_of, self._outbox.take
        for connection in connections:
            link = link_of.get(connection)
            if link is None:
                continue  # it left before its response
            for piece in take(connection):
                try:  # here, as another call for each response would be 2 % of a heartbeat
                    if link.is_behind:
                        sent = 0
                    elif type(piece) is FileRange:
                        sent = link.send_range(piece, 0, len(piece))
                    else:
                        sent = link.send(piece)
                except (BlockingIOError, InterruptedError):
                    sent = 0
                except OSError:
                    self._close(link)
                    break
                if sent < len(piece):
                    link.keep(piece, sent)
            else:
                if link.is_behind or connection.backlog or connection.closing:
                    self._wait(link)
                elif link.interest != READ:
                    self._watch(link, READ)

    def _wait(self, link: Link) -> None:
        """Watch for what a connection needs next that is behind, has requests that wait, or is to be closed."""
        connection = link.connection
        if link.is_behind:
            if not connection.is_blocked:  # else the socket has taken nothing since
                link.unsent_since_s = self._turn.real_s()
            self._frontend.block(connection)
            self._outbox.note_unsent(connection, link.held_bytes)
        elif connection.closing and not connection.held:
            self._close(link)
            return
        # Requests may be left because the responses before them were too many bytes: they go on when there is room.
        waits_for_room = link.is_behind or (connection.may_decide() and not connection.is_queued)
        self._watch(link, WRITE if waits_for_room else 0)

    def _send_kept(self, link: Link) -> None:
        try:
            if link.send_kept(SEND_BYTES):
                link.unsent_since_s = self._turn.real_s()
        except OSError:
            self._close(link)
            return
        self._outbox.note_unsent(link.connection, link.held_bytes)

    def _close_offenders(self) -> None:
        """Close the connections that hold the most of too many bytes of responses."""
        while (offender := self._outbox.unsent.offender()) is not None:
            link = self._link_of[offender]
            log.warning(
                "connection closed: it holds the most of too many bytes of responses (queued.max.response.bytes)",
                extra={"client": offender.host, "bytes": link.held_bytes},
            )
            self._close(link, "response memory")

    def _watch(self, link: Link, interest: int) -> None:
        if interest != link.interest:
            self._selector.watch(link.sock.fileno(), interest, link.interest)
            link.interest = interest

    def _close(self, link: Link, reason: str | None = None) -> None:
        """Close a connection. A `reason` is counted; without one, the client has left, or it was counted before."""
        fd = link.sock.fileno()
        if fd < 0:
            return
        self._watch(link, 0)
        del self._links[fd], self._link_of[link.connection]
        self._admission.leave(link.connection.host)
        link.close()
        if reason is not None:
            self._frontend.close(link.connection, reason)
        self._frontend.disconnect(link.connection)

    def _find(self, ticket: int, work: Work) -> None:
        """Let a thread find out what follows from a token, and go on with its connection then."""

        async def find() -> None:
            authenticator = self._frontend.authenticator
            outcome = await trio.to_thread.run_sync(authenticator.attempt, work, limiter=self._threads)
            authenticator.resume_with(ticket, outcome)
            self.turn()

        assert self._nursery is not None, "tokens come while running"
        self._nursery.start_soon(find)

    async def _sweep_now_and_then(self) -> None:
        while True:
            await trio.sleep(min(SWEEP_SECONDS, self._idle_s / 4))
            self.sweep()

    def sweep(self) -> None:
        """Close connections that were silent for too long, do not take their responses, or wait for too long."""
        now_s = self._turn.real_s()
        for link in list(self._links.values()):
            if reason := self._overdue(link, now_s):
                self._close(link, reason)

    def _overdue(self, link: Link, now_s: float) -> str | None:
        """Return why a connection is to be closed, None if it is not."""
        connection = link.connection
        if now_s - connection.heard_s >= self._idle_s and not connection.is_waiting:
            return "idle"
        is_new = now_s - link.since_s < self._authentication_s
        if link.is_handshaking and not is_new:
            return "TLS handshake"
        if connection.authentication is not None and connection.authentication.principal is None and not is_new:
            return "not authenticated"
        if link.is_behind and now_s - link.unsent_since_s >= self._send_s:
            return "responses not taken"
        if connection.track_stall(now_s, self._send_s):
            return "unfinished request"
        if connection.parked and now_s - connection.parked.since_s >= self._parked_s:
            return "parked"
        return None

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._links)

    def connections_by_listener(self) -> Mapping[str, int]:
        """Return how many clients are connected, by the name of the listener that they came by: zero where none is."""
        found = dict.fromkeys(sorted(self._acceptor.names), 0)
        for link in self._links.values():
            found[link.connection.listener.name] += 1
        return found
