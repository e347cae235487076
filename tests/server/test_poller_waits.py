"""How the poller waits for the next request: it looks on, falls asleep for a moment, or leaves it to Trio."""

import math
import threading
import time
from typing import cast

import pytest
import trio

from coordinator.client import Client
from coordinator.server import poller
from coordinator.server.selector import READ, Selector
from protocol.messages.api_versions import ApiVersionsRequest
from tests.server.listening import Listening, listening


class Sockets:
    """A selector of which a test says at which look something is ready, or that it is while the loop sleeps."""

    def __init__(self) -> None:
        self.poller = Listening().poller
        self.poller._selector = cast("Selector", self)
        self._ready_after: float = 0  # looks; a sleep is longer than any number of them
        self.looks = self.sleeps = 0

    def poll(self, seconds: float = 0.0) -> list[tuple[int, int]]:
        self.looks += seconds == 0
        self.sleeps += seconds > 0
        is_ready = self.looks >= self._ready_after or (seconds > 0 and self._ready_after < math.inf)
        return [(0, READ)] if is_ready else []

    def ask(self, ready_after: float) -> tuple[bool, int, int]:
        """Wait: whether something was ready soon enough, and the looks and sleeps that it took."""
        self.looks = self.sleeps = 0
        self._ready_after = ready_after
        return self.poller._spin_then_sleep(), self.looks, self.sleeps


SLOW = poller.SPINS + 1  # a client that is ready when the loop has fallen asleep


def test_the_loop_looks_on_for_a_fast_client() -> None:
    sockets = Sockets()
    assert [sockets.ask(5) for _ in range(3)] == [(True, 5, 0)] * 3


def test_the_loop_sleeps_for_a_slower_client_and_looks_on_less_and_less() -> None:
    sockets = Sockets()
    asked = [sockets.ask(SLOW) for _ in range(60)]
    assert set(asked) == {(True, poller.SPINS, 1), (True, 1, 1)}
    assert [at for at, (_, looks, _) in enumerate(asked) if looks > 1] == [0, 2, 6, 14, 30, 46]
    while sockets.ask(5)[1] == 1:
        pass
    assert [sockets.ask(5) for _ in range(3)] == [(True, 5, 0)] * 3, "as that was of use"


def test_the_loop_sleeps_less_and_less_while_nobody_sends() -> None:
    """It leaves the waiting to Trio."""
    sockets = Sockets()
    asked = [sockets.ask(math.inf) for _ in range(60)]
    assert not any(is_ready for is_ready, _, _ in asked)
    assert [at for at, (_, _, sleeps) in enumerate(asked) if sleeps] == [0, 2, 6, 14, 30, 46]


async def test_other_tasks_have_their_turn_while_a_client_never_pauses() -> None:
    """The alarm, the admin port and signals are such tasks."""
    async with listening(monotonic=time.monotonic) as here:
        is_over = threading.Event()

        def ask_on_and_on() -> int:
            with Client.to(here.listener.address) as client:
                for times in range(20_000):
                    if is_over.is_set():
                        return times
                    client.ask(ApiVersionsRequest("test", "1"), version=3)
            pytest.fail("no other task has had a turn")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, ask_on_and_on)
            while not here.poller.connections:
                await trio.lowlevel.checkpoint()
            for _ in range(20):
                await trio.sleep(0.001)
            is_over.set()
