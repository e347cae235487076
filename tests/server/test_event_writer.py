"""When events are written to their file."""

import trio
from trio.testing import MockClock

from coordinator.core.events import Cause, Event
from coordinator.events import EventLog, Events, Ring
from coordinator.server.event_writer import AT_ONCE_BYTES, WAIT_S, EventWriter
from storage.memory_files import MemoryFiles

FILE = "data/events.jsonl"


class Told:
    """Events with a writer, and the file that they come to."""

    def __init__(self) -> None:
        self._files = MemoryFiles()
        self.events = Events(Ring(), EventLog(self._files, "data"))
        self.writer = EventWriter(self.events)

    def turn(self, number: int, reason: str = "") -> None:
        self.events.tell(Event(number, "g", Cause.MEMBER_JOINED, "Stable", "Stable", 1, reason=reason))
        self.writer.end_turn()

    def written_bytes(self) -> int:
        return self._files.open(FILE, create=False).size() if self._files.exists(FILE) else 0


async def test_the_events_of_many_turns_are_written_at_once(autojump_clock: MockClock) -> None:
    told, sizes = Told(), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(told.writer.run)
        for number in range(5):
            told.turn(number)
            await trio.sleep(WAIT_S / 10)
            sizes.append(told.written_bytes())
        await trio.sleep(WAIT_S)
        sizes.append(told.written_bytes())
        told.turn(5)
        await trio.sleep(2 * WAIT_S)
        sizes.append(told.written_bytes())
        nursery.cancel_scope.cancel()
    one = sizes[-1] - sizes[-2]
    assert sizes == [0, 0, 0, 0, 0, 5 * one, 6 * one]


def test_many_events_do_not_wait() -> None:
    told = Told()
    told.turn(1, "x" * (AT_ONCE_BYTES - 1_000))
    assert told.written_bytes() == 0
    told.turn(2, "x" * 1_000)
    assert told.written_bytes() > AT_ONCE_BYTES
    assert told.events.waiting_bytes == 0
