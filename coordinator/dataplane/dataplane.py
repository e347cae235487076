"""Enough of a broker that no client notices: topics, records, transactions. The runtime's one door to it.

In a turn the runtime calls `handle` for each request, `replies` for the fetches that got what they waited for or waited
long enough, and at its end `begin_sync` for the logs that are to be synced. Records of topics are appended as they are
decided, so that what a turn produces the same turn can fetch; the answers leave when the turn has ended. The end of a
transaction goes

    prepared, in the ledger ──► markers, here and in the coordinator's logs ──► flush of all ──► complete, in the ledger

so a crash at any point leaves either no decision, or one that is carried out at the next start.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from coordinator.config import Config
from coordinator.core.catalog.catalog import Change
from coordinator.core.catalog.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator.core.decision import Decision, Steps, begin, in_steps, respond_in_steps
from coordinator.core.kinds.kind import Late, late
from coordinator.core.pace import map_in_steps
from coordinator.core.result import COORDINATOR_EPOCH, Call, Markers
from coordinator.core.share_partitions.operate import ChangeRecords
from coordinator.core.share_state.values import StateKey
from coordinator.core.transactions.add_partitions_to_txn import add_partitions_to_txn
from coordinator.core.transactions.end_txn import end_txn
from coordinator.core.transactions.init_producer_id import init_producer_id
from coordinator.core.verbs import VerbResponse
from coordinator.dataplane.brokers import Broker, Where
from coordinator.dataplane.fetch import ERROR_SINCE, Fetch, answer_in_steps, fetch, is_long, overdue, remember, resume
from coordinator.dataplane.handlers import Handler, by_transactions, record_in_steps
from coordinator.dataplane.list_offsets import list_offsets
from coordinator.dataplane.long_polls import Waiting
from coordinator.dataplane.metadata import metadata
from coordinator.dataplane.offset_for_leader_epoch import offset_for_leader_epoch
from coordinator.dataplane.pace import APPEND_WORK, WRITE_WORK, PartitionPace
from coordinator.dataplane.share.partitions import SharePartitions
from coordinator.dataplane.state import Env, Runtime, State
from coordinator.dataplane.topic_logs import TopicLogs, TopicPartition
from coordinator.dataplane.traffic import Traffic
from coordinator.dataplane.withdrawal import withdraw
from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from protocol.records import EndMarker
from storage.files import File, Files, StorageError
from storage.layout import DamagedLog
from storage.log import Log
from storage.producers import PRODUCER_BYTES, ProducerCount

if TYPE_CHECKING:
    from coordinator.core.share_partitions.values import SharePartition
    from coordinator.dataplane.share.operating import SharePartitionView

_FETCH_FAILED: Final = FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
REPLIES_WORK: Final = 1_000  # of parked fetches that a turn answers, counted in partitions
REPLIES_BYTES: Final = 4 * 1_048_576  # of records in a turn's responses, before it answers no more of them
FETCH_WORK: Final = 5  # what a fetch costs beside its partitions
_OWN_TOPICS: Final = (OFFSETS_TOPIC, SHARE_STATE_TOPIC)  # of the coordinator, which alone says what of them can go
PRODUCER_EXPIRATION_MS: Final = 86_400_000  # producer.id.expiration.ms: how long an idle producer's sequence is known
_MARKER_OF_BROKER: Final = record_batch.TRANSACTIONAL | record_batch.CONTROL | record_batch.LOG_APPEND_TIME
"""The attributes of a marker whose time is the broker's."""


class DataPlane:
    """Topics' records, and every request about topics, records and transactions.

    `real_ms` is the time by which fetches wait; the coordinator's own, which a test may stop, comes with each call.
    """

    def __init__(
        self, files: Files, data_dir: str, config: Config, runtime: Runtime, real_ms: Callable[[], int], cluster_id: str
    ) -> None:
        logs = TopicLogs(
            files,
            data_dir,
            runtime.ledger.catalog.settings_of,
            self._take_over,
            runtime.ledger.catalog.unremoved,
            config["producer.ids.max.bytes"] // PRODUCER_BYTES,
        )
        self._state = State(runtime, logs, config, real_ms, cluster_id)
        self.share: SharePartitions = self._state.share
        self._runtime = runtime
        self._first_producer_id = runtime.ledger.transactions.next_producer_id  # that this node gives out
        self._now_ms = 0  # of the latest call: when a log that is opened has to be mended

    # -- a turn --------------------------------------------------------------------------------------------------------

    def handle(self, request: Any, call: Call, where: Where) -> Decision:
        """Decide a request. A fetch may wait under `call.ticket`."""
        self._now_ms = call.now_ms
        handle = HANDLERS.get(type(request))
        if handle is None or isinstance(handle, Late):
            handle = _find_handler(type(request), handle)
        return handle(self._state, request, Env(call, where, self._running_brokers(where)))

    def _running_brokers(self, where: Where) -> Sequence[Broker]:
        """Return the brokers that run; all of them for a request that is decided as the last one stops."""
        stopped = self._runtime.stopped_brokers
        if not stopped:
            return where.brokers
        return tuple([one for one in where.brokers if one.node_id not in stopped]) or where.brokers

    def replies(self) -> list[tuple[int, Any]]:
        """Return fetches that are answered now, as (ticket, response): those that have enough, or waited long enough.

        So many of a turn's that they take about ten milliseconds; the others follow in the next ones. Each is a step of
        its own; one that fails is answered with an error, like any other request.
        """
        state, polls = self._state, self._state.polls
        found: list[tuple[int, Any]] = []
        if not polls:
            return found
        now_ms, work = state.real_ms(), 0
        while work < REPLIES_WORK and state.given_bytes < REPLIES_BYTES:
            waiting = polls.pop_ready()
            is_over = waiting is None
            if waiting is None:
                waiting = polls.find_overdue(now_ms)
            if waiting is None:
                break
            if is_long(waiting):
                steps = answer_in_steps(state, waiting)
                self._runtime.answer_in_steps("Fetch", waiting.ticket, FetchRequest(), ERROR_SINCE, steps)
                continue
            work += FETCH_WORK + len(waiting.partitions)
            response = self._attempt(waiting, is_over)
            if response is not None:
                polls.let_go(waiting.ticket)
                if response is waiting.response:
                    remember(state, waiting)
                found.append((waiting.ticket, response))
        return found

    def _attempt(self, waiting: Waiting, is_over: bool) -> Any:
        """Return the response to a parked fetch, None if it goes on waiting. Without `is_over` its wait may go on."""
        if type(waiting.fetch) is Fetch:
            response = self._runtime.edge.attempt("Fetch", overdue if is_over else resume, self._state, waiting)
            return response if response is None or isinstance(response, FetchResponse) else _FETCH_FAILED
        from coordinator.dataplane import share_fetch

        answer = share_fetch.overdue if is_over else share_fetch.resume
        response = self._runtime.edge.attempt("ShareFetch", answer, self._state, waiting, self._now_ms)
        return response if response is None or isinstance(response, ShareFetchResponse) else share_fetch.FAILED

    # -- share groups --------------------------------------------------------------------------------------------------
    # What serves them is imported with the first request of a member, an operator, or the first lock that ends.

    def note_time(self, now_ms: int) -> None:
        """Note what the coordinator's clock shows: by it records are acquired for fetches that have waited."""
        self._now_ms = now_ms

    @property
    def shown_ms(self) -> int:
        """What the coordinator's clock has shown at latest."""
        return self._now_ms

    def expire_locks(self, now_ms: int, most: int) -> None:
        """Free the records whose lock has ended, of so many share partitions."""
        from coordinator.dataplane.share import changes

        self._now_ms = now_ms
        changes.expire_due(self._state, now_ms, most)

    def change_records(self, verb: ChangeRecords, call: Call) -> VerbResponse:
        """Change records of a share group that are in flight, as an operator wants it."""
        from coordinator.dataplane.share import operating

        self._now_ms = call.now_ms
        return operating.perform(self._state, verb, call)

    def view_records(
        self, group_id: str, topic: str, most: int, others: "Mapping[StateKey, SharePartition]"
    ) -> "Iterator[SharePartitionView]":
        """Yield what a share group has in flight, of one topic if it is named, with so many runs of records in all.

        `others` has the share partitions that no member reads.
        """
        from coordinator.dataplane.share import operating

        return operating.view_records(self._state, group_id, topic, most, others)

    def view_share_partition(self, key: StateKey) -> "SharePartitionView":
        """Return a share partition that is served."""
        from coordinator.dataplane.share import operating

        return operating.view_partition(self._state, key)

    def close_connection(self, connection: int, now_ms: int) -> None:
        """Close the share sessions of a connection that is lost."""
        from coordinator.dataplane.share import changes

        changes.close_connection(self._state, connection, now_ms)

    def forget(self, ticket: int) -> None:
        """Forget the fetch under the ticket, whose client has left."""
        self._state.polls.let_go(ticket)

    def withdraw_session(self, response: FetchResponse) -> int:
        """Note that the client is not told of a response; return the session that it is told of instead."""
        return self._state.sessions.withdraw(response)

    def note_unsent(self, unsent_bytes: int) -> None:
        """Note how many bytes of responses wait for clients to take them, over all connections."""
        self._state.unsent_bytes = unsent_bytes

    def next_poll_ms(self) -> int | None:
        """Return when, in real time, a fetch has waited long enough; None while none waits."""
        return self._state.polls.next_deadline_ms()

    def end_turn(self) -> None:
        """Count what the responses of a turn hold from zero again."""
        self._state.given_bytes = 0

    def take_appends(self) -> int:
        """Return how many batches were appended since this was last asked."""
        logs = self._state.logs
        appends, logs.appends = logs.appends, 0
        return appends

    @property
    def has_written(self) -> bool:
        """Whether a log was written to since `begin_sync`."""
        return self._state.logs.has_written

    @property
    def has_begun_logs(self) -> bool:
        """Whether there is something for `take_begun_logs`."""
        return self._state.logs.has_begun

    def forget_writes(self) -> None:
        """Forget what was written since the last sync: no sync of it is needed."""
        self._state.logs.forget_writes()

    def begin_sync(self) -> dict[TopicPartition, File]:
        """Return the files that are to be synced, of the logs that were written to since this was last asked."""
        return self._state.logs.begin_sync()

    def end_sync(self, failures: Mapping[TopicPartition, StorageError]) -> None:
        """Note that the syncs of these files have ended. One that has failed closes its partition."""
        self._state.logs.end_sync(failures)

    def take_lost(self) -> frozenset[TopicPartition]:
        """Return the partitions of which records may be lost that nobody was told of, since this was last asked."""
        return self._state.logs.take_lost()

    def take_begun_logs(self) -> list[tuple[str, int, int]]:
        """Return the logs that were begun since this was last asked: topic, partition, and when."""
        return self._state.logs.take_begun()

    def stored_partitions(self) -> list[TopicPartition]:
        """Return the partitions that have a directory."""
        return self._state.logs.on_disk()

    def close_missing(self, topic: str, partition: int, failure: DamagedLog) -> None:
        """Close a partition whose log is gone."""
        self._state.logs.close_failed_partition((topic, partition), failure)

    def withdraw(self, response: Any, lost: Collection[TopicPartition]) -> Any:
        """Return a response that nobody has heard without what rests on lost records; itself if it does not."""
        return withdraw(response, lost, self._state.name_of)

    # -- what the runtime tells ----------------------------------------------------------------------------------------

    def end_transaction(self, markers: Markers, batch: bytes, now_ms: int) -> Generator[None, None, bool]:
        """Append the batch that ends a transaction to its partitions here, in steps. Those of groups are the runtime's.

        Return whether every marker is written that can ever be: a topic that is gone needs none, but the marker of a
        partition that is closed is still to come, and the transaction is not complete before it has.
        """
        logs, is_complete = self._state.logs, True
        losses, pace = logs.losses, PartitionPace(logs)
        for topic, index in markers.partitions:
            if pace.count_partition():
                yield
            if topic == OFFSETS_TOPIC or not self._state.has(topic, index):
                continue
            yield from logs.try_open_in_steps(topic, index)
            if not self._state.has(topic, index):  # it may have gone meanwhile
                continue
            try:
                if logs.try_open(topic, index):
                    self._append_marker((topic, index), logs.log(topic, index), batch, now_ms, pace)
                else:
                    is_complete = False
            except StorageError as failure:
                self._state.close_failed_partition(topic, index, failure)
                is_complete = False
        return is_complete and logs.lost_since(losses).isdisjoint(markers.partitions)

    def open_in_steps(self, topic: str, index: int) -> Steps[None]:
        """Open the log of a partition, if it can be: what follows at once need not."""
        return self._state.open_log_in_steps(topic, index)

    def begin_pace(self) -> PartitionPace:
        """Return the pace of a request over many partitions."""
        return PartitionPace(self._state.logs)

    def write_marker(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        end: EndMarker,
        transaction_version: int,
        now_ms: int,
        pace: PartitionPace,
    ) -> ErrorCode:
        """Append a marker that an administrator writes. Returns why that cannot be, else NONE."""
        topic, index = partition
        try:
            if (error := self._state.try_open(topic, index)) != ErrorCode.NONE:
                return error
            log = self._state.logs.log(topic, index)
            if error := log.producers.check_marker(producer_id, producer_epoch, end, transaction_version):
                return error
            batch = record_batch.encode_marker(end, now_ms, producer_id=producer_id, producer_epoch=producer_epoch)
            self._append_marker(partition, log, batch, now_ms, pace)
        except StorageError as failure:
            return self._state.close_failed_partition(topic, index, failure)
        return ErrorCode.NONE

    def apply_topic_changes(self, changes: Iterable[Change]) -> None:
        """Topics came, grew or went: remove the records of those that went.

        Raises StorageError if those of an earlier topic of the same name cannot be taken away: what has begun is not in
        the catalog's log yet.
        """
        changes = tuple(changes)
        self._state.logs.finish_retiring([change.name for change in changes if change.before is None])
        gone = {change.name for change in changes if change.after is None}
        if gone:
            # That they are gone is on the disk before any of their files is: else a crash would leave half of them.
            self._runtime.ledger.flush()
            self._runtime.ledger.sync()
            self._state.traffic.forget(gone)
            if self._state.logs.drop(gone):
                self._runtime.do_in_steps(self._state.logs.purge())

    def forget_topics(self, ended: Iterable[Change]) -> Steps[None]:
        """Wake the fetches of topics that are gone, and forget their share partitions."""
        topics = [(change.name, change.before) for change in ended if change.before is not None]
        for name, topic in topics:
            yield from map_in_steps([(name, index) for index in range(topic.partitions)], self._state.polls.wake)
        if self.share.served:
            from coordinator.dataplane.share import changes

            yield from changes.drop_topics(self._state, frozenset([topic.id for _, topic in topics]))

    def wake_fetches_of_offsets(self, index: int, size: int) -> None:
        """Wake fetches of a partition of `__consumer_offsets`, which has grown by `size` bytes."""
        self._state.polls.note_append((OFFSETS_TOPIC, index), size)

    def open_state(self, index: int) -> Log:
        """Return the log of a partition of `__share_group_state`. Raises DamagedLog."""
        return self._state.logs.log(SHARE_STATE_TOPIC, index)

    def open_state_in_steps(self, index: int) -> Steps[None]:
        """Open that log in steps. Raises DamagedLog."""
        return self._state.logs.open_in_steps(SHARE_STATE_TOPIC, index)

    def append_state(self, index: int, batch: bytes, timestamp: int) -> int:
        """Append a batch to a partition of `__share_group_state`, and return the offset of its first record.

        Raises StorageError.
        """
        logs, partition = self._state.logs, (SHARE_STATE_TOPIC, index)
        offset = logs.append(partition, logs.log(*partition), batch, timestamp, timestamp)
        self._state.polls.note_append(partition, len(batch))
        return offset

    def delete_states_before(self, index: int, offset: int) -> None:
        """Delete the records of a partition of `__share_group_state` below an offset."""
        log = self.open_state(index)
        if offset > log.start_offset:
            log.delete_before(offset)
            self._state.polls.wake((SHARE_STATE_TOPIC, index))

    def _append_marker(
        self, partition: TopicPartition, log: Log, batch: bytes, now_ms: int, pace: PartitionPace | None = None
    ) -> None:
        if pace is not None:
            pace.add(APPEND_WORK if log.segments else WRITE_WORK)
        if self._state.catalog.settings_of(partition[0]).is_log_append_time:
            batch = record_batch.stamp(batch, _MARKER_OF_BROKER, now_ms)
        self._state.logs.append(partition, log, batch, now_ms, now_ms)
        self._state.polls.wake(partition)

    # -- start, upkeep and end -----------------------------------------------------------------------------------------

    def _take_over(self, partition: TopicPartition, log: Log) -> None:
        """Put right what a log that is opened says of producers.

        Ids that this node gives out are new to it, unless it was open before: a power cut has taken the record of those
        who had them, and what they have sent must not be taken for what others send.
        """
        self._abort_orphans(partition, log)
        if partition not in self._state.logs.interrupted:
            log.producers.forget_from(self._first_producer_id)

    def _abort_orphans(self, partition: TopicPartition, log: Log) -> None:
        """Abort what is open in a log and in no transaction: its beginning was lost with the power, or is not ours."""
        for producer_id, producer in log.producers.items():
            is_open = producer.first_open_offset is not None
            if is_open and not self._state.transactions.is_open(producer_id, partition):
                marker = EndMarker(commits=False, coordinator_epoch=COORDINATOR_EPOCH)
                ids = {"producer_id": producer_id, "producer_epoch": producer.epoch}
                batch = record_batch.encode_marker(marker, self._now_ms, **ids)
                self._append_marker(partition, log, batch, self._now_ms)

    def tend(self, now_ms: int) -> Iterator[None]:
        """Delete records past their time or beyond their size, and forget idle producers, a log at each `next`. For the
        runtime's janitor.

        A log that nobody has asked for since the start is opened, which reads all of it, only if it has such records.
        """
        state = self._state
        yield from state.logs.purge(is_retry=True)
        for index in range(state.catalog.topics_by_name[OFFSETS_TOPIC].partitions):
            if (own := self._runtime.offsets_log(index)) is not None:
                own.producers.forget_idle(now_ms - PRODUCER_EXPIRATION_MS)
                yield
        for topic, index in state.logs.on_disk():
            if topic in _OWN_TOPICS or not state.has(topic, index):
                continue
            try:
                is_due = yield from state.logs.look_for_upkeep((topic, index), now_ms)
                if is_due:
                    yield from state.open_log_in_steps(topic, index)
                if is_due and state.try_open(topic, index) == ErrorCode.NONE:  # it may have gone meanwhile
                    self._cut(topic, log := state.logs.log(topic, index), now_ms)
                    state.logs.note_upkeep((topic, index))
                    yield from log.remove_deleted_in_steps()
            except StorageError as failure:
                if state.has(topic, index):
                    state.close_failed_partition(topic, index, failure)
            yield

    def _cut(self, topic: str, log: Log, now_ms: int) -> None:
        settings = self._state.catalog.settings_of(topic)
        log.producers.forget_idle(now_ms - PRODUCER_EXPIRATION_MS)
        if settings.is_deleted:
            log.retain(now_ms, settings.retention_ms, settings.retention_bytes)

    @property
    def producers(self) -> ProducerCount:
        """How many producer ids open logs remember, and may: those of `__consumer_offsets` count among them."""
        return self._state.logs.producers

    @property
    def producers_bytes(self) -> int:
        """The memory that the producer ids of open logs take at most."""
        return self.producers.count * PRODUCER_BYTES

    def compacted_logs(self) -> Iterator[Log]:
        """Yield the open logs of topics whose `cleanup.policy` says so; each is left alone before the next is asked
        for. One that is closed meanwhile, or whose topic is deleted, is passed over."""
        logs = self._state.logs
        for partition, log in logs.open_logs():
            if partition[0] in _OWN_TOPICS or logs.find_open(partition) is not log:
                continue
            if logs.configure(partition, log).is_compacted:
                yield log
                if logs.find_open(partition) is not log:
                    continue  # another log may be in its place
                if (failure := log.failure or log.compaction_failure) is not None:
                    logs.close_failed_partition(partition, failure)
                logs.note_upkeep(partition)

    @property
    def closed_partitions(self) -> Mapping[TopicPartition, str]:
        """The partitions of topics that are closed until the next start, each with the reason."""
        return self._state.logs.closed_partitions

    def log_bytes(self) -> dict[str, int]:
        """Return bytes by topic, of the logs that are open or have been measured."""
        return self._state.logs.sizes()

    def measure(self, has_time: Callable[[], bool]) -> None:
        """Measure logs that nobody has opened since the start, while there is time."""
        self._state.logs.measure(has_time)

    def end_offset(self, topic: str, index: int) -> int | None:
        """Return the offset of the next record of a partition; None if there is no such partition, or it is not known
        yet."""
        if not self._state.has(topic, index):
            return None
        if topic == OFFSETS_TOPIC:
            log = self._runtime.offsets_log(index)
            return 0 if log is None else log.end_offset
        return self._state.logs.end_offset((topic, index))

    def find_end_offset(self, topic: str, index: int) -> int | ErrorCode:
        """Return the offset of the next record of a partition, or why it cannot be read. The log is opened for that."""
        if error := self._state.try_open(topic, index):
            return error
        log = self._state.log(topic, index)
        return 0 if log is None else log.end_offset

    @property
    def traffic(self) -> Mapping[str, Traffic]:
        """Records and bytes in and out by topic, since the start."""
        return self._state.traffic.topics

    def space(self) -> tuple[int, int]:
        """Return bytes of the volume that holds the logs, and those that are free; -1 where that is unknown."""
        return self._state.logs.space()

    def close(self) -> None:
        """Leave every log on the disk."""
        self._state.logs.close()

    def abandon(self) -> None:
        """Let go of every log, for its files are about to be removed."""
        self._state.logs.abandon()


def _add_partitions_to_txn(state: State, request: AddPartitionsToTxnRequest, env: Env) -> Decision:
    decisions = add_partitions_to_txn(state.transactions, state.catalog.topics, request, env.call)
    return begin(respond_in_steps(record_in_steps(state.runtime.record, decisions, env.call.now_ms)))


def _find_handler(cls: type, late_one: Late | None) -> Handler:
    """Return the handler of requests of this class, and keep it: to import it anew for each request takes 2 us."""
    if late_one is not None:
        found: Handler = late_one.resolve()
    else:
        from coordinator.dataplane import administration  # fifty modules

        found = administration.HANDLERS[cls]
    HANDLERS[cls] = found
    return found


HANDLERS: Final[dict[type, Handler]] = {
    AddPartitionsToTxnRequest: _add_partitions_to_txn,
    EndTxnRequest: by_transactions(end_txn),
    FetchRequest: fetch,
    InitProducerIdRequest: by_transactions(init_producer_id),
    ListOffsetsRequest: in_steps(list_offsets),
    MetadataRequest: metadata,
    OffsetForLeaderEpochRequest: in_steps(offset_for_leader_epoch),
    ProduceRequest: late(f"{__package__}.produce"),  # with all that judges batches
    ShareAcknowledgeRequest: late(f"{__package__}.share_acknowledge"),  # with all that serves share groups
    ShareFetchRequest: late(f"{__package__}.share_fetch"),
}
"""Every handler is a function `(state, request, env)` that returns a `Decision`. Those that are imported late are
replaced by the functions themselves, and those for administrators added, when they are first needed."""

ADMINISTRATION: Final = (
    "AddRaftVoter",
    "AlterClientQuotas",
    "AlterConfigs",
    "AlterPartitionReassignments",
    "AlterReplicaLogDirs",
    "AlterUserScramCredentials",
    "CreatePartitions",
    "CreateTopics",
    "DeleteRecords",
    "DeleteTopics",
    "DescribeClientQuotas",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeLogDirs",
    "DescribeProducers",
    "DescribeQuorum",
    "DescribeTopicPartitions",
    "DescribeUserScramCredentials",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "ListConfigResources",
    "ListPartitionReassignments",
    "RemoveRaftVoter",
    "UnregisterBroker",
)
"""The APIs whose handlers `administration.py` has."""

APIS: Final = (*(request.__name__.removesuffix("Request") for request in HANDLERS), *ADMINISTRATION)
"""All that are answered here, by Kafka's names."""
