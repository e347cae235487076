"""A server in memory with an operator."""

import errno
from collections.abc import Callable, Generator
from typing import Any, cast

from msgspec.structs import replace

from coordinator.control.inputs import AdvertisedListener, Origin
from coordinator.runtime.clock import CoordinatorClock
from coordinator.runtime.dice import FreshIds
from coordinator.runtime.restart import free_node, prepare_node
from coordinator.runtime.snapshot import Snapshot, read_logs_in_steps
from coordinator.server.connection import MemberName, connections_of
from coordinator.server.listener import Listener
from coordinator.server.operator import Operator
from coordinator.server.poller import Poller, T
from coordinator.server.verbs.waits import Waits
from coordinator.server.virtual_brokers import VirtualBrokers
from protocol.steps import finish_steps
from storage import replacement
from storage.files import StorageError
from storage.pending_reset import PendingReset
from tests.members import ClassicMember
from tests.server.in_memory import InMemory


class MemoryPoller:
    """What an operator needs of a poller, without sockets."""

    is_running = True

    def __init__(self, server: InMemory) -> None:
        self._server = server
        self._stopped = set[tuple[str, int]]()  # names and ports of listeners that accept nobody
        self.is_held = False

    def turn(self) -> bool:
        if not self.is_held:
            self._server.turn()
        return False

    def hold(self) -> None:
        assert not self.is_held, "who holds clients is alone"
        self.is_held = True

    def release(self) -> None:
        self.is_held = False

    def perform(self, action: Callable[[int], T]) -> T:
        self._server.frontend.begin()
        try:
            return action(self._server.frontend.turn.now_ms)
        finally:
            self._server.turn()

    def close_all(self, reason: str) -> None:
        for connection in self._server.receivers():
            self._server.frontend.disconnect(connection)

    def close_member(self, reason: str, member: MemberName, client_id: str) -> None:
        for connection in connections_of(member, client_id, self._server.receivers()):
            self._server.frontend.disconnect(connection)

    def start_listening(self, listener: Listener) -> Listener:
        if (listener.name, listener.port) not in self._stopped:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self._stopped.remove((listener.name, listener.port))
        return listener

    def stop_listening(self, listener: Listener) -> Listener:
        for connection in self._server.receivers():
            if connection.listener is listener:
                self._server.frontend.disconnect(connection)
        self._stopped.add((listener.name, listener.port))
        return listener

    def client_ids(self) -> frozenset[str]:
        return frozenset(one.client_id or "" for one in self._server.receivers() if not one.closing)

    def reset_alarm(self) -> None:
        """A test has its turns when it wants them."""


class SteeredNode(InMemory):
    """A server whose coordinator's clock moves only by the operator, while real time stands still."""

    def __init__(self, *, journal_bytes: int = 0, seed: int = 7, **values: Any) -> None:
        """`journal_bytes`: how large the journal is, which is on from the start."""
        values = {"group_initial_rebalance_delay_ms": 3_000, **values}
        super().__init__(is_steered=True, is_loaded=False, seed=seed, **values)
        assert isinstance(self.clock, CoordinatorClock)
        self._seed, self._opened_ms, self._ids_before = seed, self.clock.now_ms(), 0
        self._producer_ids_before = 0
        self.failure: StorageError | None = None  # by which a server would have ended
        self._fresh_ids = cast("FreshIds", self.setup.fresh_id)
        self.frontend.handler.fresh_id = self._fresh_ids  # one source of ids, as in a server
        self.poller = MemoryPoller(self)
        poller = cast("Poller", self.poller)
        self.brokers = VirtualBrokers(self.listeners, poller)
        self.operator = Operator(lambda: self.node, self.frontend, poller, self.clock, self, self.brokers)
        self.operator.requests.set_journal(journal_bytes)
        self.operator.requests.begin_journal(self.origin)
        self.load()
        finish_steps(self.operator.state.finish_reset_in_steps())

    @property
    def is_ready(self) -> bool:
        return True

    def begin_snapshot(self) -> Generator[None, None, Snapshot]:
        self.node.engine.flush()
        self.node.engine.append()
        return read_logs_in_steps(self.files, "data")

    def take_snapshot(self) -> Snapshot:
        return finish_steps(self.begin_snapshot())

    @property
    def pending_reset(self) -> PendingReset:
        return PendingReset(self.files, "data")

    @property
    def origin(self) -> Origin:
        return Origin(
            opened_ms=self._opened_ms,
            seed=self._seed,
            ids=self._ids_before,
            is_empty=self.node.began_empty,
            compat=self.setup.compat,
            settings=self.setup.config.given(),
            topics=self.setup.topics,
            listeners=tuple(
                AdvertisedListener(one.name, one.where.node_id, one.host, one.port) for one in self.listeners
            ),
            is_synced=self.setup.is_synced,
            cluster_id=self.setup.cluster_id,
            producer_ids=self._producer_ids_before,
        )

    def prepare_restart(self, snapshot: Snapshot) -> None:
        self.next = prepare_node(replace(self.setup, cluster_id=self.node.cluster_id), snapshot)

    def restart_in_steps(self, opened: Callable[[], None]) -> Waits[None]:
        for connection in self.receivers():
            self.frontend.disconnect(connection)
        self.brokers.start_all()
        self.setup = replace(self.setup, cluster_id=self.node.cluster_id)
        old = self.node
        self._producer_ids_before = old.world.ledger.transactions.next_producer_id
        old.abandon()
        replacement.finish(self.files, "data")
        self.node = self.next
        self.frontend.set_engine(self.node.engine)
        self._opened_ms, self._ids_before = self.clock.now_ms(), self._fresh_ids.count
        self.node.open(self._opened_ms, self._producer_ids_before)
        opened()
        if not self.node.began_empty:
            self.poller.release()
            yield from free_node(old)
        for step in self.node.load(self.clock.now_ms):
            if not self.node.began_empty:
                yield step.opens
        if self.node.began_empty:
            self.poller.release()
            yield from free_node(old)

    def fail(self, failure: StorageError) -> None:
        self.failure = failure

    def causes(self) -> list[str]:
        """The causes of all events so far."""
        return [str(event.cause) for event in self.events]


def stable_group(server: SteeredNode, *names: str, broker: int = 0, **options: Any) -> list[ClassicMember]:
    """Members that have joined, with the first as the leader, and synced. Their client ids are their names."""
    members = [ClassicMember(server.connect(name, broker=broker), **options) for name in names]
    for member in members:
        member.join()
    server.operator.clock.advance(10_000, lambda group, member: True)  # beyond the initial delay
    for member in members:
        member.take_join()
    for member in members:
        member.sync()
    return members
