"""Move coordinators to other brokers, as after an election: unload, read the log again, serve.

    unload ──► replay, in steps ──► serve, once the time to load has passed
    parked requests get            requests get COORDINATOR_LOAD_IN_PROGRESS from the new broker, NOT_COORDINATOR from
    NOT_COORDINATOR                any other

The brokers of a node share its logs, so that the new coordinator reads what the old one has written. State that is in
no log is lost: parked requests, pending members, the times of the last heartbeats.
"""

import errno
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from coordinator.core.catalog import records
from coordinator.core.catalog.records import TransactionKey
from coordinator.core.decision import Steps
from coordinator.core.moves import (
    BrokerVerb,
    LoseCommits,
    LoseMembers,
    MoveGroup,
    MoveTransaction,
    StartBroker,
    StopBroker,
)
from coordinator.core.result import Call
from coordinator.core.share_state.machine import StateMachine
from coordinator.core.transactions.transactions import Transactions
from coordinator.core.verbs import VerbResponse
from coordinator.dataplane.brokers import NOBODY
from coordinator.runtime import loader
from coordinator.runtime.damage import describe_damage, read_log
from coordinator.runtime.engine import Engine
from coordinator.runtime.loads import GROUPS, SHARE_STATES, TRANSACTIONS, Key, Load
from coordinator.runtime.log_pace import LogPace
from coordinator.runtime.partition import Partition
from coordinator.runtime.shards import Shards
from protocol.errors import ProtocolError
from storage.files import StorageError
from storage.layout import DamagedLog


class Failover:
    """Moves coordinators between the brokers of a node."""

    def __init__(self, engine: Engine, shards: Shards) -> None:
        self._engine = engine
        self._shards = shards
        self._memberless: dict[int, dict[str, Call]] = {}
        """The groups that are to lose their members once their partition is served, by partition and group id."""

    def perform(self, verb: BrokerVerb, call: Call) -> VerbResponse:
        """Carry out a verb for brokers and coordinators."""
        match verb:
            case MoveGroup():
                return self._move_group(verb, call)
            case MoveTransaction(transactional_id, to, load_ms):
                index = self._engine.world.coordinators.partition_of(transactional_id)
                self._move_transactions(index, to, call.now_ms, load_ms)
            case StopBroker(node_id, load_ms):
                self._engine.world.coordinators.stopped.add(node_id)
                self._hand_over(node_id, call.now_ms, load_ms)
            case StartBroker(node_id, load_ms):
                self._engine.world.coordinators.stopped.discard(node_id)
                self._hand_over(NOBODY, call.now_ms, load_ms)
        return VerbResponse()

    def _move_group(self, verb: MoveGroup, call: Call) -> VerbResponse:
        group_id, partition = verb.group_id, self._engine.world.partitions.owner(verb.group_id)
        if verb.lose_last_commits:
            refused = self._lose_commits(partition, group_id, verb.lose_last_commits, call)
            if refused.refusal:
                return refused

        if not verb.keep_members:
            self._memberless.setdefault(partition.index, {})[group_id] = call
        self._move_groups(partition.index, verb.to, call.now_ms, verb.load_ms)
        return VerbResponse()

    def _lose_members(self, partition: Partition, now_ms: int) -> None:
        """Let the groups lose their members whose moves said so, though other moves may have overtaken those."""
        for group_id, call in self._memberless.pop(partition.index, {}).items():
            result = partition.shard.handle(LoseMembers(group_id), replace(call, now_ms=now_ms))
            self._engine.take(partition, result)

    def _lose_commits(self, partition: Partition, group_id: str, count: int, call: Call) -> VerbResponse:
        """Undo the last commits of a group, in memory and in its log."""
        if not partition.is_loaded:
            return VerbResponse(f"group {group_id!r} is being loaded")
        history = partition.history
        commits = () if history is None else history.last(group_id, count)
        if history is None or len(commits) < count:
            return VerbResponse(f"{len(commits)} commits of group {group_id!r} are known, not {count}")
        partition.history = None  # the records that undo them are not commits
        try:
            response: VerbResponse = self._engine.take(
                partition, partition.shard.handle(LoseCommits(group_id, commits), call)
            )
        finally:
            partition.history = history
        if not response.refusal:
            history.forget(commits)
        return response

    def _hand_over(self, node_id: int, now_ms: int, load_ms: int) -> None:
        """Move everything that a broker has coordinated to running brokers."""
        coordinators = self._engine.world.coordinators
        for index in range(len(coordinators.of_groups)):
            if coordinators.of_groups[index] == node_id:
                self._move_groups(index, coordinators.successor(index), now_ms, load_ms)
            if coordinators.of_transactions[index] == node_id:
                self._move_transactions(index, coordinators.successor(index), now_ms, load_ms)
        for index in range(len(coordinators.of_share_states)):
            if coordinators.of_share_states[index] == node_id:
                self._move_share_states(index, coordinators.successor(index), now_ms, load_ms)

    def _move_groups(self, index: int, to: int, now_ms: int, load_ms: int) -> None:
        """Let another broker, or none, coordinate the groups of a partition."""
        engine = self._engine
        partition, reason = engine.world.partitions[index], _reason(engine.world.coordinators.of_groups[index], to)
        self._shards.unload(partition, now_ms, reason)
        engine.world.coordinators.of_groups[index] = to

        def serve(now_ms: int) -> None:
            self._shards.serve(partition, now_ms)
            self._lose_members(partition, now_ms)

        replaying = loader.replay(partition) if partition.has_log else iter(())
        self._load((GROUPS, index), to, Load(now_ms + load_ms, serve), replaying)

    def _move_transactions(self, index: int, to: int, now_ms: int, load_ms: int) -> None:
        """Let another broker, or none, coordinate the transactional ids of a partition."""
        engine, transactions = self._engine, self._engine.world.ledger.transactions

        def owns(transactional_id: str) -> bool:
            return engine.world.coordinators.partition_of(transactional_id) == index

        engine.world.coordinators.of_transactions[index] = to
        load = Load(now_ms + load_ms, lambda _: transactions.resume_timeouts())
        self._load((TRANSACTIONS, index), to, load, self._replay_transactions(owns))

    def _move_share_states(self, index: int, to: int, now_ms: int, load_ms: int) -> None:
        """Let another broker, or none, coordinate the states of a partition of `__share_group_state`."""
        states = self._engine.share_states
        self._engine.do_in_steps(_forget(states.unload(index)))
        self._engine.world.coordinators.of_share_states[index] = to
        load = Load(now_ms + load_ms, lambda now_ms: states.serve(index, now_ms))
        self._load((SHARE_STATES, index), to, load, states.replay(index))

    def _load(self, key: Key, to: int, load: Load, replaying: Iterator[object]) -> None:
        loads = self._engine.world.coordinators.loads
        loads.end(key)  # its steps find that another load has taken its place
        if to != NOBODY:
            loads.begin(key, load)
            self._engine.do_in_steps(self._replay(key, load, replaying))

    def _replay(self, key: Key, load: Load, replaying: Iterator[object]) -> Steps[None]:
        yield  # all of the partitions are unloaded first, in the step that has begun this
        loads, is_over = self._engine.world.coordinators.loads, object()
        try:
            while loads.is_current(key, load):  # else the log is another load's to read, from its beginning
                if next(replaying, is_over) is is_over:
                    load.is_replayed = True
                    self._engine.wake_at(load.at_ms)
                    return
                yield
        except DamagedLog as damage:  # which ends the process, as at a start
            raise StorageError("read", damage.path, errno.EIO, str(damage)) from damage

    def _replay_transactions(self, owns: Callable[[str], bool]) -> Steps[None]:
        """Read the transactional ids of a partition from the log, and put them in the place of those in memory.

        What differs is found in steps. What is written about them meanwhile is read as well: it is newer in both.
        """
        transactions = self._engine.world.ledger.transactions
        found = Transactions(transactions.settings)
        offset = yield from self._read_transactions(found, owns, self._engine.world.ledger.log.start_offset)
        differences = yield from transactions.find_differences(found, owns)
        yield from self._read_transactions(found, owns, offset)
        transactions.replace(differences, found)

    def _read_transactions(self, found: Transactions, owns: Callable[[str], bool], offset: int) -> Steps[int]:
        """Read transactional ids from the log, from an offset on. Returns the offset behind the last record."""
        ledger, pace = self._engine.world.ledger, LogPace()
        while offset < ledger.log.end_offset or self._flush_ledger():  # others go on writing to it
            for header, facts in read_log(ledger.log, offset):
                for fact in facts:
                    try:
                        record = records.decode(fact.key, fact.value)
                    except (ProtocolError, ValueError) as error:
                        raise describe_damage(ledger.log, fact.offset, error) from error
                    if isinstance(record.key, TransactionKey) and owns(record.key.transactional_id):
                        found.replay(record)
                offset = header.next_offset
                if pace.count(header, len(facts)):
                    pace.take()
                    yield
        return offset

    def _flush_ledger(self) -> bool:
        """Append what the catalog and the transactions have gathered; whether there was anything."""
        world = self._engine.world
        if not world.ledger.flush():
            return False
        if world.is_synced:
            world.ledger.sync()
        return True


def _forget(states: StateMachine) -> Steps[None]:
    yield  # all of the partitions are unloaded first, in the step that has begun this
    yield from states.forget()


def _reason(before: int, after: int) -> str:
    if after == NOBODY:
        return f"broker {before} has stopped"
    return f"from broker {before} to broker {after}" if before != NOBODY else f"to broker {after}"
