"""The server of a simulated day: a shard, its log as bytes, and answers for those who wait."""

from collections.abc import Callable
from typing import Any
from zlib import crc32

from coordinator.core import records
from coordinator.core.limits import Limits
from coordinator.core.result import Call, Result
from coordinator.core.shard import Shard
from coordinator.core.topics import Topic, Topics
from tests.simulation.clock import Clock
from tests.simulation.promises import Promises

Answer = Callable[[Any], None]

RESTART_MS = 3_000
LIMITS = Limits(group_initial_rebalance_delay_ms=3_000)


class Log:
    """What was written, in order. A plain record takes its key's earlier plain one away, as compaction may."""

    def __init__(self) -> None:
        self.written = 0
        self.hash = 0  # of all that was ever written
        self._entries: dict[int, tuple[bytes, bytes | None, int] | tuple[int, bool]] = {}
        self._plain: dict[bytes, int] = {}

    def write(self, key: bytes, value: bytes | None, producer_id: int) -> None:
        self.written += 1
        self.hash = crc32(value or b"", crc32(key, self.hash))
        self._entries[self.written] = (key, value, producer_id)
        if producer_id == -1:
            self._entries.pop(self._plain.get(key, 0), None)
            self._plain[key] = self.written

    def mark(self, producer_id: int, committed: bool) -> None:
        self.written += 1
        self._entries[self.written] = (producer_id, committed)

    def replay(self, shard: Shard) -> None:
        for entry in self._entries.values():
            if len(entry) == 2:
                shard.end_transaction(*entry)
            else:
                key, value, producer_id = entry
                shard.replay(records.decode(key, value), producer_id)


class Server:
    """Takes requests while it runs. What waits when it stops is never answered; what it wrote, it remembers."""

    def __init__(self, clock: Clock, promises: Promises, partitions: int, shard: Callable[..., Shard] = Shard) -> None:
        self.topics = Topics([Topic("t", b"t" * 16, partitions)])
        self.is_up = True
        self.log = Log()
        self.requests = 0
        self._clock = clock
        self._promises = promises
        self._make = shard
        self._ids = 0
        self._tickets = 0
        self._waiting: dict[int, Answer] = {}
        self._fires_at: int | None = None
        self.shard = shard(0, LIMITS, self.topics)
        self.shard.loaded(clock.now_ms)
        self._watch()

    def take(self, request: Any, version: int, client: str, answer: Answer) -> None:
        """Decide a request that has arrived; `answer` is called when there is one."""
        if not self.is_up:
            return
        self.requests += 1
        self._tickets += 1
        call = Call(self._tickets, self._clock.now_ms, version, client, "/127.0.0.1", self._fresh_id)
        self._promises.asked(call.ticket, request, call.now_ms)
        self._waiting[call.ticket] = answer
        result = self.shard.handle(request, call)
        self._done(result)
        if result.response is not None:
            self._answer(call.ticket, result.response)
        self._promises.decided(self.shard, request, result)
        self._watch()

    def restart(self) -> None:
        """Stop, and come back a little later with what the log says."""
        if not self.is_up:
            return
        self.is_up = False
        self._waiting.clear()
        self._promises.stopped(self.shard)
        self._clock.after(RESTART_MS, self._start)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """The transaction coordinator's marker: it comes back until it is written."""
        if not self.is_up:
            self._clock.after(500, lambda: self.end_transaction(producer_id, committed))
            return
        self.shard.end_transaction(producer_id, committed)
        self.log.mark(producer_id, committed)
        self._promises.ended(self.shard, producer_id, committed)

    def _start(self) -> None:
        self.shard = self._make(0, LIMITS, self.topics)
        self.log.replay(self.shard)
        self._promises.started(self.shard)
        self.is_up = True
        for result in self.shard.loaded(self._clock.now_ms):
            self._done(result)
        self._watch()

    def _fire(self) -> None:
        self._fires_at = None
        if self.is_up:
            for result in self.shard.fire(self._clock.now_ms):
                self._done(result)
            self._watch()

    def _watch(self) -> None:
        """Wake up for the next deadline."""
        at_ms = self.shard.next_deadline_ms()
        if at_ms is not None and (self._fires_at is None or at_ms < self._fires_at):
            self._fires_at = at_ms
            self._clock.after(max(at_ms - self._clock.now_ms, 0), self._fire)

    def _done(self, result: Result[Any]) -> None:
        producer_id = -1 if result.producer is None else result.producer.id
        for record in result.records:
            self.log.write(*records.encode(record), producer_id)
        self._promises.told(result)
        for reply in result.replies:
            self._answer(reply.ticket, reply.response)

    def _answer(self, ticket: int, response: Any) -> None:
        self._promises.answered(ticket, response, self._clock.now_ms)
        answer = self._waiting.pop(ticket, None)
        if answer is not None:
            answer(response)

    def _fresh_id(self) -> str:
        self._ids += 1
        return str(self._ids)
