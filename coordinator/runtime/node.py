"""The server without connections: it decides requests, remembers what they lead to, and says who is answered.

A turn: `handle` for each request that has come, `fire` for the timers that are due, `replies` for those that waited,
`flush` to append what all of them have led to. Nothing that a turn decides may be told to anybody before its `flush`
has returned.
"""

import base64
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from coordinator.config import Config, limits
from coordinator.core.catalog import group_configs
from coordinator.core.catalog.catalog import GROUP, Change
from coordinator.core.catalog.names import CATALOG_TOPIC, OFFSETS_TOPIC
from coordinator.core.catalog.outcome import Markers, Outcome
from coordinator.core.catalog.records import CatalogRecord, ConfigKey, TopicKey, TopicValue
from coordinator.core.events import Event
from coordinator.core.result import Call, Reply, Result
from coordinator.core.shard import Shard
from coordinator.core.transactions.ending import completed
from coordinator.core.transactions.expiry import timed_out
from coordinator.dataplane.brokers import Broker
from coordinator.dataplane.dataplane import NO_ANSWER, DataPlane
from coordinator.dataplane.settings import catalog_settings, own_log_config
from coordinator.dataplane.topic_logs import remove_topics
from coordinator.runtime import assignors, loader, router
from coordinator.runtime.ledger import DIRECTORY, Ledger
from coordinator.runtime.partition import Partition
from coordinator.runtime.partitions import Partitions
from coordinator.runtime.refusals import refused
from coordinator.runtime.steps import Steps, Unfinished, is_in_steps
from protocol.errors import ErrorCode, UnsupportedVersion
from storage.files import Files
from storage.log import Log
from storage.names import partition_directory

log = logging.getLogger("muster.node")

__all__ = ["NODE_ID", "NO_ANSWER", "Loading", "Node", "Setup", "Where"]

NODE_ID: Final = 0

Replies = list[tuple[int, Any]]  # (ticket, response)


class Where(Struct, frozen=True):
    """How the asking client reaches the brokers."""

    brokers: tuple[Broker, ...]


class Setup(Struct, frozen=True):
    """What a node is made of."""

    config: Config
    files: Files
    data_dir: str
    fresh_id: Callable[[], str]
    real_ms: Callable[[], int]  # the time by which fetches wait, whatever the coordinator's clock shows
    tell: Callable[[Event], None]  # what happened to a group
    compat: str = "4.3"  # whose versions of the APIs are offered: one of router.COMPAT
    is_synced: bool = False  # whether an answer waits for the disk (--fsync)
    topics: Mapping[str, int] = {}  # to be created at start if they are not there: name -> partitions


class Loading(Struct, frozen=True):
    """A step of the start: so many records were read, or a log is opened next.

    To open a log is to read all of it. Who serves others meanwhile calls `opens` on a thread of its own before it asks
    for the next step; where nobody does, the next step does it.
    """

    records: int = 0
    opens: Callable[[], None] | None = None


class Node:
    """One broker's state: groups, offsets, topics, transactions and the records of topics."""

    def __init__(self, setup: Setup) -> None:
        self.config = setup.config
        self._setup = setup
        self._replies: Replies = []
        self._steps = Steps()
        self._dirty: dict[Partition, None] = {}
        self._assignors = assignors.chosen(setup.config["group.consumer.assignors"])
        self._due_ms: int | None = None  # not later than the next timer; earlier does no harm
        self.offered: dict[int, range] = router.spoken(setup.compat)  # versions by API key
        self._routes = router.routes(self.offered)
        self.ledger = Ledger(catalog_settings(setup.config, (NODE_ID,)), lambda: self._open_log(DIRECTORY))
        self.partitions = Partitions(0, self._partition)
        self.dataplane: DataPlane  # once it is open

    # -- start and stop ------------------------------------------------------------------------------------------------

    def open(self, now_ms: int) -> None:
        """Read what exists, and make what the set-up asks for. The groups are loaded by `load`, step by step."""
        setup, facts = self._setup, self.ledger.catalog.facts
        self.ledger.load()
        # Before a topic of the same name is made: it would begin with the records that a crash has left.
        remove_topics(setup.files, setup.data_dir, self.ledger.catalog.deleted)
        missing = {name: count for name, count in setup.topics.items() if name not in facts}
        if OFFSETS_TOPIC not in facts:
            # How many partitions there are is fixed from now on: the number decides which of them owns a group.
            missing[OFFSETS_TOPIC] = self.config["offsets.topic.num.partitions"]
        elif self.config.is_set("offsets.topic.num.partitions"):
            self._compare(facts[OFFSETS_TOPIC].partitions, self.config["offsets.topic.num.partitions"])
        self.ledger.record(Outcome(records=tuple(self._topic(*topic, now_ms) for topic in missing.items())), now_ms)
        self.ledger.flush()
        self.partitions = Partitions(facts[OFFSETS_TOPIC].partitions, self._partition)
        self.dataplane = DataPlane(
            setup.files, setup.data_dir, self.config, self, setup.real_ms, cluster_id=self.cluster_id
        )
        for kind, name in self.ledger.catalog.configs:
            if kind == GROUP:
                self._configure(name)

    @staticmethod
    def _compare(there: int, wanted: int) -> None:
        if there != wanted:
            log.warning(
                "offsets.topic.num.partitions is %d in this data directory and stays so, though %d is set",
                there,
                wanted,
            )

    @property
    def cluster_id(self) -> str:
        """22 characters as Kafka's: this data directory's own, made with it."""
        return base64.urlsafe_b64encode(self.ledger.catalog.facts[OFFSETS_TOPIC].id).decode().rstrip("=")

    def load(self, now_ms: Callable[[], int]) -> Iterator[Loading]:
        """Load all partitions, those with nothing to load first. Turns may come between two steps."""
        for partition in sorted(self.partitions, key=self._is_stored):
            if self._is_stored(partition):
                yield Loading(opens=partition.open)
                for count in loader.replay(partition):
                    yield Loading(records=count)
            self._serve(partition, now_ms())
        self._finish_transactions(now_ms())

    def _is_stored(self, partition: Partition) -> bool:
        """Whether a log of the partition is on the disk, to be opened (which reads all of it) and replayed."""
        return bool(self._setup.files.list(self._directory(OFFSETS_TOPIC, partition.index)))

    def _serve(self, partition: Partition, now_ms: int) -> None:
        """The partition's log has been replayed, if there is one: from now on its groups are served."""
        partition.is_loaded = True
        self._abort_unknown_transactions(partition, now_ms)
        for result in partition.shard.loaded(now_ms, self.ledger.catalog.gone):
            self.take(partition, result, now_ms)
        self._watch(partition)  # offsets expire though nobody ever joins a group

    def _abort_unknown_transactions(self, partition: Partition, now_ms: int) -> None:
        """Abort what is open in a partition's log and in no transaction, because a power cut took its beginning."""
        for producer_id, producer in partition.log.producers.items() if partition.has_log else ():
            name = (OFFSETS_TOPIC, partition.index)
            if producer.first_open_offset is not None and not self.ledger.transactions.is_open(producer_id, name):
                for result in partition.shard.end_transaction(producer_id, committed=False):
                    self.take(partition, result, now_ms)
                partition.mark(producer_id, producer.epoch, committed=False, now_ms=now_ms)
                self._dirty[partition] = None

    def _finish_transactions(self, now_ms: int) -> None:
        """Write the markers that a crash has cut off, and those of ends decided while a partition was loading."""
        self.flush()  # what is only to be settled is not marked twice
        for markers in self.ledger.transactions.unfinished():
            self._mark(markers, now_ms)
        self.flush()

    @property
    def loading(self) -> int:
        """How many partitions of `__consumer_offsets` are still to be loaded."""
        return sum(not partition.is_loaded for partition in self.partitions)

    def close(self) -> None:
        """Append what is left and close the logs. Nobody is thrown out of a group: its members find it at the next
        start."""
        self.flush()
        for partition in self.partitions:
            if partition.has_log:
                partition.log.close()
        self.dataplane.close()
        self.ledger.log.close()

    def _topic(self, name: str, partitions: int, now_ms: int) -> CatalogRecord:
        topic_id = bytes.fromhex(self._setup.fresh_id().replace("-", ""))
        return CatalogRecord(TopicKey(name), TopicValue(topic_id, partitions, 1, now_ms))

    def _partition(self, index: int) -> Partition:
        directory = partition_directory(OFFSETS_TOPIC, index)
        shard = Shard(index, limits(self.config), self.ledger.catalog.topics, self._assignors)
        return Partition(shard, lambda: self._open_log(directory))

    def _open_log(self, directory: str) -> Log:
        return Log.open(self._setup.files, f"{self._setup.data_dir}/{directory}", own_log_config(self.config))

    def _directory(self, topic: str, partition: int) -> str:
        return f"{self._setup.data_dir}/{partition_directory(topic, partition)}"

    def log_bytes(self) -> dict[str, int]:
        """Bytes of all logs by topic."""
        own = sum(partition.log.size for partition in self.partitions if partition.has_log)
        return {OFFSETS_TOPIC: own, CATALOG_TOPIC: self.ledger.log.size, **self.dataplane.log_bytes()}

    def compacted_logs(self) -> Iterator[Log]:
        """The logs of which only the latest record of each key counts."""
        yield self.ledger.log
        for partition in self.partitions:
            if partition.has_log and partition.is_loaded:
                yield partition.log
        yield from self.dataplane.compacted_logs()

    def offsets_log(self, index: int) -> Log | None:
        """The log of a partition of `__consumer_offsets`, None where nothing was ever written."""
        partition = self.partitions[index]
        return partition.log if partition.has_log else None

    # -- a turn --------------------------------------------------------------------------------------------------------

    def handle(self, api_key: int, request: Any, call: Call, where: Where) -> Any:
        """The answer to a request: a message, None while it is parked under `call.ticket`, or NO_ANSWER.

        Raises UnsupportedVersion for what is not offered.
        """
        handler = self._routes.get((api_key, call.version))
        if handler is None:
            raise UnsupportedVersion(api_key, call.version, 0)
        answer = handler(self, request, call, where)
        return self._steps.begin(call.ticket, request, call.version, answer) if is_in_steps(answer) else answer

    @property
    def has_steps(self) -> bool:
        """Whether a request is decided in steps, and there are steps left."""
        return bool(self._steps)

    def step(self) -> None:
        """Do the next step of a request that is decided in steps."""
        ticket, response = self._steps.run(self._step_failed)
        if response is not None:
            self._replies.append((ticket, response))

    @staticmethod
    def _step_failed(unfinished: Unfinished) -> Any:
        log.exception("a request could not be decided", extra={"request": type(unfinished.request).__name__})
        return refused(unfinished.request, unfinished.version, ErrorCode.UNKNOWN_SERVER_ERROR)

    def decide(self, partition: Partition, request: Any, call: Call) -> Any:
        """Let a partition's shard decide. Returns the answer; None when the request is parked."""
        return self.take(partition, partition.shard.handle(request, call), call.now_ms)

    def take(self, partition: Partition, result: Result[Any], now_ms: int) -> Any:
        """Gather what a shard's result leads to, and return its answer."""
        if result.records:
            partition.remember(result, now_ms)
            self._dirty[partition] = None
        for effect in result.effects:
            if type(effect) is Reply:
                self._replies.append((effect.ticket, effect.response))
        for event in result.events:
            self._setup.tell(event)
        if result.effects:
            self._watch(partition)
        return result.response

    def _watch(self, partition: Partition) -> None:
        """Its timers may have changed: look at them not later than they are due."""
        due_ms = partition.shard.timers.look_ms()
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms

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
        return replies + self.dataplane.replies()

    def forget(self, ticket: int) -> None:
        """The client that waited under the ticket has left: a fetch need not wait for it, a group's member must."""
        self.dataplane.forget(ticket)
        self._steps.forget(ticket)

    def held(self, unsent_bytes: int) -> None:
        """So many bytes of answers wait, all together, for clients to take them."""
        self.dataplane.held(unsent_bytes)

    def fire(self, now_ms: int) -> None:
        """Do what is due by now."""
        if self._due_ms is not None and self._due_ms <= now_ms:
            for partition in self.partitions:
                if _is_due(partition.shard.timers.look_ms(), now_ms):
                    for result in partition.shard.fire(now_ms):
                        self.take(partition, result, now_ms)
            looks = [at_ms for p in self.partitions if (at_ms := p.shard.next_deadline_ms()) is not None]
            self._due_ms = min(looks, default=None)
        if _is_due(self.ledger.transactions.next_deadline_ms(), now_ms):
            self.record(timed_out(self.ledger.transactions, now_ms), now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `fire` may have something to do; None for never."""
        others = (self.ledger.transactions.next_deadline_ms(), self.dataplane.next_poll_ms())
        return min((at_ms for at_ms in (self._due_ms, *others) if at_ms is not None), default=None)

    def flush(self) -> None:
        """Append what the turn has led to, once a log, and with --fsync wait for the disk. Raises StorageFailed."""
        written = [self.ledger.log] if self.ledger.flush() else []
        dirty, self._dirty = self._dirty, {}
        for partition in dirty:
            self.dataplane.offsets_appended(partition.index, partition.flush())
            written.append(partition.log)
        written += self.dataplane.written()
        if self._setup.is_synced:
            self._setup.files.together([log.sync for log in written])
        if self.ledger.settle() and self._setup.is_synced:
            self.ledger.log.sync()

    def _record(self, outcome: Outcome, now_ms: int) -> None:
        changes = self.ledger.record(outcome, now_ms)
        if changes:
            self._topics_changed(changes, now_ms)
        for record in outcome.records:
            if isinstance(record.key, ConfigKey) and record.key.resource_type == GROUP:
                self._configure(record.key.resource_name)

    def _configure(self, group_id: str) -> None:
        """Give a group the settings of its own; they count from its next request on."""
        catalog, shard = self.ledger.catalog, self.partitions.owner(group_id).shard
        stored = catalog.configs.get((GROUP, group_id), {})
        own = {group: limits for group, limits in shard.own_limits.items() if group != group_id}
        if stored:
            own[group_id] = group_configs.limits_with(shard.limits, stored, catalog.settings)
        shard.own_limits = own

    def _topics_changed(self, changes: tuple[Change, ...], now_ms: int) -> None:
        topics = self.ledger.catalog.topics
        self.dataplane.topics_changed(changes)
        for partition in self.partitions:
            if not partition.is_loaded:
                partition.shard.topics = topics  # what was committed to a deleted topic goes when all of it is known
                continue
            for result in partition.shard.topics_changed(topics, now_ms):
                self.take(partition, result, now_ms)

    def _mark(self, markers: Markers, now_ms: int) -> None:
        """Write the end of a transaction into its partitions; it is complete when they are in their logs.

        While one of them is loading it stays prepared, and its producer is told to come back (51), as by Kafka: to a
        log that is being opened or replayed nothing may be written. The end of the loading writes the markers.
        """
        if self._setup.is_synced:
            self.ledger.log.sync()  # that it is decided is on the disk before any of its markers
        if any(topic == OFFSETS_TOPIC and not self.partitions[index].is_loaded for topic, index in markers.partitions):
            return
        is_complete = self.dataplane.mark(markers, now_ms)
        for topic, index in markers.partitions:
            if topic == OFFSETS_TOPIC:
                partition = self.partitions[index]
                for result in partition.shard.end_transaction(markers.producer_id, markers.committed):
                    self.take(partition, result, now_ms)
                partition.mark(markers.producer_id, markers.producer_epoch, markers.committed, now_ms)
                self._dirty[partition] = None
        if is_complete:  # else it stays prepared, and the next start writes the markers that are missing
            self.ledger.complete(completed(self.ledger.transactions, markers.transactional_id, now_ms), now_ms)


def _is_due(at_ms: int | None, now_ms: int) -> bool:
    return at_ms is not None and at_ms <= now_ms
