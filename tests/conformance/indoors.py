"""A Muster in this process, without sockets, on a clock that moves only while a story waits.

It takes the place of the TCP pump: the same bytes go in and out, and a wait of a minute is over at once, because the
clock jumps to whatever is due next.
"""

import socket
import time
from collections.abc import Mapping
from typing import Final

from coordinator.config import Config, read_pairs
from coordinator.core.events import Event
from coordinator.dataplane.brokers import Broker
from coordinator.metrics import Stats
from coordinator.runtime.clock import Clock
from coordinator.runtime.dice import fresh_ids
from coordinator.runtime.node import Node, Setup, Where
from coordinator.server.connection import Connection
from coordinator.server.frontend import Frontend
from coordinator.server.listener import Listener
from storage.memory_files import MemoryFiles
from tests.conformance.client import Flight, Pump, Wire, is_over
from tests.conformance.muster import pairs

PORT: Final = 9092  # as it is told to clients; nothing listens there
FRAME_BYTES_MAX: Final = 1 << 20
TICK_S: Final = 0.001  # the clock of the server counts whole milliseconds: no step of ours is to fall between two


class Indoors(Pump):
    """All connections of one story to a server of its own."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__("localhost", PORT)
        self._seconds = 0.0
        self._clock = Clock(int(time.time() * 1000), self.now_s)
        self._node = Node(
            Setup(
                config=Config(read_pairs(pairs(settings)).values),
                files=MemoryFiles(),
                data_dir="data",
                fresh_id=fresh_ids(1),
                real_ms=self._clock.now_ms,
                tell=_nobody,
            )
        )
        self._node.open(self._clock.now_ms())
        for _ in self._node.load(self._clock.now_ms):
            pass
        self._frontend = Frontend(
            self._node, self._clock, Stats(), fresh_ids(2), FRAME_BYTES_MAX, real_s=lambda: self._seconds
        )
        closed = socket.socket()
        closed.close()
        self._listener = Listener(closed, "localhost", PORT, Where((Broker(0, "localhost", PORT),)))
        self._wires: dict[Connection, Wire] = {}

    def now_s(self) -> float:
        return self._seconds

    def connect(self, one: Wire) -> "Client":
        connection = self._frontend.connect("127.0.0.1", self._listener)
        self._wires[connection] = one
        return Client(self._frontend, connection)

    def disconnect(self, one: Wire) -> None:
        self._wires = {connection: wire for connection, wire in self._wires.items() if wire is not one}

    def run(self, for_ms: float, until: "Wire | Flight | None" = None) -> bool:
        """Let happen what happens within `for_ms`, and stop at once when the awaited is there."""
        deadline = self._seconds + for_ms / 1000
        self._turn()
        while not is_over(until):
            if self._seconds >= deadline:
                return False
            self._seconds = min(deadline, self._next_s())
            self._turn()
        return True

    def close(self) -> None:
        for one in list(self._wires.values()):
            one.close()
        super().close()

    def _next_s(self) -> float:
        """When something is due, on the pump's clock, and never now."""
        deadlines = (self._frontend.next_deadline_ms(), self._frontend.next_poll_ms())
        due_ms = min((at_ms for at_ms in deadlines if at_ms is not None), default=None)
        left_s = float("inf") if due_ms is None else (due_ms - self._clock.now_ms()) / 1000
        return self._seconds + max(left_s, TICK_S)

    def _turn(self) -> None:
        """What the poller does after reading: end the turn, send what is owed, close what is to be closed."""
        for connection in self._frontend.finish():
            wire = self._wires.get(connection)
            if wire is not None and (owed := b"".join(connection.take())):
                wire.receive(owed)
            if wire is not None and connection.closing:
                wire.receive(b"")


class Client:
    """One connection's end that sends."""

    def __init__(self, frontend: Frontend, connection: Connection) -> None:
        self._frontend, self._connection = frontend, connection

    def sendall(self, data: bytes) -> None:
        self._frontend.receive(self._connection, data)

    def close(self) -> None:
        self._frontend.disconnect(self._connection)


def _nobody(event: Event) -> None:
    """Nobody is told what happens to a group."""
