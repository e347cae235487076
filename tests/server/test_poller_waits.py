"""How the poller waits for the next request: it looks on, falls asleep for a moment, or leaves it to Trio."""

import threading
import time
from typing import cast

import pytest
import trio

from coordinator.client import Client
from coordinator.server import poller
from coordinator.server.selector import Selector
from protocol.messages.api_versions import ApiVersionsRequest
from tests.server.listening import Listening, listening

LOOK_S = 1e-7


class Sockets:
    """A selector of which a test says after how many seconds something is ready. To look at it takes time."""

    def __init__(self, here: Listening) -> None:
        self._here = here
        self.after_s = 0.0  # from the last time that something was ready
        self._ready_at_s = 0.0
        self.looks = self.sleeps = 0
        here.poller._selector = cast("Selector", self)

    def wait(self, seconds: float) -> bool:
        clock = self._here.server
        if seconds:
            self.sleeps += 1
        else:
            self.looks += 1
        until_s = clock.seconds + max(seconds, LOOK_S)
        clock.seconds = until_s if until_s < self._ready_at_s else max(self._ready_at_s, clock.seconds + LOOK_S)
        return clock.seconds >= self._ready_at_s

    def ask(self, after_s: float) -> tuple[bool, int, int]:
        """Wait for what is ready after so long: whether that was soon enough, and the looks and sleeps it took."""
        self.looks = self.sleeps = 0
        self._ready_at_s = self._here.server.seconds + after_s
        return self._here.poller._is_ready_soon(), self.looks, self.sleeps


def test_after_a_brief_wait_the_loop_looks_on() -> None:
    sockets = Sockets(Listening())
    assert sockets.ask(5 * LOOK_S) == (True, 1, 1), "nothing is known yet: it sleeps"
    assert sockets.ask(5 * LOOK_S) == (True, 5, 0), "as the last wait was brief"
    assert sockets.ask(0.0005) == (True, poller.LOOKS, 1)
    assert sockets.ask(5 * LOOK_S) == (True, 1, 1), "as the last wait was not"


def test_to_sleep_in_vain_is_tried_less_and_less() -> None:
    sockets = Sockets(Listening())
    tried = [sockets.ask(1.0)[2] for _ in range(30)]
    assert [at for at, sleeps in enumerate(tried) if sleeps] == [0, 2, 6, 14]
    while not sockets.ask(1.0)[2]:
        pass
    for _ in range(poller.SKIPS_MAX):
        assert sockets.ask(0.0005) == (False, 1, 0)
    assert sockets.ask(0.0005) == (True, 1, 1)
    assert sockets.ask(1.0)[2] == 1, "as the last time was not in vain"
    assert [sockets.ask(1.0)[2] for _ in range(2)] == [0, 1]


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
