"""The state that the data plane's handlers work on: the catalog, the logs, and the parked fetches."""

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from coordinator.config import Config
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator.core.decision import Outcome, Steps
from coordinator.core.events import Cause
from coordinator.core.limits import Limits
from coordinator.core.quotas.buckets import Buckets
from coordinator.core.quotas.entities import CONSUMER
from coordinator.core.result import Call, Result
from coordinator.core.share_state.persister import Persister
from coordinator.core.topics import NO_ID
from coordinator.core.transactions.transactions import Transactions
from coordinator.dataplane.brokers import Broker, Where, replicas_of
from coordinator.dataplane.long_polls import LongPolls
from coordinator.dataplane.pace import PartitionPace
from coordinator.dataplane.sessions import FetchSessions
from coordinator.dataplane.share.partitions import SharePartitions
from coordinator.dataplane.topic_logs import TopicLogs, TopicPartition
from coordinator.dataplane.traffic import TrafficByTopic
from protocol.errors import ErrorCode
from storage.files import StorageError
from storage.log import Log

log = logging.getLogger("muster.dataplane")

HELD_BYTES_MAX: Final = 64 * 1024 * 1024  # of answers that are not sent yet: beyond it a fetch gets a batch at a time


class LedgerLike(Protocol):
    """The catalog and the transactions, with the log that remembers them."""

    @property
    def catalog(self) -> Catalog: ...
    @property
    def transactions(self) -> Transactions: ...
    @property
    def log(self) -> Log: ...
    def flush(self) -> bool:
        """Append what was recorded and is not in the log yet; whether there was anything."""

    def sync(self) -> None:
        """Return when everything appended is on the disk."""


class EdgeLike(Protocol):
    """Where a failure of our own ends."""

    def attempt(self, kind: str, step: Callable[..., Any], *args: Any) -> Any:
        """Return the result of the step, or the value that stands for its failure."""


class Runtime(Struct, frozen=True):
    """The parts and functions of the runtime that the data plane calls."""

    ledger: LedgerLike
    edge: EdgeLike
    share_states: Persister  # the share coordinator
    stopped_brokers: Collection[int]  # the node ids of the brokers that do not run
    record: Callable[[Result[Any], int], Any]  # makes a result so: its records, then its markers; returns its response
    do_in_steps: Callable[[Generator[None, None, None]], None]  # what nobody waits for, in turn with long requests
    answer_in_steps: Callable[[str, int, Any, int, Steps[Outcome]], None]
    """Answers a parked request in turn with long ones: API, ticket, an empty request and its version, the steps."""
    group_limits: Callable[[str], Limits]  # the settings of a group
    tell_of_records: Callable[[str, Cause, str, str, str, int], None]
    """Tells the timeline of a share group what became of records: group, cause, member, by what, records, time."""
    offsets_log: Callable[[int], Log | None]  # of a partition of `__consumer_offsets`, None where nothing is written
    offsets_leader: Callable[[int], int]  # the broker that leads a partition of `__consumer_offsets`
    share_states_leader: Callable[[int], int]  # the broker that leads a partition of `__share_group_state`
    is_transaction_served: Callable[[str], bool]  # whether a broker coordinates a transactional id, and has loaded it
    mutations: Buckets  # of `controller_mutation_rate`


class Env(Struct, frozen=True, gc=False):
    """The environment of a request to the data plane: its call, where the client has come to, and the brokers that it
    is told of."""

    call: Call
    where: Where
    brokers: Sequence[Broker]  # those that run, at addresses that the client can reach; the first is the controller


class State:
    """One broker's data. `real_ms` is the time by which fetches wait, whatever the coordinator's clock shows."""

    def __init__(
        self, runtime: Runtime, logs: TopicLogs, config: Config, real_ms: Callable[[], int], cluster_id: str
    ) -> None:
        self.runtime = runtime
        self.real_ms = real_ms
        self.cluster_id = cluster_id
        self.catalog = runtime.ledger.catalog
        self.transactions = runtime.ledger.transactions
        self.logs = logs
        self.polls = LongPolls()
        self.share = SharePartitions(config["group.share.max.share.sessions"])
        self.sessions = FetchSessions(config["max.incremental.fetch.session.cache.slots"])
        self.fetch_bytes_max: int = config["fetch.max.bytes"]
        self.traffic = TrafficByTopic()
        self.unsent_bytes = 0  # of answers that clients do not take; the edge tells
        self.given_bytes = 0  # of records in the answers of this turn
        self.read_bytes = 0  # of records that were read for answers which are not whole yet
        self.verifies_transactions: bool = config["transaction.partition.verification.enable"]

    @property
    def fetch_room(self) -> int:
        """The most bytes of records that an answer may hold now: a client that does not read must not make us keep a
        log."""
        held_bytes = self.unsent_bytes + self.given_bytes + self.read_bytes
        return max(min(self.fetch_bytes_max, HELD_BYTES_MAX - held_bytes), 0)

    def find_bytes_max(self, call: Call) -> int:
        """Return the most bytes of records that an answer to this client may hold, whatever else is held.

        More than its quota allows at once would take it beyond its quota each time that it asks: it would get none.
        """
        most = self.catalog.quotas.find_most_at_once(CONSUMER, call.principal.name, call.client_id or "")
        return int(min(self.fetch_bytes_max, most))

    def open_in_steps(self, partitions: Iterable[TopicPartition]) -> Generator[None, None, None]:
        """Open the logs of these partitions, those that can be, so that a step that follows need not."""
        pace = PartitionPace(self.logs)
        for topic, index in partitions:
            if pace.count_partition():
                yield
            yield from self.open_log_in_steps(topic, index)

    def open_log_in_steps(self, topic: str, partition: int) -> Generator[None, None, None]:
        """Open the log of a partition that can be, so that a `try_open` that follows at once need not."""
        if self.logs.find_open((topic, partition)) is None and topic != OFFSETS_TOPIC and self.has(topic, partition):
            yield from self.logs.try_open_in_steps(topic, partition)

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the topic of that id, None if there is none."""
        topic = self.catalog.topics.by_id(topic_id) if topic_id != NO_ID else None
        return None if topic is None else topic.name

    def has(self, topic: str, partition: int) -> bool:
        """Return whether there is such a partition."""
        fact = self.catalog.topics_by_name.get(topic)
        return fact is not None and 0 <= partition < fact.partitions

    def try_open(self, topic: str, partition: int) -> ErrorCode:
        """Open the log of a partition, if it is closed. Return NONE, or why nothing can be read from it nor written."""
        if not self.has(topic, partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        is_open = topic == OFFSETS_TOPIC or self.logs.try_open(topic, partition)
        return ErrorCode.NONE if is_open else ErrorCode.KAFKA_STORAGE_ERROR

    def log(self, topic: str, partition: int) -> Log | None:
        """Return the log of a partition that exists; None for one of the coordinator's that holds nothing yet."""
        if topic == OFFSETS_TOPIC:
            return self.runtime.offsets_log(partition)
        return self.logs.log(topic, partition)

    def close_failed_partition(self, topic: str, partition: int, failure: StorageError) -> ErrorCode:
        """Close a partition that the disk has failed, and return the error for the client.

        A failed read of `__consumer_offsets` concerns the reader only: what the coordinator knows is in memory.
        """
        if topic == OFFSETS_TOPIC:
            log.warning("a fetch of %s-%d failed: %s", topic, partition, failure)
        else:
            self.logs.close_failed_partition((topic, partition), failure)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def replicas(self, topic: str, partition: int, copies: int, where: Where) -> tuple[int, ...]:
        """Return the node ids of a partition's replicas, the leader first. The coordinator of its groups leads one of
        `__consumer_offsets`, that of its states one of `__share_group_state`."""
        found = replicas_of(partition, copies, where.brokers, self.runtime.stopped_brokers)
        if topic not in (OFFSETS_TOPIC, SHARE_STATE_TOPIC) or len(where.brokers) == 1:
            return found
        find_leader = self.runtime.offsets_leader if topic == OFFSETS_TOPIC else self.runtime.share_states_leader
        leader = find_leader(partition)
        return (leader, *[node_id for node_id in found if node_id != leader])[: len(found)]

    def announce(self, result: Result[Any], now_ms: int) -> Any:
        """Make a result so, and have it in the log before the data that rests on it."""
        answer = self.runtime.record(result, now_ms)
        self.runtime.ledger.flush()
        return answer
