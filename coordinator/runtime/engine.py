"""The one step for every input, and the turn that many steps make.

    input ──► decide ──► encode ──► apply ──► effects      a step that fails before it applies has changed nothing:
    request     pure     records    state     replies      `edge` logs it once, counts it, and lets the turn go on
    timer                to bytes   timers    events
    topic change                              markers
    end of transaction

A turn is `handle` for each request that has come, `fire` for the timers that are due, `replies` for the requests that
were parked, and `flush` to append what all of them have led to. Nothing that a turn decides may be told to anybody
before its `flush` has returned.

The engine is made of parts, each with its own state: `long_requests` (what is decided in steps), `recorder` (results of
the catalog and of transactions), `share_states`, `memory`, and `group_commit`, which with --fsync says what may be told
when: the turn does not wait for the disk.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from typing import Any, Final

from msgspec import Struct

from coordinator.control.inputs import Kind, VerbInput
from coordinator.core.acls.authorizer import Authorizer
from coordinator.core.catalog.catalog import Change
from coordinator.core.decision import Decision, Done, InSteps, Outcome, Steps
from coordinator.core.events import Cause, Event
from coordinator.core.groups import records_event
from coordinator.core.quotas.buckets import Buckets
from coordinator.core.renewal import Renewal
from coordinator.core.result import Call, Reply, Result, SetTimer
from coordinator.core.share_partitions.operate import ChangeRecords
from coordinator.core.timers import Timers
from coordinator.core.transactions.ending import fence
from coordinator.core.transactions.transaction import Transaction
from coordinator.core.verbs import Verb, VerbResponse
from coordinator.dataplane.brokers import Where
from coordinator.runtime.edge import Failure
from coordinator.runtime.error_response import failure_outcome
from coordinator.runtime.group_commit import GroupCommit
from coordinator.runtime.long_requests import LongRequests
from coordinator.runtime.memory import Memory
from coordinator.runtime.partition import Partition
from coordinator.runtime.recorder import Recorder
from coordinator.runtime.share_states import ShareStates
from coordinator.runtime.steps import StepMeter, UnfinishedRequests
from coordinator.runtime.world import Replies, World
from protocol.errors import UnsupportedVersion
from protocol.messages.heartbeat import HeartbeatRequest
from storage.files import Files, Waker

WORK_A_TURN: Final = 1
"""Steps of patterns and of passes over offsets in one turn, of all partitions together: some milliseconds. However many
groups have patterns that are much work, a turn is no longer."""
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


class Route(Struct, frozen=True):
    """The part of the server that answers an API; failures are counted under its name."""

    api: str
    handle: Callable[["Engine", Any, Call, Where], Decision]


Routes = Mapping[tuple[int, int], Route]  # by API key and version


class Engine:
    """Decides inputs, and collects what they lead to."""

    def __init__(
        self,
        world: World,
        files: Files,
        emit: Callable[[Event], None],
        *,
        routes: Routes,
        effects: "Mapping[type, Perform]",
        offered: dict[int, range],
        authorizer: Authorizer | None,
        real_ms: Callable[[], int],
        fresh_id: Callable[[], str],
        waker: Waker | None = None,
        real_s: Callable[[], float] = monotonic,
        meter: StepMeter,
    ) -> None:
        """`routes` and `effects` are done by others, `offered` has the versions by API key, and without an authorizer
        everything is allowed. `waker` and `real_s` are for `GroupCommit`, `meter` ends the steps of long requests."""
        self.world = world
        self.is_synced = world.is_synced
        self.offered = offered
        self.authorizer = authorizer
        self.mutations = Buckets()  # of `controller_mutation_rate`
        self.memory = Memory(world)
        self._replies: Replies = []
        self.unfinished = UnfinishedRequests(meter)
        self.long_requests = LongRequests(world, self.unfinished)
        self.do_in_steps = self.long_requests.do
        self.recorder = Recorder(
            world, follow_topics=self._follow_topics, do_in_steps=self.do_in_steps, append=self.append
        )
        self.record = self.recorder.record
        self.share_states = ShareStates(world, self.record, self.append, self.fresh_topic_id, self.memory)
        self.group_commit = GroupCommit(world, self.share_states, files, waker, real_s)
        self._routes = routes
        self._decide: Callable[..., Decision | Failure] = world.edge.decide
        self._emit = emit
        self._effects = effects
        self._real_ms = real_ms
        self._fresh_id = fresh_id
        self._held_bytes = 0
        self._forgetting = 0  # how many works remove what is known of topics that are gone
        self._first = 0  # of the partitions, when timers fire
        self._due_ms: int | None = None  # not later than the next timer; earlier does no harm

    def real_ms(self) -> int:
        """Return the time by which fetches wait, whatever the coordinator's clock shows."""
        now_ms = self._real_ms()
        if self.world.note_input is not None:
            self.world.note_input(Kind.REAL, now_ms)
        return now_ms

    def fresh_topic_id(self) -> bytes:
        """Return an id that no topic has had."""
        return bytes.fromhex(self._fresh_id().replace("-", ""))

    def find_renewal(self, heartbeat: HeartbeatRequest) -> Renewal | None:
        """Return how to do a heartbeat again that was successful a moment ago; None if it must be decided again, as
        where an authorizer is asked each time."""
        if self.authorizer is not None:
            return None
        return self.world.partitions.owner(heartbeat.group_id).shard.find_renewal(heartbeat)

    def tell_of_records(self, group_id: str, cause: Cause, member_id: str, by: str, records: str, now_ms: int) -> None:
        """Tell the timeline of a share group what became of records that the member had."""
        group = self.world.partitions.owner(group_id).shard.groups.get(group_id)
        self._emit(records_event(group_id, group, cause, member_id, by, records, now_ms))

    # -- inputs --------------------------------------------------------------------------------------------------------

    def handle(self, api_key: int, request: Any, call: Call, where: Where) -> Outcome:
        """Decide a request, or do the first step of it.

        Raises UnsupportedVersion for what is not offered, UnreadableValue, and nothing else.
        """
        route = self._routes.get((api_key, call.version))
        if route is None:
            raise UnsupportedVersion(api_key, call.version, 0)
        decision = self._decide(route.api, route.handle, self, request, call, where)
        if type(decision) is Done:  # nearly always
            return decision
        if isinstance(decision, InSteps):
            return self.long_requests.begin(route.api, call.ticket, request, call.version, decision.steps)
        return failure_outcome(request, call.version, decision.code) if isinstance(decision, Failure) else decision

    def fire(self, now_ms: int) -> None:
        """Do what is due by now, as much of it as a turn may take: the rest stays due."""
        world = self.world
        if world.note_input is not None and _is_due(self.next_deadline_ms(), now_ms):
            world.note_input(Kind.FIRE, now_ms)
        if self._due_ms is not None and self._due_ms <= now_ms:
            loads = world.coordinators.loads
            if loads and loads.serve_due(now_ms) and self.recorder.has_prepared_transactions:
                self.recorder.finish_transactions(now_ms)  # those whose end was decided during the loading
            may_work, may_go_on = StepBudget(WORK_A_TURN), StepBudget(TIMERS_A_TURN - 1)
            for partition in self._in_turn():
                if _is_due(partition.shard.timers.earliest_wakeup_ms(), now_ms):
                    self.take_all(partition, partition.shard.fire(now_ms, may_work, may_go_on, world.advance))
                    if may_go_on.is_used_up:
                        break
            self._due_ms = min((at_ms for _, at_ms in loads.deadlines()), default=None)
            for partition in world.partitions:
                self._watch(partition.shard.timers)
        transactions, locks = world.ledger.transactions, world.dataplane.share.locks
        if transactions.timeouts and _is_due(transactions.next_deadline_ms(), now_ms):
            for transaction in transactions.pop_overdue(
                now_ms, TIMERS_A_TURN, world.coordinators.is_transaction_served
            ):
                world.edge.attempt("timer transaction", self._time_out, transaction, now_ms)
        if locks.count and _is_due(locks.next_deadline_ms(), now_ms):
            world.dataplane.expire_locks(now_ms, TIMERS_A_TURN)

    def command(self, verb: Verb | ChangeRecords, now_ms: int, fresh_id: Callable[[], str]) -> VerbResponse | Failure:
        """Do what an operator asks of a group or its records."""
        world = self.world
        if world.note_input is not None:
            world.note_input(Kind.VERB, VerbInput.of(verb, now_ms))
        call = Call(0, now_ms, 0, None, "", fresh_id)
        if isinstance(verb, ChangeRecords):
            return world.edge.attempt("operator", world.dataplane.change_records, verb, call)
        partition = world.partitions.owner(verb.group_id)
        return world.edge.attempt("operator", lambda: self.take(partition, partition.shard.handle(verb, call)))

    def wake_at(self, at_ms: int) -> None:
        """Have something to do at this time, or earlier."""
        if self._due_ms is None or at_ms < self._due_ms:
            self._due_ms = at_ms

    def _in_turn(self) -> list[Partition]:
        """Return all partitions, each as the first in its turn: the work of one does not keep the others waiting."""
        partitions = list(self.world.partitions)
        self._first = (self._first + 1) % len(partitions)
        return partitions[self._first :] + partitions[: self._first]

    # -- what inputs lead to -------------------------------------------------------------------------------------------

    def take(self, partition: Partition, result: Result[Any], group_id: str | None = None) -> Any:
        """Collect the effects of a shard's result, and return its response: None while the request is parked.

        With a `group_id` the result has changed no other group."""
        if result.records:
            self.world.dirty[partition] = None
            if self.is_synced:
                self.group_commit.note_change(partition if group_id is None else group_id)
        if result.events:
            for event in result.events:
                self._emit(event)
        response = result.response
        if result.effects:
            for effect in result.effects:
                if type(effect) is SetTimer:
                    continue  # the shard has done it, as it does some others
                if type(effect) is Reply:
                    self._replies.append((effect.ticket, Done(effect.response)))
                elif (perform := self._effects.get(type(effect))) is not None:
                    response = perform(self, partition, effect, response)
        return response

    def take_all(self, partition: Partition, results: Iterable[Result[Any]]) -> None:
        """Collect the effects of many results."""
        for result in results:
            self.take(partition, result)

    def take_steps(self, partition: Partition, steps: Iterator[list[Result[Any]]]) -> Steps[None]:
        """Do what a shard does in steps, and collect the effects.

        A shard that has moved meanwhile does no more: the one in its place has found the rest in the log.
        """
        shard = partition.shard
        while partition.shard is shard and (results := next(steps, None)) is not None:
            self.take_all(partition, results)
            yield

    def _watch(self, timers: Timers) -> None:
        """Look at the timers of a partition when one of them is next due. To find that costs most: it is done only if
        it may come before all others."""
        if _is_earlier(timers.earliest_wakeup_ms(), self._due_ms):
            due_ms = timers.next_deadline_ms()
            if _is_earlier(due_ms, self._due_ms):
                self._due_ms = due_ms

    def next_deadline_ms(self) -> int | None:
        """Return when `fire` may have something to do; None for never."""
        due_ms, world = self._due_ms, self.world
        transactions, locks = world.ledger.transactions, world.dataplane.share.locks
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
        replies = self._replies
        replies += self.long_requests.take_replies()
        if self.world.note_input is not None and (replies or self.next_poll_ms() is not None):
            self.world.note_input(Kind.REPLIES, None)
        polls = self.world.dataplane.replies()
        if not (polls or replies):
            return []  # nearly always
        found: Replies = [*replies, *[(ticket, Done(response)) for ticket, response in polls]]
        replies.clear()
        return found

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
            self.world.edge.attempt("disconnect", self.world.dataplane.close_connection, connection, now_ms)

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
            return
        if self.group_commit.has_unwritten:
            self.append()
        if self.world.dataplane.has_written:
            self.world.dataplane.forget_writes()

    def append(self) -> None:
        """Append what was decided so far, in the middle of a step as well, and with --fsync wait for the disk."""
        if self.is_synced:
            self.group_commit.sync_everything()
        else:
            self.group_commit.append()
            self.world.ledger.settle()

    def stop(self) -> None:
        """Decide no request any more."""
        self._routes = {}

    # -- within --------------------------------------------------------------------------------------------------------

    def attempt(self, kind: str, step: Callable[[], Result[Any]]) -> Result[Any] | None:
        """Return the result of a shard's step; None if it fails, which leads to nothing."""
        result = self.world.edge.attempt(kind, step)
        return None if isinstance(result, Failure) else result

    def _time_out(self, transaction: Transaction, now_ms: int) -> None:
        self.record(fence(transaction, now_ms), now_ms)

    def _follow_topics(self, changes: tuple[Change, ...], now_ms: int) -> None:
        """Begin to forget what is known of topics that are gone."""
        ended = [change for change in changes if change.is_end and change.before is not None]
        gone = {change.name: [change.before.id] for change in ended if change.before is not None}
        if gone:
            self.forget_topics(self._forget_topics(ended, gone, now_ms))

    def forget_topics(self, work: Steps[None]) -> None:
        """Remove in steps what is known of topics that are gone. Where nothing else does, and no log is still to be
        loaded, nothing is left of them."""
        self._forgetting += 1
        self.do_in_steps(self._forget_to_the_end(work))

    def _forget_to_the_end(self, work: Steps[None]) -> Steps[None]:
        try:
            yield from work
        finally:
            self._forgetting -= 1
        if not (self._forgetting or self.world.partitions.loading) and self.share_states.is_served:
            self.world.ledger.catalog.forget_gone()

    def _forget_topics(self, ended: list[Change], gone: dict[str, list[bytes]], now_ms: int) -> Steps[None]:
        """Remove what share groups know of topics that are gone, and what groups have committed to them. Partitions
        that are loading find it themselves."""
        yield from self.world.dataplane.forget_topics(ended)
        yield from self.share_states.forget_topics({topic_id for ids in gone.values() for topic_id in ids}, now_ms)
        for partition in self.world.partitions:
            if partition.is_loaded:
                yield from self.take_steps(partition, partition.shard.forget_topics(gone, now_ms))


Perform = Callable[[Engine, Partition, Any, Any], Any]
"""Does what an effect asks for: `(engine, partition, effect, response)`; returns the response, with what came of it."""


def _is_due(at_ms: int | None, now_ms: int) -> bool:
    return at_ms is not None and at_ms <= now_ms


def _is_earlier(at_ms: int | None, than_ms: int | None) -> bool:
    return at_ms is not None and (than_ms is None or at_ms < than_ms)
