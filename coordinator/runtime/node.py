"""A broker's life: it opens its logs, loads the groups from them, decides requests by its engine, and closes."""

import base64
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from coordinator.config import Config, limits
from coordinator.control.inputs import Kind
from coordinator.core.acls.authorizer import Authorizer
from coordinator.core.acls.rules import AclRules
from coordinator.core.catalog.catalog import GROUP
from coordinator.core.catalog.names import CATALOG_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator.core.catalog.records import CatalogRecord, TopicKey, TopicValue
from coordinator.core.decision import Decision, Done, InSteps, Outcome, Steps
from coordinator.core.events import Event
from coordinator.core.offsets.commit_history import CommitHistory
from coordinator.core.result import Call, Result
from coordinator.core.shard import Shard
from coordinator.core.transactions.expiry import forget_unused_ids
from coordinator.dataplane.brokers import Where
from coordinator.dataplane.dataplane import DataPlane
from coordinator.dataplane.settings import catalog_settings, own_log_config
from coordinator.dataplane.topic_logs import remove_topics
from coordinator.runtime import assignors, loader, router
from coordinator.runtime.coordinators import Coordinators
from coordinator.runtime.damage import MISSING
from coordinator.runtime.edge import Failure
from coordinator.runtime.engine import Engine, failure_outcome, marker
from coordinator.runtime.error_response import error_response, groups_full_response, unserved_response
from coordinator.runtime.failover import Failover
from coordinator.runtime.ledger import DIRECTORY, Ledger
from coordinator.runtime.partition import Partition
from coordinator.runtime.partitions import Partitions
from coordinator.runtime.steps import Checkpoints, StepMeter
from protocol.errors import ErrorCode, UnsupportedVersion
from storage.files import Files, Waker
from storage.layout import DamagedLog
from storage.log import Log
from storage.names import partition_directory

if TYPE_CHECKING:
    from coordinator.runtime.janitor import Janitor

log = logging.getLogger("muster.node")

__all__ = ["Loading", "Node", "Setup", "Where"]


class Setup(Struct, frozen=True):
    """The parts of a node."""

    config: Config
    files: Files
    data_dir: str
    fresh_id: Callable[[], str]
    real_ms: Callable[[], int]  # the time by which fetches wait, whatever the coordinator's clock shows
    tell: Callable[[Event], None]  # what happened to a group
    compat: str = "4.3"  # whose versions of the APIs are offered: one of router.COMPAT
    is_synced: bool = False  # whether an answer waits for the disk (--fsync)
    waker: Waker | None = None  # told when a sync has ended
    meter: StepMeter = Checkpoints()  # says when a step of a long request is over
    real_s: Callable[[], float] = monotonic  # real time to the microsecond, for the time between two syncs
    topics: Mapping[str, int] = {}  # to be created at start if they are not there: name -> partitions
    cluster_id: str = ""  # of a directory without logs, "" for a new one


class Loading(Struct, frozen=True):
    """A step of the start: so many records were read, or a log is opened next.

    To open a log is to read all of it. Who serves others meanwhile calls `opens` on a thread of its own before it asks
    for the next step; where nobody does, the next step does it.
    """

    records: int = 0
    opens: Callable[[], None] | None = None


class Node(Engine):
    """One broker: an engine that starts and stops."""

    def __init__(self, setup: Setup) -> None:
        settings = catalog_settings(setup.config, setup.config.node_ids)
        ledger = Ledger(settings, lambda: self._open_log(DIRECTORY))
        super().__init__(
            setup.config,
            setup.files,
            ledger,
            setup.tell,
            is_synced=setup.is_synced,
            waker=setup.waker,
            real_s=setup.real_s,
            meter=setup.meter,
        )
        self.failover = Failover(self)
        self.janitor: Janitor | None = None  # once somebody drives one
        self._setup = setup
        self.began_empty = False  # whether there were no logs to begin with, once it is open
        self._assignors = assignors.load_assignors(setup.config["group.consumer.assignors"])
        self.offered = router.supported_versions(setup.compat)
        self.authorizer = _find_authorizer(setup.config, ledger.catalog.acls)
        self.real_ms = self._real_ms
        self.fresh_topic_id = lambda: bytes.fromhex(setup.fresh_id().replace("-", ""))
        self._routes = router.routes(
            self.offered, self.authorizer, setup.config["group.coordinator.rebalance.protocols"]
        )

    def handle(self, api_key: int, request: Any, call: Call, where: Where) -> Outcome:
        """Decide a request, or do the first step of it.

        Raises UnsupportedVersion for what is not offered, UnreadableValue, and nothing else.
        """
        route = self._routes.get((api_key, call.version))
        if route is None:
            raise UnsupportedVersion(api_key, call.version, 0)
        decision: Decision | Failure = self.edge.decide(route.api, route.handle, self, request, call, where)
        if type(decision) is Done:  # nearly always
            return decision
        if isinstance(decision, InSteps):
            return self.begin_steps(call.ticket, request, call.version, decision.steps)
        return failure_outcome(request, call.version, decision.code) if isinstance(decision, Failure) else decision

    # -- start and stop ------------------------------------------------------------------------------------------------

    def open(self, now_ms: int) -> None:
        """Read what exists, and make what the set-up asks for. The groups are loaded by `load`, step by step."""
        setup, topics = self._setup, self.ledger.catalog.topics_by_name
        self.ledger.load()
        # Before a topic of the same name is made: it would begin with the records that a crash has left.
        remove_topics(setup.files, setup.data_dir, self.ledger.catalog.deleted_topics)
        missing = {name: count for name, count in setup.topics.items() if name not in topics}
        self.began_empty = OFFSETS_TOPIC not in topics
        if OFFSETS_TOPIC not in topics:
            # How many partitions there are is fixed from now on: the number decides which of them owns a group.
            missing[OFFSETS_TOPIC] = self.config["offsets.topic.num.partitions"]
        elif self.config.is_set("offsets.topic.num.partitions"):
            self._compare(topics[OFFSETS_TOPIC].partitions, self.config["offsets.topic.num.partitions"])
        self.ledger.record(Result(records=tuple(self._topic(*topic, now_ms) for topic in missing.items())), now_ms)
        self.ledger.flush()
        self.partitions = Partitions(
            topics[OFFSETS_TOPIC].partitions, self._partition, self.config["group.owners.max.bytes"]
        )
        self.coordinators = Coordinators(self.config.node_ids, len(self.partitions))
        if not self.coordinators.is_alone:
            for partition in self.partitions:
                partition.history = CommitHistory()
        self.dataplane = DataPlane(
            setup.files, setup.data_dir, self.config, self, self._real_ms, cluster_id=self.cluster_id
        )
        for kind, name in self.ledger.catalog.configs:
            if kind == GROUP:
                self._configure(name)
        self._compare_logs(now_ms)
        self.share_states.open()

    @staticmethod
    def _compare(there: int, wanted: int) -> None:
        if there != wanted:
            log.warning(
                "offsets.topic.num.partitions is %d in this data directory and stays so, though %d is set",
                there,
                wanted,
            )

    def _compare_logs(self, now_ms: int) -> None:
        """Find out which logs are gone with their directories, and note those of which the catalog does not know.

        Raises `DamagedLog` for one of groups; a partition of another topic is closed.
        """
        catalog = self.ledger.catalog
        stored = set(self.dataplane.stored_partitions())
        for topic, index in catalog.missing_logs(stored):
            missing = DamagedLog(self._directory(topic, index), 0, MISSING)
            if topic in (OFFSETS_TOPIC, SHARE_STATE_TOPIC):
                raise missing
            self.dataplane.close_missing(topic, index, missing)
        known = [(topic, index) for topic, index in sorted(stored) if index < catalog.partitions_of(topic)]
        self.ledger.record(Result(records=catalog.logs_of(known)), now_ms)
        self.ledger.flush()

    @property
    def cluster_id(self) -> str:
        """22 characters as Kafka's: this data directory's own, made with it."""
        return base64.urlsafe_b64encode(self.ledger.catalog.topics_by_name[OFFSETS_TOPIC].id).decode().rstrip("=")

    def load(self, now_ms: Callable[[], int]) -> Iterator[Loading]:
        """Load all partitions, those with nothing to load first. Turns may come between two steps."""
        began_ms = now_ms()
        if self.note_input is not None:
            self.note_input(Kind.LOAD, began_ms)
        for partition in sorted(self.partitions, key=self._is_stored):
            if self._is_stored(partition):
                yield Loading(opens=partition.open)
                for count in loader.replay(partition):
                    yield Loading(records=count)
            self.serve(partition, now_ms() if partition.has_log else began_ms)
        for count in self.share_states.load(now_ms):
            yield Loading(records=count)
        self.finish_transactions(began_ms if self.began_empty else now_ms())

    def _real_ms(self) -> int:
        now_ms = self._setup.real_ms()
        if self.note_input is not None:
            self.note_input(Kind.REAL, now_ms)
        return now_ms

    def _is_stored(self, partition: Partition) -> bool:
        """Return whether a log of the partition is on the disk, to be opened (which reads all of it) and replayed."""
        return bool(self._setup.files.list(self._directory(OFFSETS_TOPIC, partition.index)))

    def serve(self, partition: Partition, now_ms: int) -> None:
        """The partition's log has been replayed, if there is one: from now on its groups are served."""
        partition.served_by = self.coordinators.of_groups[partition.index]
        self._abort_unknown_transactions(partition, now_ms)
        self._take_all(partition, partition.shard.finish_loading(now_ms, self.ledger.catalog.gone))

    def _abort_unknown_transactions(self, partition: Partition, now_ms: int) -> None:
        """Abort what is open in a partition's log and in no transaction, because a power cut took its beginning."""
        for producer_id, producer in partition.log.producers.items() if partition.has_log else ():
            name = (OFFSETS_TOPIC, partition.index)
            if producer.first_open_offset is not None and not self.ledger.transactions.is_open(producer_id, name):
                self.write_marker(partition, producer_id, False, marker(producer_id, producer.epoch, False, now_ms))

    @property
    def has_prepared_transactions(self) -> bool:
        """Whether the end of a transaction was decided, and its markers are not written."""
        return bool(self.ledger.transactions.find_prepared_transactions())

    def finish_transactions(self, now_ms: int) -> None:
        """Write the markers that a crash or a failed write has cut off, or that were decided during the loading.

        While a partition is closed its transactions stay prepared: the next start finishes them.
        """
        self.append()  # what is only to be settled is not marked twice
        for markers in self.ledger.transactions.find_prepared_transactions():
            if markers.transactional_id in self.ending:
                continue
            if self.dataplane.closed_partitions.keys().isdisjoint(markers.partitions):
                self.edge.attempt("transaction", self.record, Result(effects=(markers,)), now_ms)
        self.append()

    def forget_transactional_ids(self, now_ms: int) -> None:
        """Forget those that nobody has used for long (`transactional.id.expiration.ms`)."""
        self.do_in_steps(self._forget_transactional_ids(now_ms))
        self.flush()

    def _forget_transactional_ids(self, now_ms: int) -> Steps[None]:
        for result in forget_unused_ids(self.ledger.transactions, now_ms):
            self.record(result, now_ms)
            yield

    def prune_share_states(self, now_ms: int) -> None:
        """Delete the records of `__share_group_state` that no share partition needs any more."""
        self.do_in_steps(self.share_states.prune(now_ms))
        self.flush()

    def close(self) -> None:
        """Append what is left and close the logs. Nobody is thrown out of a group: its members find it at the next
        start."""
        self.flush()
        self.append()
        for partition in self.partitions:
            if partition.has_log:
                partition.log.close()
        self.dataplane.close()
        self.ledger.log.close()

    def abandon(self) -> None:
        """Let go of all logs, for their files are about to be removed. Nothing is decided or written any more."""
        self._routes = {}
        for partition in self.partitions:
            if partition.has_log:
                partition.log.abandon()
        self.dataplane.abandon()
        self.ledger.log.abandon()

    def _topic(self, name: str, partitions: int, now_ms: int) -> CatalogRecord:
        topic_id = self.fresh_topic_id()
        if name == OFFSETS_TOPIC and self._setup.cluster_id:
            topic_id = base64.urlsafe_b64decode(self._setup.cluster_id + "==")
        return CatalogRecord(TopicKey(name), TopicValue(topic_id, partitions, 1, now_ms))

    def _partition(self, index: int) -> Partition:
        directory = partition_directory(OFFSETS_TOPIC, index)
        return Partition(
            self._shard(index),
            lambda: self._open_log(directory),
            lambda: self.ledger.catalog.governing(OFFSETS_TOPIC).max_message_bytes,
        )

    def _shard(self, index: int) -> Shard:
        shard = Shard(index, limits(self.config), self.ledger.catalog.topics, self._assignors)
        shard.attempt = self._attempt
        shard.timers.wake = self.wake_at
        shard.refuse_group = self.refuse_group
        shard.shortage = self.shortage
        shard.refuse_members = partial(groups_full_response, setting="group.members.max.bytes")
        shard.refuse_offsets = partial(error_response, code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)  # raised by clients
        shard.refuse_records = partial(unserved_response, code=ErrorCode.UNKNOWN_SERVER_ERROR)
        shard.hold = self.hold_members
        shard.offsets.hold = self.hold_offsets
        return shard

    def unload(self, partition: Partition, now_ms: int, reason: str) -> None:
        """Append what the partition's coordinator has decided, answer who waits for it, and forget all else."""
        old, new = partition.shard, self._shard(partition.index)
        if partition.is_loaded:
            self._take_all(partition, old.unload(now_ms, reason))
            if size := partition.flush():
                self.dataplane.wake_fetches_of_offsets(partition.index, size)
        self.hold_members(-old.members_bytes)
        self.hold_offsets(-old.offsets.bytes)
        new.own_limits, new.tally = old.own_limits, old.tally  # settings, and counters of the process
        partition.unload(new)

    def _open_log(self, directory: str) -> Log:
        return Log.open(self._setup.files, f"{self._setup.data_dir}/{directory}", own_log_config(self.config))

    def _directory(self, topic: str, partition: int) -> str:
        return f"{self._setup.data_dir}/{partition_directory(topic, partition)}"

    def log_bytes(self) -> dict[str, int]:
        """Return bytes of all logs by topic."""
        own = sum(partition.log.size for partition in self.partitions if partition.has_log)
        return {OFFSETS_TOPIC: own, CATALOG_TOPIC: self.ledger.log.size, **self.dataplane.log_bytes()}

    def compacted_logs(self) -> Iterator[Log]:
        """Yield the logs of which only the latest record of each key counts."""
        yield self.ledger.log
        for partition in self.partitions:
            if partition.has_log and partition.is_loaded:
                yield partition.log
        yield from self.dataplane.compacted_logs()


def _find_authorizer(config: Config, rules: AclRules) -> Authorizer | None:
    """Return the authorizer that the settings ask for, None if everything is allowed."""
    if not config["authorizer.class.name"]:
        return None
    from coordinator.runtime.security import make_authorizer

    return make_authorizer(config, rules)
