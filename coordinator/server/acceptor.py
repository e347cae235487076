"""The sockets that clients connect to: which connections are accepted, and when accepting pauses."""

import errno
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final

import trio

from coordinator.server.admission import Admission
from coordinator.server.frontend import Frontend
from coordinator.server.listener import Listener, listen_again, suspend
from coordinator.server.selector import READ, Selector

log = logging.getLogger("muster.server")

ACCEPTS_MAX: Final = 256  # of one listener in one turn
PAUSE_SECONDS: Final = 0.25  # of accepting, when there is no descriptor to be had
_OF_ONE_CLIENT: Final = frozenset({  # accept(2): errors of the connection that waits; the next one may do well
    errno.EPERM, errno.EPROTO, errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.EOPNOTSUPP,
    errno.ENOPROTOOPT,
})  # fmt: skip


class Acceptor:
    """All listening sockets of the process."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        selector: Selector,
        frontend: Frontend,
        admission: Admission,
        *,
        admit: Callable[[socket.socket, str, int, Listener], None],
        count: Callable[[], int],
        connections_max: int,
        room: int,
    ) -> None:
        """`admit` takes a connection with the client's host and port, `count` says how many there are.

        One connection more than `connections_max` is closed; one more than `room` waits to be accepted."""
        self._selector = selector
        self._frontend = frontend
        self._admission = admission
        self._admit = admit
        self._count = count
        self._connections_max = connections_max
        self.room = room
        self.names = frozenset(listener.name for listener in listeners)
        self.listening = {listener.sock.fileno(): listener for listener in listeners}
        self._paused: set[int] = set()  # those of them whose accepting is paused
        self._is_paused = False
        self._nursery: trio.Nursery | None = None

    def start(self, nursery: trio.Nursery) -> None:
        """Begin to take connections. Pauses are tasks of the nursery."""
        self._nursery = nursery
        for fd in self.listening:
            self._selector.watch(fd, READ, 0)

    def start_listening(self, listener: Listener) -> Listener:
        """Take connections again. Returns the listener as it is now. Raises OSError."""
        listener = listen_again(listener)
        self.listening[listener.sock.fileno()] = listener
        self._selector.watch(listener.sock.fileno(), READ, 0)
        return listener

    def stop_listening(self, listener: Listener) -> Listener:
        """Take no more connections. Returns the listener as it is now."""
        fd = listener.sock.fileno()
        if fd not in self._paused:
            self._selector.watch(fd, 0, READ)
        self._paused.discard(fd)
        del self.listening[fd]
        return suspend(listener)

    def accept(self, listener: Listener) -> None:
        """Take the connections that wait, as far as there is room for them."""
        real_s = self._frontend.turn.real_s
        for _ in range(ACCEPTS_MAX):
            if self._count() >= self.room:
                self._pause(listener, f"{self.room} clients are all that there are descriptors for")
                return
            if self._admission.must_wait(real_s()):
                self._pause(listener, "there were too many new connections (max.connection.creation.rate)")
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
            if self._count() >= self._connections_max:
                sock.close()
                continue
            quotas = self._frontend.engine.world.ledger.catalog.quotas
            reason = self._admission.refuse(address[0], quotas, real_s())
            if reason is None:
                self._admit(sock, address[0], address[1], listener)
            else:
                self._frontend.count_closed(reason)
                sock.close()

    def _pause(self, listener: Listener, why: str) -> None:
        """Stop accepting from a listener for a moment: clients that are connected go on, new ones wait in the
        kernel."""
        if not self._is_paused:  # once, not with every try of a long scarcity
            log.warning("accept paused: %s", why)
        self._is_paused = True
        fd = listener.sock.fileno()
        self._selector.watch(fd, 0, READ)
        self._paused.add(fd)

        async def again() -> None:
            await trio.sleep(PAUSE_SECONDS)
            if self.listening.get(fd) is listener and fd in self._paused:  # else it was stopped meanwhile
                self._paused.remove(fd)
                self._selector.watch(fd, READ, 0)

        assert self._nursery is not None, "accepting happens while running"
        self._nursery.start_soon(again)
