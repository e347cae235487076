"""The one place that touches clients' sockets.

    poll once ─► one recv a ready connection ─► Frontend decides ─► timers, one append ─► one send a connection

A Trio task and a wait for each connection would cost more than all that is decided (40 us a frame where this costs
10), so one selector holds every socket, and Trio waits on the selector's own descriptor. Trio owns the rest of what
waits: the alarm for the next deadline, the sweep of idle connections, the pause when descriptors run out.
"""

import errno
import logging
import math
import socket
from collections.abc import Callable, Sequence
from typing import Final

import trio

from coordinator.runtime.clock import Clock
from coordinator.server.connection import Connection
from coordinator.server.frontend import Frontend
from coordinator.server.listener import Listener
from coordinator.server.selector import READ, WRITE, selector

log = logging.getLogger("muster.server")

CHUNK_BYTES: Final = 65_536
ACCEPTS_MAX: Final = 256  # of one listener in one turn
SWEEP_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.25  # of accepting, when there is no descriptor to be had
_OF_ONE_CLIENT: Final = frozenset({  # accept(2): errors of the connection that waits; the next one may do well
    errno.EPERM, errno.EPROTO, errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.EOPNOTSUPP,
    errno.ENOPROTOOPT,
})  # fmt: skip


class Link:
    """A connection's socket: what it is watched for, and what it would not take yet."""

    __slots__ = ("connection", "interest", "sock", "unsent", "unsent_since_ms")

    def __init__(self, sock: socket.socket, connection: Connection) -> None:
        self.sock = sock
        self.connection = connection
        self.interest = 0
        self.unsent = b""
        self.unsent_since_ms = 0


class Poller:
    """All client connections of the process, in turns."""

    def __init__(
        self,
        frontend: Frontend,
        listeners: Sequence[Listener],
        clock: Clock,
        *,
        after_turn: Callable[[], None],
        connections_max: int,
        idle_ms: int,
        send_ms: int = 30_000,
    ) -> None:
        self._frontend = frontend
        self._clock = clock
        self._after_turn = after_turn  # what need not be done before the answers have left
        self._connections_max = connections_max  # one more is closed
        self.room = 2**31 - 1  # for how many there are descriptors: one more waits to be accepted
        self._idle_ms = idle_ms
        self._send_ms = send_ms
        self._selector = selector()
        self._links: dict[int, Link] = {}
        self._listening = {listener.sock.fileno(): listener for listener in listeners}
        self._alarm = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._is_paused = False  # accepting

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; then every connection is closed, and nobody is thrown out of a group."""
        for fd in self._listening:
            self._selector.watch(fd, READ, 0)
        try:
            async with trio.open_nursery() as self._nursery:
                for task in (self._wait_for_sockets, self._wait_for_deadlines, self._sweep_now_and_then):
                    self._nursery.start_soon(task)
                task_status.started()
        finally:
            for link in list(self._links.values()):
                self._close(link)
            self._selector.close()

    async def _wait_for_sockets(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._selector.fileno())
            while self.turn():
                await trio.lowlevel.checkpoint()  # the other tasks' turn

    async def _wait_for_deadlines(self) -> None:
        """A turn when a timer is due: what has arrived by then is decided first."""
        while True:
            with trio.CancelScope(deadline=self._alarm_time()) as self._alarm:
                await trio.sleep_forever()
            self.turn()

    def _alarm_time(self) -> float:
        due_ms = self._frontend.next_deadline_ms()
        return math.inf if due_ms is None else self._clock.trio_time(due_ms)

    def turn(self) -> bool:
        """Read, decide and answer what is ready; whether anything was."""
        links, listening, receive = self._links, self._listening, self._frontend.receive
        ready = self._selector.ready()
        for fd, mask in ready:
            link = links.get(fd)
            if link is None:
                if fd in listening:
                    self._accept(listening[fd])
                continue
            if mask & WRITE:
                if link.unsent:
                    self._send(link, b"")
                if not link.unsent:
                    self._frontend.resume(link.connection)
            if mask & READ and link.sock.fileno() == fd:
                try:
                    chunk = link.sock.recv(CHUNK_BYTES)
                except (BlockingIOError, InterruptedError):
                    continue
                except OSError:
                    chunk = b""
                if chunk:
                    receive(link.connection, chunk)
                else:
                    self._close(link)
        for connection in self._frontend.finish():
            self._deliver(connection)
        self._after_turn()
        due = self._alarm_time()
        if due < self._alarm.deadline:
            self._alarm.deadline = due
        return bool(ready)

    def _accept(self, listener: Listener) -> None:
        for _ in range(ACCEPTS_MAX):
            if len(self._links) >= self.room:
                self._pause(listener, f"{self.room} clients are all that there are descriptors for")
                return
            try:
                sock, address = listener.sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                if error.errno in _OF_ONE_CLIENT:
                    log.warning("a connection failed before it was accepted: %s", error.strerror)
                else:
                    self._pause(listener, error.strerror or str(error))
                return
            self._is_paused = False
            if len(self._links) >= self._connections_max:
                sock.close()
            else:
                self._admit(sock, address[0], listener)

    def _admit(self, sock: socket.socket, host: str, listener: Listener) -> None:
        link = Link(sock, self._frontend.connect(host, listener))
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._watch(link, READ)
        except OSError as error:  # some systems say so when the client has left already
            log.warning("a connection was not taken: %s", error.strerror, extra={"client": link.connection.host})
            sock.close()
            return
        link.connection.link = link
        self._links[sock.fileno()] = link

    def _pause(self, listener: Listener, why: str) -> None:
        """No descriptor is to be had: those who are connected go on, the others wait in the kernel's queue."""
        if not self._is_paused:  # once, not with every try of a long scarcity
            log.warning("accept paused: %s", why)
        self._is_paused = True
        fd = listener.sock.fileno()
        self._selector.watch(fd, 0, READ)

        async def again() -> None:
            await trio.sleep(PAUSE_SECONDS)
            self._selector.watch(fd, READ, 0)

        assert self._nursery is not None, "accepting happens while running"
        self._nursery.start_soon(again)

    def _deliver(self, connection: Connection) -> None:
        """Send what a connection is owed, as much as its socket takes, and watch for what it needs next."""
        link = connection.link
        if not isinstance(link, Link) or link.sock.fileno() < 0:
            return  # it left before its answer
        owed = connection.take()
        if owed:
            self._send(link, owed)
        if link.sock.fileno() < 0:
            return
        if connection.closing and not link.unsent:
            self._close(link)
            return
        # Requests may be left because so much was owed that no more were decided: they go on when there is room again.
        waits_for_room = bool(link.unsent) or (bool(connection.backlog) and connection.may_decide)
        self._watch(link, (0 if connection.is_full or link.unsent else READ) | (WRITE if waits_for_room else 0))

    def _send(self, link: Link, data: bytes) -> None:
        before = len(link.unsent)
        if before:
            data = link.unsent + data
        try:
            sent = link.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._close(link)
            return
        if sent == len(data):
            link.unsent = b""
            link.connection.is_blocked = False  # or what waits behind it would wait for a room that nobody looks for
            if before:
                self._frontend.held(-before)
            return
        if sent or not link.unsent:
            link.unsent_since_ms = self._clock.now_ms()
        link.unsent = data[sent:]
        self._frontend.held(len(link.unsent) - before)
        link.connection.is_blocked = True

    def _watch(self, link: Link, interest: int) -> None:
        if interest != link.interest:
            self._selector.watch(link.sock.fileno(), interest, link.interest)
            link.interest = interest

    def _close(self, link: Link) -> None:
        fd = link.sock.fileno()
        if fd < 0:
            return
        self._watch(link, 0)
        del self._links[fd]
        link.sock.close()
        if link.unsent:
            self._frontend.held(-len(link.unsent))
            link.unsent = b""
        link.connection.link = None
        self._frontend.disconnect(link.connection)

    async def _sweep_now_and_then(self) -> None:
        while True:
            await trio.sleep(min(SWEEP_SECONDS, self._idle_ms / 4_000))
            self.sweep(self._clock.now_ms())

    def sweep(self, now_ms: int) -> None:
        """Close connections that said nothing for too long, or that do not take their answers."""
        for link in list(self._links.values()):
            silent = now_ms - link.connection.heard_ms >= self._idle_ms and not link.connection.is_waiting
            stuck = bool(link.unsent) and now_ms - link.unsent_since_ms >= self._send_ms
            stalled = link.connection.is_stalled(now_ms, self._send_ms)
            if silent or stuck or stalled:
                self._close(link)

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._links)
