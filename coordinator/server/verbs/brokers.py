"""Stop and start brokers, and move coordinators from one broker to another."""

from collections.abc import Awaitable, Callable

import trio
from msgspec import Struct

from coordinator.core.moves import BrokerVerb, MoveGroup, MoveTransaction, StartBroker, StopBroker
from coordinator.dataplane.brokers import NOBODY
from coordinator.runtime.edge import Failure
from coordinator.runtime.loads import GROUPS, TRANSACTIONS
from coordinator.runtime.node import Node
from coordinator.server.frontend import Frontend
from coordinator.server.poller import Poller
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.state import World
from coordinator.server.virtual_brokers import VirtualBrokers


class CoordinatorView(Struct, frozen=True):
    """The coordinator of a group or of a transactional id."""

    key: str
    type: str  # group or transaction
    partition: int  # of __consumer_offsets, or of the transactional ids
    broker: int | None  # None while no broker runs
    is_loading: bool


class BrokerView(Struct, frozen=True):
    """A broker, and how many partitions it coordinates."""

    id: int
    is_running: bool
    listeners: dict[str, str]  # advertised addresses by the names of the listeners
    groups: int  # partitions of __consumer_offsets
    transactions: int  # partitions of transactional ids
    loading: int  # of both, those that it is loading


class BrokerVerbs:
    """The verbs for brokers and coordinators."""

    def __init__(
        self, node: Callable[[], Node], frontend: Frontend, poller: Poller, world: World, brokers: VirtualBrokers
    ) -> None:
        self._node = node
        self._frontend = frontend
        self._poller = poller
        self._world = world
        self._brokers = brokers
        self._is_rolling = False

    # -- views ---------------------------------------------------------------------------------------------------------

    def views(self) -> list[BrokerView]:
        """Return every broker."""
        return [self.view(node_id) for node_id in self._brokers.node_ids]

    def view(self, node_id: int) -> BrokerView:
        """Return one broker. Raises Refusal if there is no broker with this id."""
        self._check_exists(node_id)
        coordinators, loads = self._node().world.coordinators, self._node().world.coordinators.loads
        maps = {GROUPS: coordinators.of_groups, TRANSACTIONS: coordinators.of_transactions}
        return BrokerView(
            node_id,
            self._is_running(node_id),
            self._brokers.addresses(node_id),
            groups=coordinators.of_groups.count(node_id),
            transactions=coordinators.of_transactions.count(node_id),
            loading=sum(maps[kind][index] == node_id for kind in maps for index in loads.loading_partitions(kind)),
        )

    def coordinator(self, key: str, kind: str = "group") -> CoordinatorView:
        """Return the coordinator of a group or a transactional id, which need not exist."""
        coordinators, is_group = self._node().world.coordinators, kind == "group"
        index = coordinators.partition_of(key)
        node_id = (coordinators.of_groups if is_group else coordinators.of_transactions)[index]
        is_loading = self._node().world.coordinators.loads.is_loading(GROUPS if is_group else TRANSACTIONS, index)
        return CoordinatorView(key, kind, index, None if node_id == NOBODY else node_id, is_loading)

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def move_group(
        self, group_id: str, to: int, *, load_ms: int = 0, lose_last_commits: int = 0, keep_members: bool = True
    ) -> CoordinatorView:
        """Let another broker coordinate a group, and all groups of its partition of `__consumer_offsets`.

        The new coordinator serves the group once it has read the partition's log, and `load_ms` have passed by the
        coordinator's clock. It does not find the group's last `lose_last_commits` commits, nor its members without
        `keep_members`. `to` may be the broker that coordinates the group already: it then loads the group again.
        """
        self._check_may_move(to)
        self._do(MoveGroup(group_id, to, load_ms, lose_last_commits, keep_members))
        return self.coordinator(group_id)

    def move_transaction(self, transactional_id: str, to: int, *, load_ms: int = 0) -> CoordinatorView:
        """Let another broker coordinate a transactional id, and all others of its partition."""
        self._check_may_move(to)
        self._do(MoveTransaction(transactional_id, to, load_ms))
        return self.coordinator(transactional_id, "transaction")

    def stop(self, node_id: int, *, load_ms: int = 0) -> BrokerView:
        """Stop a broker: the others take over what it coordinates, then its connections are closed."""
        self._check_exists(node_id)
        self._check_ready()
        if not self._is_running(node_id):
            raise Refusal(f"broker {node_id} is stopped already", is_conflict=True)
        self._do(StopBroker(node_id, load_ms))
        self._brokers.stop(node_id)
        return self.view(node_id)

    def start(self, node_id: int, *, load_ms: int = 0) -> BrokerView:
        """Start a stopped broker. It coordinates what has no coordinator, and what is moved to it later."""
        self._check_exists(node_id)
        self._check_ready()
        if self._is_running(node_id):
            raise Refusal(f"broker {node_id} is running already", is_conflict=True)
        try:
            self._brokers.start(node_id)
        except OSError as error:
            raise Refusal(f"broker {node_id} cannot listen: {error.strerror or error}", is_conflict=True) from None
        self._do(StartBroker(node_id, load_ms))
        return self.view(node_id)

    async def restart_all(
        self, next_turn: Callable[[], Awaitable[None]], *, down_ms: int = 0, load_ms: int = 0
    ) -> list[BrokerView]:
        """Restart the running brokers one after the other, each down for `down_ms` of real time.

        Before the next broker stops, everything is loaded. `next_turn` waits until something may have changed. If the
        caller is cancelled, the broker that is down starts again, and no other one stops. A reset or a restore, which
        starts all brokers, ends it.
        """
        if self._is_rolling:
            raise Refusal("a rolling restart is under way", is_conflict=True)
        self._is_rolling, node = True, self._node()

        def check_node() -> None:
            if node is not self._node():
                raise Refusal("the server was reset meanwhile", is_conflict=True)

        try:
            for node_id in self._brokers.node_ids:
                if self._is_running(node_id):
                    self.stop(node_id, load_ms=load_ms)
                    try:
                        await trio.sleep(down_ms / 1000)
                    except trio.Cancelled:
                        if self._poller.is_running and node is self._node() and not self._is_running(node_id):
                            self.start(node_id, load_ms=load_ms)
                        raise
                    check_node()
                    self.start(node_id, load_ms=load_ms)
                    while node.world.coordinators.loads:
                        await next_turn()
                        check_node()
        finally:
            self._is_rolling = False
        return self.views()

    # -- within --------------------------------------------------------------------------------------------------------

    def _do(self, verb: BrokerVerb) -> None:
        """Carry out a verb, in a turn of its own. Raises Refusal."""
        node, fresh_id = self._node(), self._frontend.handler.fresh_id
        response = self._poller.perform(lambda now_ms: node.command(verb, now_ms, fresh_id))
        if isinstance(response, Failure):
            raise Refusal("internal error: the server's log says why", is_conflict=True)
        if response.refusal:
            raise Refusal(response.refusal, is_conflict=True)

    def _is_running(self, node_id: int) -> bool:
        return node_id not in self._node().world.coordinators.stopped

    def _check_ready(self) -> None:
        if not self._world.is_ready:
            raise Refusal("the server is still loading", is_conflict=True)

    def _check_may_move(self, to: int) -> None:
        self._check_ready()
        self._check_exists(to)
        if not self._is_running(to):
            raise Refusal(f"broker {to} is stopped", is_conflict=True)

    def _check_exists(self, node_id: int) -> None:
        if node_id not in self._brokers.node_ids:
            known = ", ".join(map(str, self._brokers.node_ids))
            raise Refusal(f"there is no broker {node_id}: expected one of {known}", is_conflict=True)
