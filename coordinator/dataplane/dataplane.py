"""Enough of a broker that no client notices: topics, records, transactions. The runtime's one door to it.

In a turn the runtime calls `handle` for each request, `replies` for the fetches that got what they waited for or waited
long enough, and at its end `written` for the logs that are to be synced. Records of topics are appended as they are
decided, so that what a turn produces the same turn can fetch; the answers leave when the turn has ended. The end of a
transaction goes

    prepared, in the ledger ──► markers, here and in the coordinator's logs ──► flush of all ──► complete, in the ledger

so a crash at any point leaves either no decision, or one that is carried out at the next start.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from coordinator.config import Config
from coordinator.core.catalog.catalog import Change
from coordinator.core.catalog.create_topics import auto_create
from coordinator.core.catalog.handlers import HANDLERS as CATALOG_HANDLERS
from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.catalog.outcome import COORDINATOR_EPOCH, Markers, Outcome
from coordinator.core.result import Call
from coordinator.core.transactions.add_partitions_to_txn import add_partitions_to_txn
from coordinator.core.transactions.handlers import HANDLERS as TRANSACTION_HANDLERS
from coordinator.dataplane.brokers import Broker
from coordinator.dataplane.delete_records import delete_records
from coordinator.dataplane.describe_cluster import describe_cluster
from coordinator.dataplane.describe_producers import describe_producers
from coordinator.dataplane.describe_topic_partitions import describe_topic_partitions
from coordinator.dataplane.fetch import fetch, overdue, woken
from coordinator.dataplane.list_offsets import list_offsets
from coordinator.dataplane.metadata import metadata, missing
from coordinator.dataplane.offset_for_leader_epoch import offset_for_leader_epoch
from coordinator.dataplane.produce import NO_ANSWER, produce
from coordinator.dataplane.state import Runtime, State
from coordinator.dataplane.topic_logs import TopicLogs, TopicPartition
from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from protocol.messages.produce import ProduceRequest
from protocol.records import EndMarker
from storage.files import Files, StorageFailed
from storage.log import Log

__all__ = ["NO_ANSWER", "DataPlane"]

PRODUCER_EXPIRATION_MS: Final = 86_400_000  # producer.id.expiration.ms: how long an idle producer's sequence is known


class DataPlane:
    """Topics' records, and every request about topics, records and transactions.

    `real_ms` is the time by which fetches wait; the coordinator's own, which a test may stop, comes with each call.
    """

    def __init__(
        self, files: Files, data_dir: str, config: Config, runtime: Runtime, real_ms: Callable[[], int], cluster_id: str
    ) -> None:
        logs = TopicLogs(files, data_dir, runtime.ledger.catalog.governing, self._opened)
        self._state = State(runtime, logs, config)
        self._runtime = runtime
        self._real_ms = real_ms
        self._cluster_id = cluster_id
        self._now_ms = 0  # of the latest call: when a log that is opened has to be mended

    # -- a turn --------------------------------------------------------------------------------------------------------

    def handle(self, request: Any, call: Call, brokers: Sequence[Broker]) -> Any:
        """The answer; None while a fetch waits under `call.ticket`; NO_ANSWER to a producer that wants none.

        `brokers` are those that the asking client is told of, at addresses that it can reach; the first leads.
        """
        self._now_ms = call.now_ms
        kind = type(request)
        if (plain := _PLAIN.get(kind)) is not None:
            return plain(self._state, request, call)
        if kind is FetchRequest:
            return fetch(self._state, request, call, self._real_ms())
        if kind is MetadataRequest:
            return self._metadata(request, call, brokers)
        if kind is DescribeClusterRequest:
            return describe_cluster(request, brokers, self._cluster_id)
        if kind is DescribeTopicPartitionsRequest:
            return describe_topic_partitions(request, self._state.catalog, brokers)
        answer = self._runtime.record(self._decided(request, call), call.now_ms)
        if kind in _SETTING:
            self._state.logs.reconfigure()
        return answer

    def _decided(self, request: Any, call: Call) -> Outcome:
        state = self._state
        if type(request) is AddPartitionsToTxnRequest:
            return add_partitions_to_txn(state.transactions, state.catalog.topics, request, call)
        if (decide := TRANSACTION_HANDLERS.get(type(request))) is not None:
            return decide(state.transactions, request, call)
        return CATALOG_HANDLERS[type(request)](state.catalog, request, call)

    def _metadata(self, request: MetadataRequest, call: Call, brokers: Sequence[Broker]) -> Any:
        catalog = self._state.catalog
        if names := missing(request, call.version, catalog):
            self._runtime.record(Outcome(records=auto_create(catalog, names, call)), call.now_ms)
        return metadata(request, call.version, catalog, brokers, self._cluster_id)

    def replies(self) -> list[tuple[int, Any]]:
        """The fetches that are answered now, as (ticket, response): those that have enough, or waited long enough."""
        state, polls = self._state, self._state.polls
        found: list[tuple[int, Any]] = []
        for waiting in polls.woken():
            response = woken(state, waiting)
            if response is not None:
                polls.let_go(waiting.ticket)
                found.append((waiting.ticket, response))
        if polls:
            for waiting in polls.overdue(self._real_ms()):
                polls.let_go(waiting.ticket)
                found.append((waiting.ticket, overdue(state, waiting)))
        return found

    def forget(self, ticket: int) -> None:
        """The client that waited under the ticket has left."""
        self._state.polls.let_go(ticket)

    def held(self, unsent_bytes: int) -> None:
        """So many bytes of answers wait, all together, for clients to take them."""
        self._state.unsent_bytes = unsent_bytes

    def next_poll_ms(self) -> int | None:
        """When, in real time, a fetch has waited long enough; None while none waits."""
        return self._state.polls.next_deadline_ms()

    def written(self) -> list[Log]:
        """The turn ends: the logs that it has written to, which are to be synced, if any is."""
        self._state.given_bytes = 0
        return self._state.logs.written()

    # -- what the runtime tells ----------------------------------------------------------------------------------------

    def mark(self, markers: Markers, now_ms: int) -> bool:
        """Write the end of a transaction into its partitions here. Those of the coordinator are the runtime's.

        Return whether every marker is written that can ever be: a topic that is gone needs none, but the marker of a
        partition that is closed is still to come, and the transaction is not complete before it has.
        """
        is_complete = True
        for topic, index in markers.partitions:
            if topic == OFFSETS_TOPIC or not self._state.has(topic, index):
                continue
            try:
                if self._state.logs.is_whole(topic, index):
                    producer = (markers.producer_id, markers.producer_epoch)
                    log = self._state.logs.log(topic, index)
                    self._mark((topic, index), log, *producer, markers.committed, now_ms)
                else:
                    is_complete = False
            except StorageFailed as failure:
                self._state.close_failed(topic, index, failure)
                is_complete = False
        return is_complete

    def topics_changed(self, changes: Iterable[Change]) -> None:
        """Topics came, grew or went: remove the records of those that went."""
        gone = [change for change in changes if change.after is None and change.before is not None]
        if gone:
            # That they are gone is on the disk before any of their files is: else a crash would leave half of them.
            self._runtime.ledger.flush()
            self._runtime.ledger.log.sync()
        for change in gone:
            assert change.before is not None, "what is gone was there"
            self._state.logs.drop(change.name)
            for index in range(change.before.partitions):
                self._state.polls.changed((change.name, index))

    def offsets_appended(self, index: int, size: int) -> None:
        """A partition of `__consumer_offsets`, which clients may fetch as well, has grown by `size` bytes."""
        self._state.polls.appended((OFFSETS_TOPIC, index), size)

    def _mark(
        self, partition: TopicPartition, log: Log, producer_id: int, epoch: int, committed: bool, now_ms: int
    ) -> None:
        marker = EndMarker(commits=committed, coordinator_epoch=COORDINATOR_EPOCH)
        batch = record_batch.encode_marker(marker, now_ms, producer_id=producer_id, producer_epoch=epoch)
        self._state.logs.append(partition, log, batch, now_ms)
        self._state.polls.changed(partition)

    # -- start, upkeep and end -----------------------------------------------------------------------------------------

    def _opened(self, partition: TopicPartition, log: Log) -> None:
        """Abort what is open in a log and in no transaction: its beginning was lost with the power, or is not ours."""
        for producer_id, producer in log.producers.items():
            is_open = producer.first_open_offset is not None
            if is_open and not self._state.transactions.is_open(producer_id, partition):
                self._mark(partition, log, producer_id, producer.epoch, False, self._now_ms)

    def tend(self, now_ms: int) -> Iterator[None]:
        """Delete records past their time or beyond their size, a log at each `next`. For the runtime's janitor.

        A log that nobody has asked for since the start is opened, which reads all of it, only if it has such records.
        """
        state = self._state
        state.logs.purge()
        for topic, index in state.logs.on_disk():
            if topic == OFFSETS_TOPIC or not state.has(topic, index):
                continue
            try:
                is_due = yield from state.logs.is_to_be_tended((topic, index), now_ms)
                if is_due and state.refusal(topic, index) == ErrorCode.NONE:  # it may have gone meanwhile
                    self._cut(topic, state.logs.log(topic, index), now_ms)
                    state.logs.tended((topic, index))
            except StorageFailed as failure:
                if state.has(topic, index):
                    state.close_failed(topic, index, failure)
            yield

    def _cut(self, topic: str, log: Log, now_ms: int) -> None:
        governing = self._state.catalog.governing(topic)
        log.producers.forget_idle(now_ms - PRODUCER_EXPIRATION_MS)
        if governing.is_deleted:
            log.retain(now_ms, governing.retention_ms, governing.retention_bytes)

    def compacted_logs(self) -> Iterator[Log]:
        """The open logs of topics whose `cleanup.policy` says so; each is left alone before the next is asked for."""
        for partition, log in self._state.logs.opened():
            if self._state.catalog.governing(partition[0]).is_compacted:
                yield log
                if (failure := log.failure or log.compaction_failure) is not None:
                    self._state.logs.close_failed(partition, failure)
                self._state.logs.tended(partition)

    @property
    def closed(self) -> Mapping[TopicPartition, str]:
        """The partitions of topics that are closed until the next start, each with the reason."""
        return self._state.logs.closed

    def log_bytes(self) -> dict[str, int]:
        """Bytes by topic, of the logs that were opened since the start."""
        return self._state.logs.sizes()

    def close(self) -> None:
        """Leave every log on the disk."""
        self._state.logs.close()


_SETTING: Final = frozenset({AlterConfigsRequest, IncrementalAlterConfigsRequest})

_PLAIN: Final[Mapping[type, Callable[[State, Any, Call], Any]]] = {
    DeleteRecordsRequest: delete_records,
    DescribeProducersRequest: describe_producers,
    ListOffsetsRequest: list_offsets,
    OffsetForLeaderEpochRequest: offset_for_leader_epoch,
    ProduceRequest: produce,
}
