"""Between a member and the server: requests and answers are late, and some never arrive."""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.clock import Clock
from tests.simulation.server import Server

Heard = Callable[[Any], None]


class Network:
    """Carries a request to the server and its answer back. `loss` is the share of either that is lost."""

    def __init__(self, clock: Clock, server: Server, dice: Random) -> None:
        self.loss = 0.0
        self.lost = 0
        self._clock = clock
        self._server = server
        self._dice = dice

    def ask(self, request: Any, version: int, client: str, timeout_ms: int, heard: Heard) -> None:
        """`heard` is called once: with the answer, or with None when there was none in time."""
        is_open = True

        def once(response: Any) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                heard(response)

        def answered(response: Any) -> None:
            self._carry(lambda: once(response))

        self._clock.after(timeout_ms, lambda: once(None))
        self._carry(lambda: self._server.take(request, version, client, answered))

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Tell the transaction coordinator, who sees to it that the marker is written."""
        self._clock.after(self._dice.expovariate(1 / 20), lambda: self._server.end_transaction(producer_id, committed))

    def _carry(self, act: Callable[[], None]) -> None:
        if self.loss and self._dice.random() < self.loss:
            self.lost += 1
            return
        delay_ms = self._dice.expovariate(1 / 4)
        self._clock.after(delay_ms + (2_000 if self.loss and self._dice.random() < self.loss else 0), act)
