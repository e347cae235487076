"""Verbs of which only one is done at a time, because it holds clients: a move of the clock, a reset, a restore."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from coordinator.server.verbs.refusal import Refusal


class OneAtATime:
    """Which of these verbs is under way."""

    def __init__(self) -> None:
        self.under_way = ""  # a sentence, empty if there is none
        self._is_over = trio.Event()

    @contextmanager
    def during(self, sentence: str) -> Iterator[None]:
        """Let no other of these verbs begin. Raises Refusal if one is under way."""
        if self.under_way:
            raise Refusal(self.under_way, is_conflict=True)
        self.under_way = sentence
        try:
            yield
        finally:
            self.under_way = ""
            self._is_over.set()
            self._is_over = trio.Event()

    async def wait_for_end(self, sentence: str = "") -> None:
        """Return when the verb of this sentence is not under way; without a sentence, when none of them is."""
        while self.under_way and sentence in ("", self.under_way):
            await self._is_over.wait()
