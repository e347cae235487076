"""Write the events of groups to their file, those of many turns at once.

While a thousand members join, each turn has an event or two, and to write them takes longer than to tell them. So they
are written a moment later. A server that is killed loses the events of that moment; one that ends writes them.
"""

from typing import Final

import trio

from coordinator.events import Events
from coordinator.server.loop_time import EVENTS, WORK

WAIT_S: Final = 0.1  # from an event to its write
AT_ONCE_BYTES: Final = 1_048_576  # of events, after which they wait no longer


class EventWriter:
    """Writes events soon after they were told."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._news = trio.Event()

    def end_turn(self) -> None:
        """Have the events of a turn written, if there are any: soon, or now if they are many."""
        waiting_bytes = self._events.waiting_bytes
        if waiting_bytes >= AT_ONCE_BYTES:
            self._events.flush()
        elif waiting_bytes:
            self._news.set()

    async def run(self) -> None:
        """Write events until cancelled. What waits then is written by `Events.close`."""
        WORK.set(EVENTS)
        while True:
            await self._news.wait()
            await trio.sleep(WAIT_S)
            self._news = trio.Event()
            self._events.flush()
