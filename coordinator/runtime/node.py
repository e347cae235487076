"""A broker's life: it opens its logs, loads the groups from them, decides requests by its engine, and closes."""

import base64
import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from time import monotonic
from typing import Protocol

from msgspec import Struct

from coordinator.config import Config
from coordinator.control.inputs import Kind, VerbInput
from coordinator.core.acls.authorizer import Authorizer
from coordinator.core.acls.rules import AclRules
from coordinator.core.catalog.catalog import GROUP
from coordinator.core.catalog.names import CATALOG_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator.core.catalog.records import CatalogRecord, TopicValue
from coordinator.core.decision import Steps
from coordinator.core.events import Event
from coordinator.core.moves import BrokerVerb
from coordinator.core.offsets.commit_history import CommitHistory
from coordinator.core.result import Call, Result
from coordinator.core.share_partitions.operate import ChangeRecords
from coordinator.core.transactions.expiry import forget_unused_ids
from coordinator.core.verbs import Verb, VerbResponse
from coordinator.dataplane.brokers import Where
from coordinator.dataplane.dataplane import DataPlane
from coordinator.dataplane.settings import catalog_settings, own_log_config
from coordinator.dataplane.state import Runtime
from coordinator.dataplane.topic_logs import remove_topics
from coordinator.runtime import assignors, loader, router
from coordinator.runtime.coordinators import Coordinators
from coordinator.runtime.damage import MISSING
from coordinator.runtime.edge import Failure
from coordinator.runtime.effects import EFFECTS
from coordinator.runtime.engine import Engine
from coordinator.runtime.failover import Failover
from coordinator.runtime.ledger import DIRECTORY, Ledger
from coordinator.runtime.own_topics import add_missing_settings, make_topic
from coordinator.runtime.partition import Partition
from coordinator.runtime.partitions import Partitions
from coordinator.runtime.shards import Shards
from coordinator.runtime.steps import Checkpoints, StepMeter
from coordinator.runtime.world import World
from storage.files import Files, StorageError, Waker
from storage.layout import DamagedLog
from storage.log import Log
from storage.names import partition_directory

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

    To open a log is to read all of it. A caller that serves others meanwhile calls `opens` on a thread of its own
    before it asks for the next step; where nobody does, the next step does it."""

    records: int = 0
    opens: Callable[[], None] | None = None


class Upkeep(Protocol):
    """The part of the janitor (`janitor.py`) that a move of the clock calls."""

    def begin_move(self) -> None:
        """Note that the clock is about to be moved."""

    def catch_up(self, now_ms: int) -> Generator[Callable[[], None] | None, None, list[tuple[str, str]]]:
        """Do what is due by now, in steps of which some wait for the disk. Returns what was done in the move."""

    def deadlines(self) -> Iterator[tuple[str, int]]:
        """Yield what is done at a time of the clock, and when next."""


class Node:
    """One broker: an engine, with what starts and stops it and moves its coordinators."""

    def __init__(self, setup: Setup) -> None:
        config = setup.config
        ledger = Ledger(catalog_settings(config, config.node_ids), lambda: self._open_log(DIRECTORY))
        self.has_read_catalog = False  # ahead of `open`
        offered = router.supported_versions(setup.compat)
        authorizer = _find_authorizer(config, ledger.catalog.acls)
        self.world = World(config, ledger, is_synced=setup.is_synced)
        self.engine = Engine(
            self.world,
            setup.files,
            setup.tell,
            routes=router.routes(offered, authorizer, config["group.coordinator.rebalance.protocols"]),
            effects=EFFECTS,
            offered=offered,
            authorizer=authorizer,
            real_ms=setup.real_ms,
            fresh_id=setup.fresh_id,
            waker=setup.waker,
            real_s=setup.real_s,
            meter=setup.meter,
        )
        self.shards = Shards(self.engine, assignors.load_assignors(config["group.consumer.assignors"]))
        self.failover = Failover(self.engine, self.shards)
        self.upkeep: Upkeep | None = None  # once somebody drives it
        self.began_empty = False  # whether there were no logs to begin with, once it is open
        self._setup = setup

    def set_upkeep(self, upkeep: Upkeep) -> None:
        """Know who tends the logs: somebody does from now on."""
        self.upkeep = upkeep

    def command(
        self, verb: Verb | ChangeRecords | BrokerVerb, now_ms: int, fresh_id: Callable[[], str]
    ) -> VerbResponse | Failure:
        """Do what an operator asks of a group, its records or a broker."""
        if not isinstance(verb, BrokerVerb):
            return self.engine.command(verb, now_ms, fresh_id)
        if self.world.note_input is not None:
            self.world.note_input(Kind.VERB, VerbInput.of(verb, now_ms))
        return self.world.edge.attempt("operator", self.failover.perform, verb, Call(0, now_ms, 0, None, "", fresh_id))

    # -- start and stop ------------------------------------------------------------------------------------------------

    def read_catalog(self, data_dir: str) -> None:
        """Read the catalog ahead of `open`, from a directory that has become that of the node by then.

        For a thread, beside another node: nothing else of the node is looked at. Raises StorageError, `DamagedLog`.
        """
        setup = self._setup
        log = Log.open(setup.files, f"{data_dir}/{DIRECTORY}", own_log_config(setup.config))
        try:
            self.world.ledger.load(log)
        except (StorageError, DamagedLog):
            log.release()
            raise
        self.has_read_catalog = True

    def open(self, now_ms: int, producer_ids: int = 0) -> None:
        """Read what exists, and make what the set-up asks for. The groups are loaded by `load`, step by step.

        So many producer ids were given out before: those whom they were given to may still be there.
        """
        setup, world, topics = self._setup, self.world, self.world.ledger.catalog.topics_by_name
        config = setup.config
        if self.has_read_catalog:
            self.world.ledger.log.relocate(f"{setup.data_dir}/{DIRECTORY}")
        else:
            self.world.ledger.load()
        # Before a topic of the same name is made: it would begin with the records that a crash has left.
        catalog = self.world.ledger.catalog
        catalog.unremoved |= remove_topics(setup.files, setup.data_dir, catalog.deleted_topics)
        known = topics.keys() | catalog.unremoved
        missing = {name: count for name, count in setup.topics.items() if name not in known}
        self.began_empty = OFFSETS_TOPIC not in topics
        if OFFSETS_TOPIC not in topics:
            # How many partitions there are is fixed from now on: the number decides which of them owns a group.
            missing[OFFSETS_TOPIC] = self.world.config["offsets.topic.num.partitions"]
        elif self.world.config.is_set("offsets.topic.num.partitions"):
            self._compare(topics[OFFSETS_TOPIC].partitions, self.world.config["offsets.topic.num.partitions"])
        for name, count in missing.items():
            self.world.ledger.record(Result(records=self._topic(name, count, now_ms)), now_ms)
        self.world.ledger.record(Result(records=add_missing_settings(catalog, config)), now_ms)
        self.world.ledger.record(Result(records=self.world.ledger.transactions.keep_producer_ids(producer_ids)), now_ms)
        self.world.ledger.flush()
        count = topics[OFFSETS_TOPIC].partitions
        partitions = Partitions(count, self._partition, config["group.owners.max.bytes"])
        coordinators = Coordinators(config.node_ids, count)
        self.world.open(partitions, coordinators, self._make_dataplane(partitions, coordinators))
        if not coordinators.is_alone:
            for partition in partitions:
                partition.history = CommitHistory()
        for kind, name in world.ledger.catalog.configs:
            if kind == GROUP:
                self.engine.recorder.configure_group(name)
        share_states = self.engine.share_states
        share_states.adopt_topic(now_ms)
        self._compare_logs(now_ms)
        share_states.open()

    def _make_dataplane(self, partitions: Partitions, coordinators: Coordinators) -> DataPlane:
        setup, engine = self._setup, self.engine
        runtime = Runtime(
            ledger=self.world.ledger,
            edge=self.world.edge,
            share_states=engine.share_states,
            stopped_brokers=coordinators.stopped,
            record=engine.record,
            do_in_steps=engine.do_in_steps,
            answer_in_steps=engine.long_requests.answer,
            group_limits=partitions.limits_of,
            tell_of_records=engine.tell_of_records,
            offsets_log=partitions.find_log,
            offsets_leader=coordinators.find_groups_leader,
            share_states_leader=coordinators.find_states_leader,
            is_transaction_served=coordinators.is_transaction_served,
            mutations=engine.mutations,
        )
        return DataPlane(setup.files, setup.data_dir, setup.config, runtime, engine.real_ms, cluster_id=self.cluster_id)

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
        catalog = self.world.ledger.catalog
        stored = set(self.world.dataplane.stored_partitions())
        for topic, index in catalog.missing_logs(stored):
            missing = DamagedLog(self._directory(topic, index), 0, MISSING)
            if topic in (OFFSETS_TOPIC, SHARE_STATE_TOPIC):
                raise missing
            self.world.dataplane.close_missing(topic, index, missing)
        known = [(topic, index) for topic, index in sorted(stored) if index < catalog.partitions_of(topic)]
        self.world.ledger.record(Result(records=catalog.logs_of(known)), now_ms)
        self.world.ledger.flush()

    @property
    def cluster_id(self) -> str:
        """22 characters as Kafka's: this data directory's own, made with it."""
        return base64.urlsafe_b64encode(self.world.ledger.catalog.topics_by_name[OFFSETS_TOPIC].id).decode().rstrip("=")

    def load(self, now_ms: Callable[[], int]) -> Iterator[Loading]:
        """Load all partitions, those with nothing to load first. Turns may come between two steps."""
        began_ms = now_ms()
        if self.world.note_input is not None:
            self.world.note_input(Kind.LOAD, began_ms)
        for partition in sorted(self.world.partitions, key=self._is_stored):
            if self._is_stored(partition):
                yield Loading(opens=partition.open)
                for count in loader.replay(partition):
                    yield Loading(records=count)
            self.shards.serve(partition, now_ms() if partition.has_log else began_ms)
        for count in self.engine.share_states.load(now_ms):
            yield Loading(records=count)
        self.engine.recorder.finish_transactions(began_ms if self.began_empty else now_ms())

    def _is_stored(self, partition: Partition) -> bool:
        """Return whether a log of the partition is on the disk, to be opened (which reads all of it) and replayed."""
        return bool(self._setup.files.list(self._directory(OFFSETS_TOPIC, partition.index)))

    def forget_transactional_ids(self, now_ms: int) -> None:
        """Forget those that nobody has used for long (`transactional.id.expiration.ms`)."""
        self.engine.do_in_steps(self._forget_transactional_ids(now_ms))
        self.engine.flush()

    def _forget_transactional_ids(self, now_ms: int) -> Steps[None]:
        for result in forget_unused_ids(self.world.ledger.transactions, now_ms):
            self.engine.record(result, now_ms)
            yield

    def prune_share_states(self, now_ms: int) -> None:
        """Delete the records of `__share_group_state` that no share partition needs any more."""
        self.engine.do_in_steps(self.engine.share_states.prune(now_ms))
        self.engine.flush()

    def close(self) -> None:
        """Append what is left and close the logs. Nobody is thrown out of a group: its members find it at the next
        start."""
        self.engine.flush()
        self.engine.append()
        for partition in self.world.partitions:
            if partition.has_log:
                partition.log.close()
        self.world.dataplane.close()
        self.world.ledger.log.close()

    def abandon(self) -> None:
        """Let go of all logs, for their files are about to be removed. Nothing is decided or written any more."""
        self.engine.stop()
        for partition in self.world.partitions:
            if partition.has_log:
                partition.log.abandon()
        self.world.dataplane.abandon()
        self.world.ledger.log.abandon()

    def _topic(self, name: str, partitions: int, now_ms: int) -> tuple[CatalogRecord, ...]:
        topic_id = self.engine.fresh_topic_id()
        if name == OFFSETS_TOPIC and self._setup.cluster_id:
            topic_id = base64.urlsafe_b64decode(self._setup.cluster_id + "==")
        return make_topic(name, TopicValue(topic_id, partitions, 1, now_ms), self.world.config)

    def _partition(self, index: int) -> Partition:
        directory = partition_directory(OFFSETS_TOPIC, index)
        return Partition(
            partial(self.shards.make, index),
            lambda: self._open_log(directory),
            lambda: self.world.ledger.catalog.settings_of(OFFSETS_TOPIC),
        )

    def _open_log(self, directory: str) -> Log:
        return Log.open(self._setup.files, f"{self._setup.data_dir}/{directory}", own_log_config(self.world.config))

    def _directory(self, topic: str, partition: int) -> str:
        return f"{self._setup.data_dir}/{partition_directory(topic, partition)}"

    def log_bytes(self) -> dict[str, int]:
        """Return bytes of all logs by topic."""
        own = sum(partition.log.size for partition in self.world.partitions if partition.has_log)
        return {OFFSETS_TOPIC: own, CATALOG_TOPIC: self.world.ledger.log.size, **self.world.dataplane.log_bytes()}

    def compacted_logs(self) -> Iterator[Log]:
        """Yield the logs of which only the latest record of each key counts."""
        yield self.world.ledger.log
        for partition in self.world.partitions:
            if partition.has_log and partition.is_loaded:
                partition.configure()
                yield partition.log
        yield from self.world.dataplane.compacted_logs()


def _find_authorizer(config: Config, rules: AclRules) -> Authorizer | None:
    """Return the authorizer that the settings ask for, None if everything is allowed."""
    if not config["authorizer.class.name"]:
        return None
    from coordinator.runtime.security import make_authorizer

    return make_authorizer(config, rules)
