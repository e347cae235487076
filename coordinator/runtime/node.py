"""The server without connections: it decides requests, remembers what they lead to, and says who is answered.

A turn: `handle` for each request that has come, `fire` for the timers that are due, `replies` for those that waited, `flush` to append
what all of them have led to. Nothing that a turn decides may be told to anybody before its `flush` has returned.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from coordinator.config import Config, limits
from coordinator.core.catalog.catalog import Change
from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.catalog.outcome import Markers, Outcome
from coordinator.core.catalog.records import CatalogRecord, TopicKey, TopicValue
from coordinator.core.events import Event
from coordinator.core.result import Call, Result
from coordinator.core.transactions.ending import completed
from coordinator.core.transactions.expiry import forgotten, timed_out
from coordinator.dataplane.settings import catalog_settings
from coordinator.metrics import Stats
from coordinator.runtime import loader
from coordinator.runtime.ledger import DIRECTORY, Ledger
from coordinator.runtime.partition import Partition
from coordinator.runtime.partitions import Partitions
from storage.files import Files
from storage.log import Log, LogConfig
from storage.names import partition_directory

NODE_ID: Final = 0
FORGET_TRANSACTIONS_MS: Final = 3_600_000  # how often unused transactional ids are looked for

Replies = list[tuple[int, Any]]  # (ticket, response)


class Setup(Struct, frozen=True):
    """What a node is made of."""

    config: Config
    files: Files
    data_dir: str
    fresh_id: Callable[[], str]
    stats: Stats
    tell: Callable[[Event], None]  # what happened to a group
    is_synced: bool = False  # whether an answer waits for the disk (--fsync)
    topics: Mapping[str, int] = {}  # to be created at start if they are not there: name -> partitions


class Node:
    """One broker's state: groups, offsets, topics, transactions and the records of topics."""

    def __init__(self, setup: Setup) -> None:
        self.config = setup.config
        self.stats = setup.stats
        self._setup = setup
        self._replies: Replies = []
        self._dirty: dict[Partition, None] = {}
        self._due_ms: int | None = None  # not later than the next timer; earlier does no harm
        self._forget_at_ms = 0
        self.ledger = Ledger(catalog_settings(setup.config, (NODE_ID,)), lambda: self._open_log(DIRECTORY))
        self.partitions = Partitions(0, self._partition)

    # -- start and stop ------------------------------------------------------------------------------------------------

    def open(self, now_ms: int) -> None:
        """Read what exists, and make what the set-up asks for. The groups are loaded by `load`, step by step."""
        self.ledger.load()
        offsets = self.ledger.catalog.facts.get(OFFSETS_TOPIC)
        if offsets is None:
            # How many partitions there are is fixed from now on: the number decides which of them owns a group.
            self._create(OFFSETS_TOPIC, self.config["offsets.topic.num.partitions"], now_ms)
            offsets = self.ledger.catalog.facts[OFFSETS_TOPIC]
        for name, partitions in self._setup.topics.items():
            if name not in self.ledger.catalog.facts:
                self._create(name, partitions, now_ms)
        self.partitions = Partitions(offsets.partitions, self._partition)
        self.flush()

    def load(self, now_ms: Callable[[], int]) -> Iterator[int]:
        """Load the partitions, one after the other. Yields now and then how many records it has read since."""
        for partition in self.partitions:
            if self._setup.files.list(self._directory(OFFSETS_TOPIC, partition.index)):
                yield from loader.replay(partition)
            partition.is_loaded = True
            for result in partition.shard.loaded(now_ms()):
                self._take(partition, result, now_ms())
            self._watch(partition)
        for markers in self.ledger.transactions.unfinished():
            self._mark(markers, now_ms())
        self.flush()

    @property
    def loading(self) -> int:
        """How many partitions of `__consumer_offsets` are still to be loaded."""
        return sum(not partition.is_loaded for partition in self.partitions)

    def close(self) -> None:
        """Append what is left and close the logs. Nobody is thrown out of a group: its members find it at the next start."""
        self.flush()
        for partition in self.partitions:
            if partition.has_log:
                partition.log.close()
        self.ledger.log.close()

    def _create(self, topic: str, partitions: int, now_ms: int) -> None:
        topic_id = bytes.fromhex(self._setup.fresh_id().replace("-", ""))
        fact = TopicValue(topic_id, partitions, 1, now_ms)
        self._record(Outcome(records=(CatalogRecord(TopicKey(topic), fact),)), now_ms)

    def _partition(self, index: int) -> Partition:
        directory = partition_directory(OFFSETS_TOPIC, index)
        topics = self.ledger.catalog.topics
        return Partition(index, limits(self.config), topics, lambda: self._open_log(directory))

    def _open_log(self, directory: str) -> Log:
        settings = LogConfig(
            segment_bytes=self.config["offsets.topic.segment.bytes"],
            delete_retention_ms=self.config["log.cleaner.delete.retention.ms"],
            min_cleanable_dirty_ratio=self.config["log.cleaner.min.cleanable.ratio"],
        )
        return Log.open(self._setup.files, f"{self._setup.data_dir}/{directory}", settings)

    def _directory(self, topic: str, partition: int) -> str:
        return f"{self._setup.data_dir}/{partition_directory(topic, partition)}"

    # -- a turn --------------------------------------------------------------------------------------------------------

    def decide(self, partition: Partition, request: Any, call: Call) -> Any:
        """Let a partition's shard decide. Returns the answer; None when the request is parked."""
        result = partition.shard.handle(request, call)
        if result.effects or result.records or result.events:
            self._take(partition, result, call.now_ms)
            self._watch(partition)
        return result.response

    def record(self, outcome: Outcome, now_ms: int) -> Any:
        """Make an outcome of the catalog or of a transaction true, and return its answer."""
        self._record(outcome, now_ms)
        for markers in outcome.markers:
            self._mark(markers, now_ms)
        return outcome.response

    def reply(self, ticket: int, response: Any) -> None:
        """Answer a request that was parked."""
        self._replies.append((ticket, response))

    def replies(self) -> Replies:
        """The parked requests that are answered, since this was last asked."""
        replies, self._replies = self._replies, []
        return replies

    def fire(self, now_ms: int) -> None:
        """Do what is due by now."""
        if self._due_ms is None or self._due_ms > now_ms:
            return
        for partition in self.partitions:
            if _is_due(partition.shard.next_deadline_ms(), now_ms):
                for result in partition.shard.fire(now_ms):
                    self._take(partition, result, now_ms)
        if _is_due(self.ledger.transactions.next_deadline_ms(), now_ms):
            self.record(timed_out(self.ledger.transactions, now_ms), now_ms)
        if now_ms >= self._forget_at_ms:
            self.record(forgotten(self.ledger.transactions, now_ms), now_ms)
            self._forget_at_ms = now_ms + FORGET_TRANSACTIONS_MS
        self._due_ms = min(
            (at_ms for at_ms in (p.shard.next_deadline_ms() for p in self.partitions) if at_ms is not None),
            default=None,
        )

    def next_deadline_ms(self) -> int | None:
        """When `fire` may have something to do; None for never."""
        return self._due_ms

    def flush(self) -> None:
        """Append what the turn has led to, once a log, and with --fsync wait for the disk. Raises StorageFailed."""
        self.ledger.flush()
        dirty, self._dirty = self._dirty, {}
        for partition in dirty:
            partition.flush()
        if self._setup.is_synced:
            for partition in dirty:
                partition.log.sync()
        self.ledger.settle()

    def _take(self, partition: Partition, result: Result[Any], now_ms: int) -> None:
        if result.records:
            partition.remember(result, now_ms)
            self._dirty[partition] = None
        for reply in result.replies:
            self._replies.append((reply.ticket, reply.response))
        for event in result.events:
            self._setup.tell(event)

    def _watch(self, partition: Partition) -> None:
        """See to it that `fire` is not later than the partition's next timer."""
        due_ms = partition.shard.next_deadline_ms()
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms

    def _record(self, outcome: Outcome, now_ms: int) -> None:
        changes = self.ledger.record(outcome, now_ms)
        if changes:
            self._topics_changed(changes, now_ms)

    def _topics_changed(self, changes: tuple[Change, ...], now_ms: int) -> None:
        for partition in self.partitions:
            for result in partition.shard.topics_changed(self.ledger.catalog.topics, now_ms):
                self._take(partition, result, now_ms)
            self._watch(partition)

    def _mark(self, markers: Markers, now_ms: int) -> None:
        """Write the end of a transaction into its partitions; it is complete when they are in their logs."""
        for topic, index in markers.partitions:
            if topic == OFFSETS_TOPIC:
                partition = self.partitions[index]
                for result in partition.shard.end_transaction(markers.producer_id, markers.committed):
                    self._take(partition, result, now_ms)
                partition.mark(markers.producer_id, markers.producer_epoch, markers.committed, now_ms)
                self._dirty[partition] = None
        self.ledger.complete(completed(self.ledger.transactions, markers.transactional_id, now_ms), now_ms)


def _is_due(at_ms: int | None, now_ms: int) -> bool:
    return at_ms is not None and at_ms <= now_ms
