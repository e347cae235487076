"""The server's own poller under a frontend that decides nothing: `python -m benchmarks.floor PORT`.

It answers each frame with an empty Heartbeat v4 answer. What the server costs above this is its own doing.
"""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import trio

from coordinator.core.quotas.rules import QuotaRules
from coordinator.runtime.clock import Clock
from coordinator.server.budget import Budget
from coordinator.server.connection import Connection
from coordinator.server.listener import Listener, listen
from coordinator.server.poller import Poller

_SIZE, _BODY = (12).to_bytes(4, "big"), bytes(8)


class NoNode:
    """A node without a deadline, and all parts of it that the poller asks."""

    quotas = QuotaRules()

    @property
    def dataplane(self) -> "NoNode":
        return self

    world = ledger = catalog = dataplane

    def next_deadline_ms(self) -> int | None:
        return None

    def next_poll_ms(self) -> int | None:
        return None


class NoTurn:
    """A turn that has all the time there is."""

    is_over = False
    now_ms = began_ms = 0
    checked_s = 0.0
    real_s = staticmethod(time.monotonic)

    def check_time(self) -> bool:
        return True


class Floor:
    """A frontend as the poller knows it, and all parts of it that the poller asks."""

    has_work = False
    engine = NoNode()
    turn = NoTurn()
    unsent: Budget[Connection] = Budget(1 << 62)

    def __init__(self) -> None:
        self._touched: list[Connection] = []

    @property
    def connections(self) -> "Floor":
        return self

    authenticator = outbox = connections

    def find_with(self, find: Callable[[int, Any], None]) -> None:
        """Forget it: no client authenticates here."""

    def next_release_s(self) -> float | None:
        """Nothing is held back."""
        return None

    def begin(self, *, goes_on: bool = True) -> None:
        """Look at the clock. Nothing is left from the last turn."""
        self.turn.checked_s = self.turn.real_s()

    def end_turn(self) -> None:
        """Nothing is counted."""

    def connect(self, host: str, listener: Listener, port: int) -> Connection:
        return Connection(host, listener, 65_536, self.turn.real_s())

    def receive_all(self, chunks: Iterable[tuple[Connection, bytes]]) -> None:
        for connection, chunk in chunks:
            for frame in connection.receive(chunk, self.turn.checked_s):
                connection.outgoing.append(_SIZE + frame[4:8] + _BODY)
            self._touched.append(connection)

    def block(self, connection: Connection) -> None:
        connection.is_blocked = True

    def resume(self, connection: Connection) -> None:
        connection.is_blocked = False

    def disconnect(self, connection: Connection) -> None:
        """Nothing is kept of it."""

    def take(self, connection: Connection) -> list[Any]:
        outgoing, connection.outgoing = connection.outgoing, []
        return [b"".join(outgoing)] if len(outgoing) > 1 else outgoing

    def note_unsent(self, connection: Connection, unsent_bytes: int) -> None:
        """Nothing depends on it."""

    def finish(self, read_by_ms: int) -> Iterable[Connection]:
        touched, self._touched = self._touched, []
        return touched


async def main(port: int) -> None:
    clock = Clock.real()
    poller = Poller(
        Floor(),
        [listen(f"127.0.0.1:{port}")],
        clock,
        after_turn=lambda: None,
        connections_max=10_000,
        idle_ms=600_000,
    )
    await poller.run()


trio.run(main, int(sys.argv[1]))
