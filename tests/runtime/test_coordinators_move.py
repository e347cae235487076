"""Several brokers, of which some stop and whose groups and transactional ids move: each has one coordinator that serves it.

What the clients are told is compared with a model, and with each other: where FindCoordinator sends them they are served.
"""

from random import Random
from typing import Any, Final

import pytest

from coordinator.core.moves import BrokerVerb, MoveGroup, MoveTransaction, StartBroker, StopBroker
from coordinator.core.share_state.keys import coordinator_key
from coordinator.core.share_state.values import StateKey
from coordinator.core.transactions.states import State
from coordinator.core.verbs import VerbResponse
from protocol.errors import ErrorCode
from protocol.java_hash import partition_of
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateRequestPartitionData,
    ReadShareGroupStateRequestReadStateData,
)
from tests.requests import commit, commit_in_transaction, fetch_offsets
from tests.server.in_memory import InMemory

BROKERS: Final = (0, 1, 2)
PARTITIONS: Final = 4
LOAD_MS: Final = 5_000
TIMEOUT_MS: Final = 60_000
NAMES: Final = tuple("abcdef")
GROUP, TRANSACTION, SHARE = 0, 1, 2
LOADING, NOT_HERE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR


class Brokers:
    """A server of several brokers, and who coordinates what by the moves that were made."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.server = InMemory(virtual_brokers=len(BROKERS), offsets_topic_num_partitions=PARTITIONS,
                               share_coordinator_state_topic_num_partitions=PARTITIONS)  # fmt: skip
        self.peers = [self.server.connect(broker=node_id) for node_id in BROKERS]
        self.topic_id = self.server.node.world.ledger.catalog.topics_by_name["orders"].id
        self.stopped: set[int] = set()
        self.begun: dict[str, int] = {}  # open transactions, and when they end at the latest

    def ask(self, node_id: int, request: Any, version: int) -> Any:
        peer = self.peers[node_id]
        peer.send((request, version))
        self.server.rest()
        return peer.answers[-1][1]

    @property
    def running(self) -> list[int]:
        return [node_id for node_id in BROKERS if node_id not in self.stopped]

    def command(self, verb: BrokerVerb) -> None:
        told = self.server.node.command(verb, self.server.clock.now_ms(), str)
        assert told == VerbResponse()
        self.server.rest()

    def find(self, key_type: int, names: tuple[str, ...]) -> list[int]:
        """Where clients are sent for each name, by any broker."""
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=names)
        answers = [self.ask(node_id, request, 6).coordinators for node_id in self.running]
        assert all(answer == answers[0] for answer in answers)
        found = [one.node_id for one in answers[0]]
        assert set(found) <= set(self.running), "who runs"
        return found

    # -- what happens --------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        if len(self.running) > 1:
            node_id = self.random.choice(self.running)
            before = {key_type: self.find(key_type, NAMES) for key_type in (GROUP, TRANSACTION)}
            self.stopped.add(node_id)
            self.command(StopBroker(node_id, LOAD_MS))
            for key_type, those in before.items():
                for name, was, at in zip(NAMES, those, self.find(key_type, NAMES), strict=True):
                    assert (at == was) == (was != node_id), "what others coordinate stays where it is"
                    assert was == at or self.use(at, key_type, name) == LOADING
            self.compare(is_loading=True)

    def start(self) -> None:
        if self.stopped:
            node_id = self.random.choice(sorted(self.stopped))
            self.stopped.remove(node_id)
            self.command(StartBroker(node_id, LOAD_MS))

    def move(self) -> None:
        name, to = self.random.choice(NAMES), self.random.choice(self.running)
        is_group, had_loads = self.random.random() < 0.5, bool(self.server.node.world.coordinators.loads)
        self.command(MoveGroup(name, to, LOAD_MS) if is_group else MoveTransaction(name, to, LOAD_MS))
        key_type = GROUP if is_group else TRANSACTION
        assert self.find(key_type, (name,)) == [to]
        assert self.use(to, key_type, name) == LOADING
        self.compare(is_loading=True)
        if not had_loads:  # a list would lack what is loaded
            for request, version, is_of_groups in (
                (ListGroupsRequest(), 5, True),
                (ListTransactionsRequest(), 1, False),
            ):
                for node_id in self.running:
                    lacks = node_id == to and is_group == is_of_groups
                    assert self.ask(node_id, request, version).error_code == (LOADING if lacks else ErrorCode.NONE)

    def pass_some_time(self) -> None:
        """Let the loads that are still to come end later than those of before."""
        self.server.advance(LOAD_MS / 2_000)

    def begin(self) -> None:
        """Begin a transaction that has an offset of its group, if nothing of it is being loaded."""
        (name,) = self.random.sample(NAMES, 1)
        if name in self.begun:
            return
        (at,), (of_group,) = self.find(TRANSACTION, (name,)), self.find(GROUP, (name,))
        made = self.ask(at, InitProducerIdRequest(name, TIMEOUT_MS), 4)
        if made.error_code in (LOADING, ErrorCode.CONCURRENT_TRANSACTIONS):
            return
        assert made.error_code == ErrorCode.NONE
        producer = made.producer_id, made.producer_epoch
        done = self.ask(of_group, commit_in_transaction(name, name, producer, {"orders": {0: 1}}), 5)
        if done.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self.begun[name] = self.server.clock.now_ms() + TIMEOUT_MS

    def wait(self) -> None:
        """Let loads end. Nothing else is due that would have them looked at."""
        assert self.server.node.engine.next_deadline_ms() is not None or not self.server.node.world.coordinators.loads
        for _ in range(2):
            self.server.advance(LOAD_MS / 2_000)
            self.server.rest()
        assert not self.server.node.world.coordinators.loads
        self.compare(is_loading=False)

    def wait_long(self) -> None:
        """Let transactions time out, those of which the coordinator has moved in the meantime as well."""
        self.server.advance(TIMEOUT_MS / 1_000 - 1)
        for name in self.begun:  # it is to end while it is loaded
            self.command(MoveTransaction(name, self.random.choice(self.running), LOAD_MS))
        self.server.advance(2)
        self.wait()
        for name in self.begun:
            (at,) = self.find(TRANSACTION, (name,))
            (told,) = self.ask(at, DescribeTransactionsRequest((name,)), 0).transaction_states
            assert told.transaction_state == "CompleteAbort"
        self.begun.clear()

    def stop_all(self) -> None:
        """While no broker runs nothing times out; it does once one that has loaded it runs."""
        for node_id in self.running:
            self.command(StopBroker(node_id, LOAD_MS))
        self.server.advance(2 * TIMEOUT_MS / 1_000)
        self.server.rest()
        by_id = self.server.node.world.ledger.transactions.by_id
        assert {name for name in self.begun if by_id[name].state != State.ONGOING} == set()
        self.stopped.clear()
        for node_id in BROKERS:
            self.command(StartBroker(node_id, LOAD_MS))
        self.wait()
        assert {by_id[name].state for name in self.begun} <= {State.COMPLETE_ABORT}
        self.begun.clear()

    # -- what clients are told -----------------------------------------------------------------------------------------

    def compare(self, *, is_loading: bool) -> None:
        """Who coordinates a name serves it, or is loading it, and nobody else does."""
        allowed = (ErrorCode.NONE, LOADING) if is_loading else (ErrorCode.NONE,)
        share_keys = tuple(coordinator_key(StateKey(name, self.topic_id, 0)) for name in NAMES)
        self.find_states(share_keys)
        for key_type, keys in ((GROUP, NAMES), (TRANSACTION, NAMES), (SHARE, share_keys)):
            for name, at in zip(NAMES, self.find(key_type, keys), strict=True):
                for node_id in self.running:
                    code = self.use(node_id, key_type, name)
                    assert code in (allowed if node_id == at else (NOT_HERE,)), (key_type, name, node_id, at)
        self.compare_leaders()
        for request, version, entries in ((ListGroupsRequest(), 5, "groups"),
                                          (ListTransactionsRequest(), 1, "transaction_states")):  # fmt: skip
            answers = [self.ask(node_id, request, version) for node_id in self.running]
            assert {answer.error_code for answer in answers} <= set(allowed)
            listed = [len(getattr(answer, entries)) for answer in answers]
            if not is_loading:
                assert sum(listed) == self.count(entries)

    def compare_leaders(self) -> None:
        """Metadata names the brokers that run, and who coordinates groups and states as the leaders of their logs."""
        leaders: dict[tuple[str | None, int], int] = {}
        for node_id in self.running:
            told = self.ask(node_id, MetadataRequest(None), 12)
            assert [one.node_id for one in told.brokers] == self.running
            assert told.controller_id in self.running
            leaders = {(topic.name, one.partition_index): one.leader_id
                       for topic in told.topics for one in topic.partitions}  # fmt: skip
            assert set(leaders.values()) <= set(self.running)
            for topic in told.topics:
                for one in topic.partitions:
                    assert (one.replica_nodes, one.isr_nodes) == ((one.leader_id,), (one.leader_id,)), (
                        "one copy of each"
                    )
        states = [coordinator_key(StateKey(name, self.topic_id, 0)) for name in NAMES]
        for topic, key_type, names in (("__consumer_offsets", GROUP, NAMES), ("__share_group_state", SHARE, states)):
            for name, at in zip(names, self.find(key_type, tuple(names)), strict=True):
                assert leaders[topic, partition_of(name, PARTITIONS)] == at

    def count(self, entries: str) -> int:
        world = self.server.node.world
        if entries == "groups":
            return sum(len(partition.shard.groups) for partition in world.partitions)
        return len(world.ledger.transactions.by_id)

    def find_states(self, keys: tuple[str, ...]) -> None:
        """Have the topic of states made by the first who asks."""
        if not self.server.node.engine.share_states.partitions:
            self.ask(self.running[0], FindCoordinatorRequest(key_type=SHARE, coordinator_keys=keys), 6)

    def use(self, node_id: int, key_type: int, name: str) -> int:
        if key_type == GROUP:
            return int(self.ask(node_id, fetch_offsets(name), 8).groups[0].error_code)
        if key_type == TRANSACTION:
            told = self.ask(node_id, DescribeTransactionsRequest((name,)), 0).transaction_states[0].error_code
            return 0 if told == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND else int(told)
        asked = ReadShareGroupStateRequestReadStateData(self.topic_id, (ReadShareGroupStateRequestPartitionData(0, 0),))
        told = self.ask(node_id, ReadShareGroupStateRequest(name, (asked,)), 0).results[0].partitions[0].error_code
        return 0 if told == ErrorCode.INVALID_REQUEST else int(told)  # there is no such state


ACTS: Final = (
    *[Brokers.stop] * 3, *[Brokers.start] * 2, *[Brokers.move] * 4, *[Brokers.begin] * 4, *[Brokers.wait] * 3,
    *[Brokers.pass_some_time] * 3, Brokers.wait_long, Brokers.stop_all,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_each_name_has_one_coordinator_that_serves_it(seed: int) -> None:
    brokers = Brokers(seed)
    for at, name in enumerate(NAMES):
        brokers.ask(brokers.find(GROUP, (name,))[0], commit(name, {"orders": {at % 4: at}}), 8)
    for _ in range(25):
        brokers.random.choice(ACTS)(brokers)
    brokers.wait_long()
    assert not brokers.server.node.world.edge.failures


@pytest.mark.parametrize("is_group", [True, False])
def test_a_list_lacks_nothing_though_its_partitions_move_meanwhile(is_group: bool) -> None:
    """It is whole, or says that some of it is being loaded: after any of its steps."""
    server = InMemory(offsets_topic_num_partitions=3)
    peer, names = server.connect(), {f"n{number}" for number in range(200)}
    for name in names:
        if is_group:
            peer.send((commit(name, {"orders": {0: 1}}), 8))
        else:
            peer.send((InitProducerIdRequest(name, TIMEOUT_MS), 4))
        server.rest()
    server.frontend.turn.seconds = 0.0  # a step a turn
    seen = set()
    for turns in range(8):
        for moved in ("n1", "n3", "n8"):
            peer.send((ListGroupsRequest(), 5) if is_group else (ListTransactionsRequest(), 1))
            before = len(peer.answers)
            for _ in range(turns):
                server.turn()
            is_under_way = len(peer.answers) == before
            verb = MoveGroup(moved, 0, LOAD_MS) if is_group else MoveTransaction(moved, 0, LOAD_MS)
            server.node.command(verb, server.clock.now_ms(), lambda: "id")
            server.rest()
            told = peer.answers[-1][1]
            listed = (
                {one.group_id for one in told.groups}
                if is_group
                else {one.transactional_id for one in told.transaction_states}
            )
            assert told.error_code == LOADING or listed == names
            seen.add((is_under_way, ErrorCode(told.error_code)))
            server.advance(LOAD_MS / 1000 + 1)
            server.rest()
    assert {(True, LOADING), (False, ErrorCode.NONE)} <= seen
