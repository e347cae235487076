"""Our server's own engine in made-up time, its log and its event log written as files: what the tables must tell.

    engine = Engine(directory / "__consumer_offsets-0")
    SimulatedGroup(engine, "orders-readers", Random(1)).live(20)
    engine.write_events(path)

`Engine` is one partition: a `Shard` that decides, a log that remembers. What really happened is what its events say.
"""

from pathlib import Path
from random import Random
from typing import Any

import msgspec

from coordinator.core import records
from coordinator.core.events import Cause, Event
from coordinator.core.limits import Limits
from coordinator.core.record_types import single_records
from coordinator.core.result import Result
from coordinator.core.shard import Shard
from coordinator.core.topics import Topic, Topics
from coordinator.runtime import loader
from coordinator.runtime.partition import Partition
from pipeline.synth import Writer
from protocol.records import Record
from storage.log import Log
from storage.real_files import RealFiles
from tests.core.driver import ShardDriver

START_MS = 1_760_000_000_000
TOPICS = Topics([Topic("orders", b"o" * 16, 64), Topic("payments", b"p" * 16, 64)])
# The causes of a rebalance, by what the engine says at the moment at which it begins. A leader joins again because of
# something that it alone knows: `Engine.leader_saw`.
TOLD = {
    Cause.MEMBER_JOINED: "join",
    Cause.MEMBER_LEFT: "leave",
    Cause.SESSION_EXPIRED: "timeout",
    Cause.STATIC_MEMBER_REPLACED: "static_rejoin",
    Cause.REBALANCE_TIMED_OUT: "timeout",
    Cause.PENDING_SYNC_EXPIRED: "timeout",
}


class Truth(msgspec.Struct, frozen=True):
    """Why a group rebalanced: the offset of the record that says so, and the causes since the one before."""

    group: str
    at: int
    causes: frozenset[str]


class Engine(ShardDriver):
    """One partition of `__consumer_offsets`, whose log is written as files."""

    def __init__(self, directory: Path, number: int = 0, limits: Limits | None = None) -> None:
        super().__init__(limits or Limits(), TOPICS, index=number, now_ms=START_MS)
        self.directory = directory
        self.writer = Writer(directory, segment_bytes=20_000)
        self.shard.finish_loading(self.now_ms)
        self.events: list[Event] = []
        self.truth: list[Truth] = []
        self.leader_saw = ""
        self.changed_metadata = "subscription_change"  # what members mean by other metadata
        self._since: dict[str, set[str]] = {}  # group -> causes that no record has told of
        self._answers: dict[int, Any] = {}

    def send(self, request: Any, version: int, client: str = "app") -> int:
        """Hand in a request; the ticket under which its answer will be found."""
        call = self.call(version, client)
        result = self.handle(request, call)
        if result.response is not None:
            self._answers[call.ticket] = result.response
        return call.ticket

    def answer(self, ticket: int) -> Any:
        """The answer to a request; it must be there by now."""
        return self._answers.pop(ticket)

    def has_answered(self, ticket: int, error_code: int | None = None) -> bool:
        """Whether a request has its answer, with this error."""
        return ticket in self._answers and error_code in (None, self._answers[ticket].error_code)

    def ask(self, request: Any, version: int) -> Any:
        """The same in one step."""
        return self.answer(self.send(request, version))

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        """What the transaction coordinator does: decide, and write the marker."""
        super().end_transaction(producer_id, commits=commits)
        self.writer.end(producer_id, commits=commits, at_ms=self.now_ms)

    def restart(self) -> None:
        """Forget everything but the log."""
        self.shard = replayed(self.directory, self.index, self.limits)
        self.load()

    def take(self, result: Result[Any]) -> None:
        """Write what was decided, and note what happened."""
        for event in result.events:
            self.events.append(event)
            known = {Cause.LEADER_REJOINED: self.leader_saw, Cause.METADATA_CHANGED: self.changed_metadata}
            cause = known.get(event.cause) or TOLD.get(event.cause)
            if cause:
                self._since.setdefault(event.group, set()).add(cause)
        if result.records:
            self._told(result, self._write(result))
        for reply in result.replies:
            self._answers[reply.ticket] = reply.response

    def _told(self, result: Result[Any], base: int) -> None:
        """A classic group's record ends what happened since the one before; that of generation 0 only founds it."""
        for at, record in enumerate(single_records(result.records), base):
            if type(record.key) is records.GroupMetadataKey and record.value and record.value.generation:
                causes = self._since.pop(record.key.group, set())
                self.truth.append(Truth(record.key.group, at, frozenset(causes)))

    def _write(self, result: Result[Any]) -> int:
        facts = [Record(*records.encode(record), timestamp=self.now_ms) for record in single_records(result.records)]
        producer = result.producer
        if producer is None:
            return self.writer.append(facts)
        return self.writer.append(facts, producer_id=producer.id, transactional=True)

    def write_events(self, path: Path) -> Path:
        """The event log, as the server writes it."""
        path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in self.events))
        return path

    def fresh_id(self) -> str:
        return f"{self.index}-{int(super().fresh_id()):032d}"


class EngineOfWrongClock(Engine):
    """The same, at brokers whose clocks are wrong, now this way and now the other, in all that they write."""

    def __init__(self, directory: Path, dice: Random) -> None:
        super().__init__(directory)
        self.dice = dice
        self.off_ms = 0

    def _write(self, result: Result[Any]) -> int:
        if self.dice.random() < 0.01:
            self.off_ms = self.dice.choice((-600_000, -60_000, -20_000, 0, 20_000, 60_000, 600_000))
        written = tuple(self._date(record) for record in single_records(result.records))
        self.now_ms += self.off_ms
        try:
            return super()._write(msgspec.structs.replace(result, records=written))
        finally:
            self.now_ms -= self.off_ms

    def _date(self, record: records.Record) -> records.Record:
        if not isinstance(record.value, records.GroupMetadataValue):
            return record
        ts = record.value.current_state_timestamp + self.off_ms
        return msgspec.structs.replace(record, value=msgspec.structs.replace(record.value, current_state_timestamp=ts))


def replayed(directory: Path, number: int = 0, limits: Limits | None = None) -> Shard:
    """What the server knows after reading a log from the disk, by the way in which it starts."""
    shard = Shard(number, limits or Limits(), TOPICS)  # which writes nothing: `Engine.take` does
    partition = Partition(lambda _: shard, lambda: Log.open(RealFiles(), str(directory)))
    for _ in loader.replay(partition):
        pass
    partition.log.release()
    return partition.shard
