"""The one step for every input, and the turn that many steps make.

    input ──► decide ──► encode ──► apply ──► effects      a step that fails before it applies has changed nothing:
    request     pure     records    state     replies      `edge` logs it once, counts it, and lets the turn go on
    timer                to bytes   timers    events
    topic change                              markers
    end of transaction

A turn is `handle` for each request that has come, `fire` for the timers that are due, `replies` for the requests that
were parked, and `flush` to append what all of them have led to. Nothing that a turn decides may be told to anybody
before its `flush` has returned.

With --fsync the turn does not wait for the disk: `group_commit.py` says what may be told when.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from time import monotonic
from typing import Any, Final

from coordinator.control.inputs import Kind, NoteInput, StepInput, VerbInput
from coordinator.core.acls.authorizer import Authorizer
from coordinator.core.catalog.catalog import GROUP, Change
from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.catalog.records import ConfigKey
from coordinator.core.decision import PARKED, SILENT, Done, Outcome, Parked, Silent, Steps
from coordinator.core.events import Cause, Event
from coordinator.core.groups import records_event
from coordinator.core.growth import Shortage
from coordinator.core.limits import Limits
from coordinator.core.quotas.buckets import Buckets
from coordinator.core.renewal import Renewal
from coordinator.core.result import (
    COORDINATOR_EPOCH,
    Call,
    Markers,
    Reply,
    Result,
)
from coordinator.core.share_partitions.operate import ChangeRecords
from coordinator.core.timers import Timers
from coordinator.core.transactions.ending import complete, fence
from coordinator.core.transactions.transaction import Transaction
from coordinator.core.verbs import Verb, VerbResponse
from coordinator.dataplane.brokers import NOBODY, OPERATOR, Where
from coordinator.dataplane.dataplane import DataPlane
from coordinator.runtime.coordinators import Coordinators
from coordinator.runtime.edge import Failure
from coordinator.runtime.error_response import error_response, groups_full_response
from coordinator.runtime.group_commit import GroupCommit
from coordinator.runtime.loads import TRANSACTIONS, Loads
from coordinator.runtime.partition import Partition
from coordinator.runtime.partitions import Partitions
from coordinator.runtime.share_states import ShareStates
from coordinator.runtime.steps import StepMeter, UnfinishedRequest, UnfinishedRequests
from coordinator.runtime.topic_log import log_changes
from coordinator.runtime.world import World
from protocol import record_batch
from protocol.error_codes import error_walker
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.produce import ProduceRequest
from protocol.records import EndMarker
from storage.files import Files, Waker
from storage.log import Log

Replies = list[tuple[int, Done | Silent]]  # by ticket
WORK_A_TURN: Final = 1
"""Steps of patterns and of passes over offsets in one turn, of all partitions together: some milliseconds. However many
groups have patterns that are much work, a turn is no longer."""
UNTIL_THE_END: Final = 1 << 62  # more checkpoints than a request has
TIMERS_A_TURN: Final = 100
"""That fire in one turn, of all partitions together: some ten milliseconds. Thousands of members may go at once."""


class StepBudget:
    """Grants so many steps: each call takes one, and returns False when none is left."""

    def __init__(self, times: int) -> None:
        self._left = times

    def __call__(self) -> bool:
        self._left -= 1
        return self._left >= 0

    @property
    def is_used_up(self) -> bool:
        """Whether no step is left."""
        return self._left <= 0


class Engine:
    """Groups, offsets, topics, transactions and the records of topics: all that inputs change."""

    def __init__(
        self,
        world: World,
        files: Files,
        emit: Callable[[Event], None],
        *,
        effects: "Mapping[type, Perform]",
        offered: dict[int, range],
        authorizer: Authorizer | None,
        real_ms: Callable[[], int],
        fresh_id: Callable[[], str],
        waker: Waker | None = None,
        real_s: Callable[[], float] = monotonic,
        meter: StepMeter,
    ) -> None:
        """`effects` are done by others, `offered` has the versions by API key, and without an authorizer everything is
        allowed. `waker` and `real_s` are for `GroupCommit`, `meter` ends the steps of long requests."""
        self.world = world
        self.config = config = world.config
        self.edge = world.edge
        self.ledger = world.ledger
        self.is_synced = world.is_synced
        self.offered = offered
        self.authorizer = authorizer
        self.mutations = Buckets()  # of `controller_mutation_rate`
        self.loads = Loads()
        self.share_states = ShareStates(world, self.record, self.append, self.fresh_topic_id)
        self.group_commit = GroupCommit(world, self.share_states, files, waker, real_s)
        self.ending: set[str] = set()
        """The transactional ids of the transactions whose markers are being written."""
        self.shortage = Shortage()
        self.members_bytes = 0  # of memory that the members of all groups take
        self.offsets_bytes = 0  # of memory that all committed and pending offsets take
        self.unfinished = UnfinishedRequests(meter)
        self._emit = emit
        self._effects = effects
        self._real_ms = real_ms
        self._fresh_id = fresh_id
        self._groups_bytes_max: int = config["groups.max.bytes"]
        self._members_bytes_max: int = config["group.members.max.bytes"]
        self._offsets_bytes_max: int = config["offsets.max.bytes"]
        self._held_bytes = 0
        self._replies: Replies = []
        self._first = 0  # of the partitions, when timers fire
        self._due_ms: int | None = None  # not later than the next timer; earlier does no harm

    @property
    def partitions(self) -> Partitions:
        """Those of `__consumer_offsets`."""
        return self.world.partitions

    @property
    def coordinators(self) -> Coordinators:
        """Which broker coordinates what."""
        return self.world.coordinators

    @property
    def dataplane(self) -> DataPlane:
        """Topics and their records."""
        return self.world.dataplane

    @property
    def note_input(self) -> NoteInput | None:
        """Notes inputs in a journal that may be replayed, if there is one."""
        return self.world.note_input

    def set_note_input(self, note_input: NoteInput | None) -> None:
        """Note inputs in a journal from now on, or no longer."""
        self.world.set_note_input(note_input)

    def real_ms(self) -> int:
        """Return the time by which fetches wait, whatever the coordinator's clock shows."""
        now_ms = self._real_ms()
        if self.world.note_input is not None:
            self.world.note_input(Kind.REAL, now_ms)
        return now_ms

    def fresh_topic_id(self) -> bytes:
        """Return an id that no topic has had."""
        return bytes.fromhex(self._fresh_id().replace("-", ""))

    @property
    def loading(self) -> int:
        """How many partitions of `__consumer_offsets` are still to be loaded."""
        return sum(not partition.is_loaded for partition in self.world.partitions)

    def refuse(self, partition: Partition, where: Where) -> ErrorCode:
        """Return why a broker does not serve the groups of a partition, NONE if it does."""
        if where.node_id not in (self.world.coordinators.of_groups[partition.index], OPERATOR):
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if partition.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def find_renewal(self, heartbeat: HeartbeatRequest) -> Renewal | None:
        """Return how to do a heartbeat again that was successful a moment ago; None if it must be decided again, as
        where an authorizer is asked each time."""
        if self.authorizer is not None:
            return None
        return self.world.partitions.owner(heartbeat.group_id).shard.find_renewal(heartbeat)

    def refuse_transaction(self, transactional_id: str, where: Where) -> ErrorCode:
        """Return why a broker does not serve a transactional id, NONE if it does."""
        coordinators = self.world.coordinators
        if coordinators.is_alone and not self.loads:
            return ErrorCode.NONE
        index = coordinators.partition_of(transactional_id)
        if where.node_id not in (coordinators.of_transactions[index], OPERATOR):
            return ErrorCode.NOT_COORDINATOR
        is_loading = self.loads.is_loading(TRANSACTIONS, index)
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE

    def is_transaction_served(self, transactional_id: str) -> bool:
        """Return whether a broker coordinates a transactional id, and has loaded it."""
        coordinators = self.world.coordinators
        if coordinators.is_alone and not self.loads:
            return True
        index = coordinators.partition_of(transactional_id)
        return coordinators.of_transactions[index] != NOBODY and not self.loads.is_loading(TRANSACTIONS, index)

    def loads_transactions(self, where: Where) -> bool:
        """Return whether a broker is loading some of the transactional ids that it coordinates."""
        of_transactions = self.world.coordinators.of_transactions
        return any(of_transactions[index] == where.node_id for index in self.loads.loading(TRANSACTIONS))

    @property
    def stopped_brokers(self) -> Collection[int]:
        """The node ids of the brokers that do not run."""
        return self.world.coordinators.stopped

    def group_limits(self, group_id: str) -> Limits:
        """Return the settings of a group: its own, or those of the server."""
        return self.world.partitions.owner(group_id).shard.limits_of(group_id)

    def tell_of_records(self, group_id: str, cause: Cause, member_id: str, by: str, records: str, now_ms: int) -> None:
        """Tell the timeline of a share group what became of records that the member had."""
        group = self.world.partitions.owner(group_id).shard.groups.get(group_id)
        self._emit(records_event(group_id, group, cause, member_id, by, records, now_ms))

    def offsets_leader(self, index: int) -> int:
        """Return the broker that leads a partition of `__consumer_offsets`, and so coordinates its groups."""
        return self.world.coordinators.of_groups[index]

    def share_states_leader(self, index: int) -> int:
        """Return the broker that leads a partition of `__share_group_state`."""
        return self.world.coordinators.of_share_states[index]

    def offsets_log(self, index: int) -> Log | None:
        """Return the log of a partition of `__consumer_offsets`, None where nothing was ever written."""
        partition = self.world.partitions[index]
        return partition.log if partition.has_log else None

    # -- inputs --------------------------------------------------------------------------------------------------------

    def record(self, result: Result[Any], now_ms: int) -> Any:
        """Make a result of the catalog or of a transaction so, and return its response."""
        ends = [(effect, _batch(effect, now_ms)) for effect in result.effects if type(effect) is Markers]
        changes = self.ledger.record(result, now_ms)
        if changes:
            self._apply_topic_changes(changes, now_ms)
        for record in result.records:
            if isinstance(record.key, ConfigKey) and record.key.resource_type == GROUP:
                self._configure(record.key.resource_name)
        for markers, batch in ends:
            self._end_transaction(markers, batch, now_ms)
        return result.response

    def refuse_group(self, more_bytes: int, request: Any, version: int) -> Any:
        """Return the response to a request that would create a group for which there is no room, else None."""
        is_full = self.groups_bytes + more_bytes > self._groups_bytes_max
        return groups_full_response(request, version) if is_full else None

    def hold_members(self, more_bytes: int) -> None:
        """Note that the members of groups take so many bytes more."""
        self.members_bytes += more_bytes
        self._note_shortage()

    def hold_offsets(self, more_bytes: int) -> None:
        """Note that offsets take so many bytes more."""
        self.offsets_bytes += more_bytes
        self._note_shortage()

    def _note_shortage(self) -> None:
        self.shortage.note(
            of_members=self.members_bytes > self._members_bytes_max,
            of_offsets=self.offsets_bytes > self._offsets_bytes_max,
        )

    @property
    def groups_bytes(self) -> int:
        """The memory that all groups take at least."""
        return sum(partition.shard.groups_bytes for partition in self.world.partitions)

    def fire(self, now_ms: int) -> None:
        """Do what is due by now, as much of it as a turn may take: the rest stays due."""
        if self.world.note_input is not None and _is_due(self.next_deadline_ms(), now_ms):
            self.world.note_input(Kind.FIRE, now_ms)
        if self._due_ms is not None and self._due_ms <= now_ms:
            if self.loads and self.loads.serve_due(now_ms) and self.has_prepared_transactions:
                self.finish_transactions(now_ms)  # those whose end was decided during the loading
            may_work, may_go_on = StepBudget(WORK_A_TURN), StepBudget(TIMERS_A_TURN - 1)
            for partition in self._in_turn():
                if _is_due(partition.shard.timers.earliest_wakeup_ms(), now_ms):
                    self.take_all(partition, partition.shard.fire(now_ms, may_work, may_go_on))
                    if may_go_on.is_used_up:
                        break
            self._due_ms = min((at_ms for _, at_ms in self.loads.deadlines()), default=None)
            for partition in self.world.partitions:
                self._watch(partition.shard.timers)
        transactions, locks = self.ledger.transactions, self.world.dataplane.share.locks
        if transactions.timeouts and _is_due(transactions.next_deadline_ms(), now_ms):
            for transaction in transactions.pop_overdue(now_ms, TIMERS_A_TURN):
                self.edge.attempt("timer transaction", self._time_out, transaction, now_ms)
        if locks.count and _is_due(locks.next_deadline_ms(), now_ms):
            self.world.dataplane.expire_locks(now_ms, TIMERS_A_TURN)

    def command(self, verb: Verb | ChangeRecords, now_ms: int, fresh_id: Callable[[], str]) -> VerbResponse | Failure:
        """Do what an operator asks of a group or its records."""
        if self.world.note_input is not None:
            self.world.note_input(Kind.VERB, VerbInput.of(verb, now_ms))
        call = Call(0, now_ms, 0, None, "", fresh_id)
        if isinstance(verb, ChangeRecords):
            return self.edge.attempt("operator", self.world.dataplane.change_records, verb, call)
        partition = self.world.partitions.owner(verb.group_id)
        return self.edge.attempt("operator", lambda: self.take(partition, partition.shard.handle(verb, call)))

    def wake_at(self, at_ms: int) -> None:
        """Have something to do at this time, or earlier."""
        if self._due_ms is None or at_ms < self._due_ms:
            self._due_ms = at_ms

    def do_in_steps(self, work: Steps[None]) -> None:
        """Do what nobody waits for in steps, in turn with the requests that are decided so."""
        unfinished = UnfinishedRequest(self.unfinished.next_ticket_of_nobody(), None, 0, _silently(work))
        if self._advance(unfinished, StepInput(unfinished.ticket), 1) is None:
            self.unfinished.keep(unfinished)

    def _in_turn(self) -> list[Partition]:
        """Return all partitions, each as the first in its turn: the work of one does not keep the others waiting."""
        partitions = list(self.world.partitions)
        self._first = (self._first + 1) % len(partitions)
        return partitions[self._first :] + partitions[: self._first]

    @property
    def has_steps(self) -> bool:
        """Whether something is done in steps, and there are steps left."""
        return bool(self.unfinished)

    def step(self) -> None:
        """Do the next step of a request that is decided in steps."""
        unfinished = self.unfinished.pop()
        self._continue(unfinished, None)

    def repeat_step(self, noted: StepInput | None) -> None:
        """Do a step again as a journal has noted it. An old one says neither of which request nor how far: it ends."""
        unfinished = None
        if noted is not None:
            unfinished = self.unfinished.find(noted.ticket)
        elif self.unfinished:
            unfinished = self.unfinished.pop()
        if unfinished is not None:
            self._continue(unfinished, UNTIL_THE_END if noted is None else noted.checkpoints)

    def begin_steps(self, ticket: int, request: Any, version: int, steps: Steps[Outcome]) -> Outcome:
        """Do the first step of a request, which is parked if there are further ones."""
        unfinished = UnfinishedRequest(ticket, request, version, steps)
        self.unfinished.meter.begin()
        outcome = self._advance(unfinished, StepInput(ticket), 1)
        if outcome is None and not self.unfinished.meter.is_over():
            noted = self._note_step(unfinished)
            outcome = self._advance(unfinished, noted, None)
        if outcome is None:
            self.unfinished.keep(unfinished)
            return PARKED
        return outcome

    def _continue(self, unfinished: UnfinishedRequest, most: int | None) -> None:
        self.unfinished.meter.begin()
        outcome = self._advance(unfinished, self._note_step(unfinished), most)
        if outcome is None:
            return
        self.unfinished.remove(unfinished)
        if unfinished.ticket >= 0 and not isinstance(outcome, Parked):
            self._replies.append((unfinished.ticket, outcome))

    def _note_step(self, unfinished: UnfinishedRequest) -> StepInput:
        noted = StepInput(unfinished.ticket)
        if self.world.note_input is not None:
            self.world.note_input(Kind.STEP, noted)
        return noted

    def _advance(self, unfinished: UnfinishedRequest, noted: StepInput, most: int | None) -> Outcome | None:
        """Do a step. Returns what comes of the request, None if it has further steps."""
        outcome = self.edge.attempt(unfinished.name, self.unfinished.advance, unfinished, noted, most)
        if not isinstance(outcome, Failure):
            return outcome
        return failure_outcome(unfinished.request, unfinished.version, outcome.code)

    # -- what inputs lead to -------------------------------------------------------------------------------------------

    def take(self, partition: Partition, result: Result[Any], group_id: str | None = None) -> Any:
        """Collect the effects of a shard's result, and return its response: None while the request is parked.

        With a `group_id` the result has changed no other group."""
        if result.records:
            group_commit = self.group_commit
            group_commit.dirty[partition] = None
            if self.is_synced:
                group_commit.changed.add(partition if group_id is None else group_id)
                group_commit.gathering.changes += 1
        if result.events:
            for event in result.events:
                self._emit(event)
        response = result.response
        if result.effects:
            for effect in result.effects:
                if type(effect) is Reply:
                    self._replies.append((effect.ticket, Done(effect.response)))
                elif (perform := self._effects.get(type(effect))) is not None:
                    response = perform(self, partition, effect, response)
        return response

    def take_all(self, partition: Partition, results: Iterable[Result[Any]]) -> None:
        """Collect the effects of many results."""
        for result in results:
            self.take(partition, result)

    def _watch(self, timers: Timers) -> None:
        """Look at the timers of a partition when one of them is next due. To find that costs most: it is done only if
        it may come before all others."""
        if _is_earlier(timers.earliest_wakeup_ms(), self._due_ms):
            due_ms = timers.next_deadline_ms()
            if _is_earlier(due_ms, self._due_ms):
                self._due_ms = due_ms

    def flush_ledger(self) -> bool:
        """Append what the catalog and the transactions have gathered; whether there was anything."""
        if not self.ledger.flush():
            return False
        if self.is_synced:
            self.ledger.sync()
        return True

    def next_deadline_ms(self) -> int | None:
        """Return when `fire` may have something to do; None for never."""
        due_ms, transactions, locks = self._due_ms, self.ledger.transactions, self.world.dataplane.share.locks
        if transactions.timeouts and _is_earlier(at_ms := transactions.next_deadline_ms(), due_ms):
            due_ms = at_ms
        if locks.count and _is_earlier(at_ms := locks.next_deadline_ms(), due_ms):
            due_ms = at_ms
        return due_ms

    def next_poll_ms(self) -> int | None:
        """Return when a long poll ends, by the real clock; None for never."""
        return self.world.dataplane.next_poll_ms()

    def replies(self) -> Replies:
        """Return the parked requests that are answered, since this was last asked."""
        if self.world.note_input is not None and (self._replies or self.next_poll_ms() is not None):
            self.world.note_input(Kind.REPLIES, None)
        polls = self.world.dataplane.replies()
        if not (polls or self._replies):
            return []  # nearly always
        found, self._replies = self._replies, []
        return found + [(ticket, Done(response)) for ticket, response in polls]

    def forget(self, ticket: int) -> None:
        """Forget the client of a parked request, which has left: a long poll ends with it, a group's member goes on."""
        if self.world.note_input is not None:
            self.world.note_input(Kind.FORGET, ticket)
        self.world.dataplane.forget(ticket)
        self.unfinished.forget(ticket)

    def disconnect(self, connection: int, now_ms: int) -> None:
        """Close the share sessions of a connection that is lost."""
        if self.world.dataplane.share.is_watched(connection):
            self.note_time(now_ms)
            if self.world.note_input is not None:
                self.world.note_input(Kind.DISCONNECT, connection)
            self.edge.attempt("disconnect", self.world.dataplane.close_connection, connection, now_ms)

    @property
    def has_share_sessions(self) -> bool:
        """Whether a ShareFetch may be waiting: the time of a turn counts for it."""
        return len(self.world.dataplane.share.sessions) > 0

    def note_time(self, now_ms: int) -> None:
        """Note what the coordinator's clock shows, where the time of the latest input is not enough."""
        if now_ms != self.world.dataplane.shown_ms:
            if self.world.note_input is not None:
                self.world.note_input(Kind.TIME, now_ms)
            self.world.dataplane.note_time(now_ms)

    def note_unsent(self, unsent_bytes: int) -> None:
        """Note how many bytes of responses wait for clients to take them, over all connections."""
        if self.world.note_input is not None and unsent_bytes != self._held_bytes:
            self.world.note_input(Kind.HELD, unsent_bytes)
        self._held_bytes = unsent_bytes
        self.world.dataplane.note_unsent(unsent_bytes)

    # -- the end of a turn ---------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Append what the turn has led to, once a log. With --fsync that waits until the disk is free.

        Raises StorageError for the coordinator's own logs.
        """
        if self.world.note_input is not None:
            self.world.note_input(Kind.FLUSH, None)
        self.world.dataplane.end_turn()
        if self.is_synced:
            self.group_commit.continue_syncs()
        elif self.group_commit.has_gathered:
            self.append()
            self.world.dataplane.forget_writes()

    def append(self) -> None:
        """Append what was decided so far, in the middle of a step as well, and with --fsync wait for the disk."""
        if self.is_synced:
            self.group_commit.sync_everything()
        else:
            self.group_commit.append()
            self.ledger.settle()

    # -- within --------------------------------------------------------------------------------------------------------

    def attempt(self, kind: str, step: Callable[[], Result[Any]]) -> Result[Any] | None:
        """Return the result of a shard's step; None if it fails, which leads to nothing."""
        result = self.edge.attempt(kind, step)
        return None if isinstance(result, Failure) else result

    def _time_out(self, transaction: Transaction, now_ms: int) -> None:
        self.record(fence(transaction, now_ms), now_ms)

    def _configure(self, group_id: str) -> None:
        """Give a group the settings of its own; they count from its next request on."""
        catalog, shard = self.ledger.catalog, self.world.partitions.owner(group_id).shard
        stored = catalog.configs.get((GROUP, group_id), {})
        own = {group: limits for group, limits in shard.own_limits.items() if group != group_id}
        if stored:
            from coordinator.core.catalog.group_configs import limits_with

            own[group_id] = limits_with(shard.limits, stored, catalog.settings)
        shard.own_limits = own

    def _apply_topic_changes(self, changes: tuple[Change, ...], now_ms: int) -> None:
        log_changes(changes)
        topics = self.ledger.catalog.topics
        self.world.dataplane.apply_topic_changes(changes)
        for partition in self.world.partitions:
            partition.shard.topics = topics
        ended = [change for change in changes if change.is_end and change.before is not None]
        gone = {change.name: [change.before.id] for change in ended if change.before is not None}
        if gone:
            self.do_in_steps(self._forget_topics(ended, gone, now_ms))

    def _forget_topics(self, ended: list[Change], gone: dict[str, list[bytes]], now_ms: int) -> Steps[None]:
        """Remove what share groups know of topics that are gone, and what groups have committed to them. Partitions
        that are loading find it themselves."""
        yield from self.world.dataplane.forget_topics(ended)
        yield from self.share_states.forget_topics({topic_id for ids in gone.values() for topic_id in ids}, now_ms)
        for partition in self.world.partitions:
            shard = partition.shard
            for results in shard.forget_topics(gone, now_ms) if partition.is_loaded else ():
                if partition.shard is shard:  # else it has moved meanwhile, and finds it when it is loaded
                    self.take_all(partition, results)
                yield

    def _end_transaction(self, markers: Markers, batch: bytes, now_ms: int) -> None:
        """Write the end of a transaction into its partitions; it is complete when they are in their logs.

        While one of them is loading it stays prepared, and its producer is told to come back (51), as by Kafka: to a
        log that is being opened or replayed nothing may be written. The end of the loading writes the markers.
        """
        if self.is_synced:
            self.ledger.sync()  # that it is decided is on the disk before any of its markers
        own = [self.world.partitions[index] for topic, index in markers.partitions if topic == OFFSETS_TOPIC]
        if not all(partition.is_loaded for partition in own):
            return
        for partition in own:
            self.write_marker(partition, markers.producer_id, markers.committed, batch)
        self.do_in_steps(self._write_markers(markers, batch, now_ms))

    def _write_markers(self, markers: Markers, batch: bytes, now_ms: int) -> Steps[None]:
        """Write the end of a transaction into its partitions of topics, in steps, and complete the transaction."""
        self.ending.add(markers.transactional_id)
        try:
            is_complete = yield from self.world.dataplane.end_transaction(markers, batch, now_ms)
            if is_complete:  # else it stays prepared, and the next start writes the markers that are missing
                self.ledger.complete(complete(self.ledger.transactions, markers.transactional_id, now_ms), now_ms)
        finally:
            self.ending.discard(markers.transactional_id)

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
            if self.world.dataplane.closed_partitions.keys().isdisjoint(markers.partitions):
                self.edge.attempt("transaction", self.record, Result(effects=(markers,)), now_ms)
        self.append()

    def write_marker(self, partition: Partition, producer_id: int, committed: bool, batch: bytes) -> None:
        """End a producer's transaction in a partition of `__consumer_offsets`, which is loaded."""
        partition.end_transaction(producer_id, committed, batch)
        self.group_commit.dirty[partition] = None


Perform = Callable[[Engine, Partition, Any, Any], Any]
"""Does what an effect asks for: `(engine, partition, effect, response)`; returns the response, with what came of it."""


def marker(producer_id: int, producer_epoch: int, committed: bool, now_ms: int) -> bytes:
    """Return the batch that ends a transaction, the same in each of its partitions."""
    end = EndMarker(commits=committed, coordinator_epoch=COORDINATOR_EPOCH)
    return record_batch.encode_marker(end, now_ms, producer_id=producer_id, producer_epoch=producer_epoch)


def failure_outcome(request: Any, version: int, code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> Done | Silent:
    """Respond to a request that the server has failed to decide, unless nobody waits for a response.

    A response without a place for the code would look like an answer: that nothing is there."""
    if request is None or (type(request) is ProduceRequest and not request.acks):
        return SILENT
    response = error_response(request, version, code)
    if any(error_walker(response.__class__)(response)):
        return Done(response)
    return Silent("response memory" if code == ErrorCode.POLICY_VIOLATION else "internal error")


def _silently(work: Steps[None]) -> Steps[Outcome]:
    yield from work
    return SILENT


def _batch(markers: Markers, now_ms: int) -> bytes:
    return marker(markers.producer_id, markers.producer_epoch, markers.committed, now_ms)


def _is_due(at_ms: int | None, now_ms: int) -> bool:
    return at_ms is not None and at_ms <= now_ms


def _is_earlier(at_ms: int | None, than_ms: int | None) -> bool:
    return at_ms is not None and (than_ms is None or at_ms < than_ms)
