"""Brokers that stop and start, and coordinators that move, on a server in memory: what clients are told, what is kept."""

from itertools import count
from typing import Final

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.admin.control_types import Wait
from coordinator.admin.control_waiting import WaitControl
from coordinator.core.transactions.states import State as TransactionState
from coordinator.server.listener import Listener
from coordinator.server.verbs.clock import keep_everybody
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.virtual_brokers import VirtualBrokers
from protocol import record_batch
from protocol.apis import BY_NAME
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.records import Record
from storage.files import StorageError
from tests import requests
from tests.control.cluster import BROKERS, Cluster
from tests.control.control_port import ControlPort
from tests.control.steered import MemoryPoller, SteeredNode, stable_group
from tests.dataplane.broker import batch
from tests.members import ClassicMember, ConsumerMember
from tests.reading import READING
from tests.requests import commit, commit_in_transaction, fetch_offsets

LOAD_MS = 500
NOT_COORDINATOR, LOADING = ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.fixture
def server() -> Cluster:
    return Cluster()


def settled_group(server: Cluster, *names: str) -> list[ClassicMember]:
    """A stable group, its members at the broker that coordinates it."""
    return stable_group(server, *names, broker=server.at("g"))


# -- what clients are told of the brokers


def test_every_broker_tells_of_all_and_of_each_coordinator(server: Cluster) -> None:
    for broker in range(BROKERS):
        peer = server.connect(broker=broker)
        metadata = peer.ask(MetadataRequest(topics=(MetadataRequestTopic(name="__consumer_offsets"),)), 9)
        assert [(one.node_id, one.port) for one in metadata.brokers] == [(0, 9092), (1, 9093), (2, 9094)]
        assert metadata.controller_id == 0
        leaders = {one.partition_index: one.leader_id for one in metadata.topics[0].partitions}
        assert leaders == {0: 0, 1: 1, 2: 2, 3: 0, 4: 1, 5: 2}
        assert [one.broker_id for one in peer.ask(DescribeClusterRequest(), 0).brokers] == [0, 1, 2]
        for key_type, kind in ((0, "group"), (1, "transaction")):
            found = peer.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=("g", "h", "x")), 4)
            assert [one.node_id for one in found.coordinators] == [server.at(name, kind) for name in ("g", "h", "x")]
            old = peer.ask(FindCoordinatorRequest(key="g", key_type=key_type), 3)
            assert old.node_id == server.at("g", kind)


OF_COORDINATORS: Final = {
    "OffsetFetch", "DescribeGroups", "ListGroups", "DescribeTransactions", "ListTransactions", "ConsumerGroupDescribe",
    "ShareGroupDescribe", "StreamsGroupDescribe", "DescribeShareGroupOffsets",
}  # fmt: skip
OF_LEADERS: Final = {"ListOffsets", "OffsetForLeaderEpoch", "DescribeProducers", "DescribeLogDirs"}
OF_THE_CLUSTER: Final = sorted(READING.keys() - OF_COORDINATORS - OF_LEADERS)


@pytest.mark.parametrize("name", OF_THE_CLUSTER)
def test_what_is_the_clusters_is_the_same_by_way_of_every_broker(server: Cluster, name: str) -> None:
    version = BY_NAME[name].versions[-1]
    first, *others = [server.connect(broker=broker).ask(READING[name], version) for broker in range(BROKERS)]
    assert first is not None
    assert others == [first, first]


@pytest.mark.parametrize("stopped", range(BROKERS))
def test_a_broker_that_is_stopped_is_named_by_nobody(server: Cluster, stopped: int) -> None:
    """Neither by Metadata nor by DescribeCluster, nor is it the controller of either."""
    server.operator.brokers.stop(stopped)
    running = [broker for broker in range(BROKERS) if broker != stopped]
    for broker in running:
        peer = server.connect(broker=broker)
        metadata, cluster = peer.ask(MetadataRequest(), 9), peer.ask(DescribeClusterRequest(), 1)
        assert [one.node_id for one in metadata.brokers] == [one.broker_id for one in cluster.brokers] == running
        assert metadata.controller_id == cluster.controller_id == running[0]


def test_only_the_coordinator_serves_a_group(server: Cluster) -> None:
    assert server.commit("g", 5) == ErrorCode.NONE
    home = server.at("g")
    for broker in {0, 1, 2} - {home}:
        member = ClassicMember(server.connect(broker=broker))
        assert member.join().error_code == NOT_COORDINATOR
        assert member.beat() == NOT_COORDINATOR
        assert member.sync().error_code == NOT_COORDINATOR
        peer = server.connect(broker=broker)
        assert peer.ask(ListGroupsRequest(), 4).groups == ()
        assert peer.ask(DescribeGroupsRequest(("g",)), 5).groups[0].error_code == NOT_COORDINATOR
        assert peer.ask(fetch_offsets("g"), 8).groups[0].error_code == NOT_COORDINATOR
        assert ConsumerMember(server.connect("c", broker=broker), "c").beat().error_code == NOT_COORDINATOR
    assert [one.group_id for one in server.connect(broker=home).ask(ListGroupsRequest(), 4).groups] == ["g"]


# -- a move


def test_a_group_that_moves_while_a_topic_is_forgotten_forgets_it_once() -> None:
    """The coordinator of before has begun to forget it, and the one that takes over finds what is left."""
    server = Cluster(monotonic=map((0.005).__mul__, count()).__next__)  # a turn has time for a few steps
    home = server.node.world.partitions.owner("g")
    groups = [name for name in map(str, range(60)) if server.node.world.partitions.owner(name) is home]
    peer = server.connect()
    assert peer.ask(requests.create_topics({"doomed": 1}), 5).topics[0].error_code == ErrorCode.NONE
    for group in groups:
        asked = commit(group, {"doomed": {0: 5}, "orders": {0: 7}})
        assert not any(topic.partitions[0].error_code for topic in server.ask_coordinator(group, asked, 8).topics)

    def count_groups_with_the_topic() -> int:
        return sum("doomed" in home.shard.offsets.of_group(group) for group in groups)

    written = home.log.end_offset
    peer.send((DeleteTopicsRequest(topic_names=("doomed",)), 5))
    while count_groups_with_the_topic() == len(groups):
        server.turn()
    assert count_groups_with_the_topic() > 1, "it is in the middle"
    server.operator.brokers.move_group("g", (server.at("g") + 1) % BROKERS)
    server.rest()
    assert count_groups_with_the_topic() == 0
    assert server.offsets(groups[-1]) == {0: 7}
    assert home.log.end_offset - written == len(groups), "one record for each"
    assert not server.node.world.edge.failures


def test_a_share_group_that_moves_while_its_states_are_begun_has_them_begun_again() -> None:
    server = Cluster(monotonic=map((0.005).__mul__, count()).__next__, topics={"many": 200})
    joining = ShareGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=("many",))
    epoch = server.ask_coordinator("g", joining, 1).member_epoch
    states, home = server.node.engine.share_states, server.node.world.partitions.owner("g")
    while not list(states.states()):
        server.turn()
    assert len(list(states.states())) < 200, "it is in the middle"
    server.operator.brokers.move_group("g", (server.at("g") + 1) % BROKERS, load_ms=LOAD_MS)
    server.rest()
    assert not server.node.world.edge.failures, "nothing is told while the group is loaded"
    server.operator.clock.advance(LOAD_MS, keep_everybody)
    assert server.ask_coordinator("g", ShareGroupHeartbeatRequest("g", "m", epoch), 1).error_code == ErrorCode.NONE
    server.rest()
    (initialized,) = home.shard.groups["g"].initialized.values()
    assert initialized.partitions == tuple(range(200))


def test_states_that_wait_for_their_coordinator_are_begun_once_however_often_a_member_asks() -> None:
    """It asks every 30 s, and the share coordinator loads for minutes."""
    server = Cluster(topics={"orders": 4}, share_coordinator_state_topic_num_partitions=6)
    states, home = server.node.engine.share_states, server.at("g")
    states.create_topic(server.clock.now_ms())
    for node_id in {0, 1, 2} - {home}:
        server.operator.brokers.stop(node_id, load_ms=600_000)
    joining = ShareGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=("orders",))
    epoch, waiting = server.ask_coordinator("g", joining, 1).member_epoch, list[int]()
    for _ in range(6):
        server.rest()
        waiting.append(sum(map(len, states._waiting.values())))
        server.operator.clock.advance(35_000, keep_everybody)
        assert server.ask_coordinator("g", ShareGroupHeartbeatRequest("g", "m", epoch), 1).error_code == ErrorCode.NONE
    assert waiting == [1] * 6
    server.operator.clock.advance(600_000, keep_everybody)
    server.rest()
    assert len(list(states.states())) == 4


@pytest.mark.parametrize("kind", ["groups", "transactions", "share states"])
def test_damage_that_a_new_coordinator_finds_ends_the_process(server: Cluster, kind: str) -> None:
    """As at a start: it would load for ever, and what it cannot read it must not lose."""
    world, states = server.node.world, server.node.engine.share_states
    assert server.commit("g", 5) == ErrorCode.NONE
    states.create_topic(server.clock.now_ms())
    log, damage, home = {
        "groups": (world.partitions.owner("g").log, b"\0\1\0\1g", server.at("g")),
        "transactions": (world.ledger.log, b"\0\x63", 0),
        "share states": (world.dataplane.open_state(0), b"\0\0", world.coordinators.of_share_states[0]),
    }[kind]
    offset = log.end_offset
    log.append(record_batch.encode([Record(damage, None, timestamp=1)]))
    states._logs[0].is_written = True
    with pytest.raises(StorageError, match=f"read data/__.*{offset}: ") as failure:  # noqa: PT012 - in one of its turns
        server.operator.brokers.stop(home)
        server.rest()
    assert log.directory in str(failure.value)


def test_whether_there_is_no_group_is_not_known_before_its_log_is_read(server: Cluster) -> None:
    port, wait = ControlPort(server), {"group": "g", "exists": False, "timeout_ms": 0}
    server.operator.brokers.move_group("g", (server.at("g") + 1) % BROKERS, load_ms=LOAD_MS)
    loading = "group 'g' is being loaded"
    assert port.call("POST", "/wait", wait) == (408, {"error": f"not within 0 ms: {loading}"})
    assert port.call("GET", "/groups/g") == (409, {"error": loading})
    assert port.call("POST", "/groups/g/members/a/expire") == (409, {"error": loading})
    server.operator.clock.advance(LOAD_MS, keep_everybody)
    assert port.call("POST", "/wait", wait) == (200, None)
    assert port.call("GET", "/groups/g") == (404, {"error": "there is no group 'g'"})
    for broker in range(BROKERS):
        server.operator.brokers.stop(broker)
    stopped = "group 'g' has no coordinator: every broker is stopped"
    assert port.call("POST", "/wait", wait) == (408, {"error": f"not within 0 ms: {stopped}"})
    assert port.call("GET", "/groups/g") == port.call("DELETE", "/groups/g") == (409, {"error": stopped})


def test_a_group_moves_with_its_members_and_offsets_and_does_not_rebalance(server: Cluster) -> None:
    assert server.commit("orphan", 3) == server.commit("g", 7) == ErrorCode.NONE
    a, b = settled_group(server, "a", "b")
    home = server.at("g")
    to = (home + 1) % BROKERS
    view = server.operator.brokers.move_group("g", to, load_ms=LOAD_MS)
    assert (view.broker, view.is_loading) == (to, True)
    assert (a.beat(), b.beat()) == (NOT_COORDINATOR, NOT_COORDINATOR)
    a.peer, b.peer = server.connect(broker=to), server.connect(broker=to)
    assert server.commit("g", 8) == LOADING
    assert (a.beat(), b.beat()) == (ErrorCode.NONE, ErrorCode.NONE), "a start throws nobody out either"
    server.operator.clock.advance(LOAD_MS - 1, keep_everybody)
    assert server.commit("g", 8) == LOADING
    server.operator.clock.advance(1, keep_everybody)
    assert not server.operator.brokers.coordinator("g").is_loading
    assert server.offsets("g") == {0: 7}
    assert server.offsets("orphan") == {0: 3}
    assert server.commit("g", 8) == ErrorCode.UNKNOWN_MEMBER_ID, "the group has members, and this is none of them"
    assert (a.beat(), b.beat()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert server.causes().count("coordinator_moved") == 1
    assert "rebalance_requested" not in server.causes() and "session_expired" not in server.causes()
    assert server.operator.groups.view("g").generation == 1


def test_a_session_begins_anew_where_the_group_is_loaded(server: Cluster) -> None:
    """How long ago a member was heard of is in no log."""
    (a,) = settled_group(server, "a")
    server.operator.clock.advance(40_000, lambda group, member: False)
    to = (server.at("g") + 1) % BROKERS
    server.operator.brokers.move_group("g", to)
    server.operator.clock.advance(44_000, lambda group, member: False)
    a.peer = server.connect(broker=to)
    assert a.beat() == ErrorCode.NONE


def test_parked_requests_are_answered_by_the_old_coordinator(server: Cluster) -> None:
    """A JoinGroup that waits for others, and a SyncGroup that waits for the leader."""
    a, b = settled_group(server, "a", "b")
    c = ClassicMember(server.connect("c", broker=server.at("g")))
    c.join()
    assert c.peer.connection.parked
    home = server.at("g")
    server.operator.brokers.move_group("g", (home + 1) % BROKERS)
    joined = c.take_join()
    assert (joined.error_code, joined.member_id != "") == (NOT_COORDINATOR, True)
    a.peer, b.peer = server.connect(broker=server.at("g")), server.connect(broker=server.at("g"))
    assert a.beat() == ErrorCode.NONE, "the new coordinator never heard of the rebalance"
    a.join()
    b.join()
    follower = b if a.take_join().leader == a.member_id else a
    b.take_join()
    assert follower.sync() is None and follower.peer.connection.parked
    server.operator.brokers.move_group("g", home)
    assert follower.peer.answers[-1][1].error_code == NOT_COORDINATOR


def test_a_consumer_group_moves(server: Cluster) -> None:
    home = server.at("g")
    a = ConsumerMember(server.connect("a", broker=home), "a")
    a.beat()
    server.operator.clock.advance(1_000, keep_everybody)
    to = (home + 2) % BROKERS
    epoch = a.epoch
    server.operator.brokers.move_group("g", to, load_ms=LOAD_MS)
    assert a.beat().error_code == NOT_COORDINATOR
    a.peer = server.connect(broker=to)
    assert a.beat().error_code == LOADING
    server.operator.clock.advance(LOAD_MS, keep_everybody)
    assert a.beat().error_code == ErrorCode.NONE
    assert a.epoch >= epoch > 0


@pytest.mark.parametrize("kind", [ClassicMember, ConsumerMember])
def test_members_can_be_lost_on_the_way(server: Cluster, kind: type) -> None:
    if kind is ClassicMember:
        settled_group(server, "a", "b")
    else:
        for name in ("a", "b"):
            ConsumerMember(server.connect(name, broker=server.at("g")), name).beat()
    server.operator.brokers.move_group("g", (server.at("g") + 1) % BROKERS, keep_members=False)
    view = server.operator.groups.view("g")
    assert (view.state, view.members) == ("Empty", [])
    assert server.causes().count("members_lost") == 2
    assert server.commit("g", 4) == ErrorCode.NONE, "nobody is in it"


@pytest.mark.parametrize("stops", [False, True])
def test_members_are_lost_though_another_move_overtakes_the_first(server: Cluster, stops: bool) -> None:
    settled_group(server, "a", "b")
    to = (server.at("g") + 1) % BROKERS
    server.operator.brokers.move_group("g", to, load_ms=LOAD_MS, keep_members=False)
    if stops:
        server.operator.brokers.stop(to)
    else:
        server.operator.brokers.move_group("g", (to + 1) % BROKERS)
    view = server.operator.groups.view("g")
    assert (view.state, view.members) == ("Empty", [])
    assert server.causes().count("members_lost") == 2
    server.operator.brokers.move_group("g", (to + 1) % BROKERS)
    assert server.causes().count("members_lost") == 2


def test_what_was_deleted_after_a_lost_commit_stays_deleted(server: Cluster) -> None:
    server.commit("g", 10)
    server.commit("g", 11)
    server.operator.groups.forget("g")
    server.operator.brokers.move_group("g", (server.at("g") + 1) % BROKERS, lose_last_commits=1)
    assert server.operator.groups.find("g") is None


def test_the_records_that_undo_a_commit_are_no_commits(server: Cluster) -> None:
    for offset in (10, 11, 12):
        server.commit("g", offset)
    for offset in (11, 10):
        server.operator.brokers.move_group("g", server.at("g"), lose_last_commits=1)
        assert server.offsets("g") == {0: offset}
    with pytest.raises(Refusal, match="1 commits of group 'g' are known, not 2"):
        server.operator.brokers.move_group("g", server.at("g"), lose_last_commits=2)


def test_a_wait_for_a_coordinator_is_over_when_it_has_loaded_the_group(server: Cluster) -> None:
    settled_group(server, "a")
    to = (server.at("g") + 1) % BROKERS
    find = WaitControl(server.operator)._find_difference
    server.operator.brokers.move_group("g", to, load_ms=LOAD_MS)
    for wanted, difference in (
        (to, f"is loaded by broker {to}"),
        (to + 1, f"is loaded by broker {to}, expected {to + 1}"),
    ):
        assert difference in str(find(Wait("g", coordinator=wanted)))
    server.operator.clock.advance(LOAD_MS, keep_everybody)
    server.rest()
    assert find(Wait("g", coordinator=to)) is None
    assert find(Wait("g", coordinator=to + 1)) == f"group 'g' is coordinated by broker {to}, expected {to + 1}"


def test_a_move_can_be_overtaken_by_another(server: Cluster) -> None:
    server.commit("g", 10)
    home = server.at("g")
    server.operator.brokers.move_group("g", (home + 1) % BROKERS, load_ms=LOAD_MS)
    server.operator.brokers.move_group("g", (home + 2) % BROKERS, load_ms=2 * LOAD_MS)
    server.operator.clock.advance(LOAD_MS, keep_everybody)
    assert server.operator.brokers.coordinator("g").is_loading
    server.operator.clock.advance(LOAD_MS, keep_everybody)
    assert server.at("g") == (home + 2) % BROKERS
    assert server.offsets("g") == {0: 10}


def test_a_frozen_clock_keeps_a_coordinator_loading(server: Cluster) -> None:
    server.commit("g", 10)
    server.operator.clock.set_rate(0.0)
    server.operator.brokers.move_group("g", server.at("g"), load_ms=LOAD_MS)
    server.seconds += 3_600
    server.turn()
    assert server.commit("g", 11) == LOADING
    moved = [one for one in server.operator.clock.state().deadlines if one.kind == "load"]
    assert [one.at_ms for one in moved] == [server.clock.now_ms() + LOAD_MS]
    server.operator.clock.step(keep_everybody)
    assert server.commit("g", 11) == ErrorCode.NONE


# -- transactions


TIMEOUT_MS = 60_000


def start_producer(server: Cluster, name: str = "x") -> tuple[int, int]:
    given = server.connect("producer", broker=server.at(name, "transaction")).ask(
        InitProducerIdRequest(name, TIMEOUT_MS), 4
    )
    return given.producer_id, given.producer_epoch


def begin(server: Cluster, name: str = "x") -> tuple[int, int]:
    """A producer commits an offset of group g in its transaction, which stays open."""
    producer = start_producer(server, name)
    committed = server.ask_coordinator("g", commit_in_transaction(name, "g", producer, {"orders": {0: 5}}), 5)
    assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
    return producer


def test_an_open_transaction_moves_with_its_coordinator_and_with_its_group(server: Cluster) -> None:
    producer = begin(server)
    home, group_home = server.at("x", "transaction"), server.at("g")
    to = (home + 1) % BROKERS
    server.operator.brokers.move_transaction("x", to, load_ms=LOAD_MS)
    server.operator.brokers.move_group("g", (group_home + 1) % BROKERS)
    end = EndTxnRequest("x", *producer, committed=True)
    assert server.connect(broker=home).ask(end, 5).error_code == NOT_COORDINATOR
    assert server.connect(broker=to).ask(end, 5).error_code == LOADING
    for broker, expected in ((home, NOT_COORDINATOR), (to, LOADING)):
        peer = server.connect(broker=broker)
        assert peer.ask(DescribeTransactionsRequest(("x",)), 0).transaction_states[0].error_code == expected
        assert peer.ask(InitProducerIdRequest("x", TIMEOUT_MS), 4).error_code == expected
    assert server.connect(broker=to).ask(ListTransactionsRequest(), 0).error_code == LOADING
    assert server.connect(broker=home).ask(ListTransactionsRequest(), 0).transaction_states == ()
    server.operator.clock.advance(LOAD_MS, keep_everybody)
    listed = server.connect(broker=to).ask(ListTransactionsRequest(), 0).transaction_states
    assert [(one.transactional_id, one.transaction_state) for one in listed] == [("x", "Ongoing")]
    assert server.offsets("g") == {}
    assert server.connect(broker=to).ask(end, 5).error_code == ErrorCode.NONE
    assert server.offsets("g") == {0: 5}


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_records_begin_no_transaction_whose_coordinator_is_not_there(
    server: Cluster, version: int, is_stopped: bool
) -> None:
    """The producer is told what it tries again by itself. Kafka: `AddPartitionsToTxnManager`, `ReplicaManager`."""
    topics = requests.create_topics({"t": 2})
    assert server.connect().ask(topics, 5).topics[0].error_code == ErrorCode.NONE
    producer = start_producer(server)

    def write(partition: int, sequence: int = 0) -> ErrorCode:
        numbers = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": sequence}
        records = batch("a", transactional=True, **numbers)
        answer = server.connect().ask(requests.produce("t", {partition: records}, "x"), version)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    if version < 12:
        parts = (AddPartitionsToTxnRequestTopic("t", (0, 1)),)
        add = AddPartitionsToTxnRequest((), "x", *producer, parts)
        server.connect(broker=server.at("x", "transaction")).ask(add, 3)
    assert write(0) == ErrorCode.NONE
    if is_stopped:
        for broker in range(BROKERS - 1):
            server.operator.brokers.stop(broker)
    server.operator.brokers.move_transaction("x", BROKERS - 1, load_ms=LOAD_MS)
    assert write(1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert write(0, 1) == ErrorCode.NONE, "its transaction is open in this partition"
    server.operator.clock.advance(LOAD_MS, keep_everybody)
    assert write(1) == ErrorCode.NONE


@pytest.mark.parametrize("version", [3, 5])
def test_offsets_begin_no_transaction_while_its_coordinator_is_loading(server: Cluster, version: int) -> None:
    producer = start_producer(server)
    request = commit_in_transaction("x", "g", producer, {"orders": {0: 5}})
    if version < 5:
        coordinator = server.connect(broker=server.at("x", "transaction"))
        assert coordinator.ask(AddOffsetsToTxnRequest("x", *producer, "g"), 3).error_code == ErrorCode.NONE
    server.operator.brokers.move_transaction("x", server.at("x", "transaction"), load_ms=LOAD_MS)
    for expected in (LOADING, ErrorCode.NONE):
        answer = server.ask_coordinator("g", request, version)
        assert answer.topics[0].partitions[0].error_code == expected
        server.operator.clock.advance(LOAD_MS, keep_everybody)


def test_the_transactions_are_read_from_the_log(server: Cluster) -> None:
    begin(server)
    before = server.node.world.ledger.transactions.by_id["x"]
    server.node.world.ledger.transactions.by_id["x"] = before.with_state(
        TransactionState.PREPARE_ABORT, 1
    )  # what no log says
    server.operator.brokers.move_transaction("x", server.at("x", "transaction"))
    assert server.node.world.ledger.transactions.by_id["x"] == before


def test_a_transaction_does_not_time_out_before_its_coordinator_has_loaded_it(server: Cluster) -> None:
    begin(server)
    to = (server.at("x", "transaction") + 1) % BROKERS
    server.operator.brokers.move_transaction("x", to, load_ms=2 * TIMEOUT_MS)
    server.operator.clock.advance(2 * TIMEOUT_MS - 1, keep_everybody)
    assert server.node.world.ledger.transactions.by_id["x"].state is TransactionState.ONGOING
    server.operator.clock.advance(1, keep_everybody)
    assert server.node.world.ledger.transactions.by_id["x"].state is TransactionState.COMPLETE_ABORT


def test_an_end_that_is_decided_while_the_group_is_loaded_is_written_afterwards(server: Cluster) -> None:
    producer = begin(server)
    server.operator.brokers.move_group("g", (server.at("g") + 1) % BROKERS, load_ms=LOAD_MS)
    peer = server.connect(broker=server.at("x", "transaction"))
    assert peer.ask(EndTxnRequest("x", *producer, committed=True), 5).error_code == ErrorCode.NONE
    server.operator.clock.advance(LOAD_MS, keep_everybody)
    assert server.offsets("g") == {0: 5}
    assert server.node.world.ledger.transactions.by_id["x"].state is TransactionState.COMPLETE_COMMIT


def test_a_transactions_commit_can_be_lost(server: Cluster) -> None:
    server.commit("g", 4)
    producer = begin(server)
    with pytest.raises(Refusal, match="an open transaction has an offset of orders-0"):
        server.operator.brokers.move_group("g", server.at("g"), lose_last_commits=1)
    server.connect(broker=server.at("x", "transaction")).ask(EndTxnRequest("x", *producer, committed=True), 5)
    assert server.offsets("g") == {0: 5}
    server.operator.brokers.move_group("g", server.at("g"), lose_last_commits=1)
    assert server.offsets("g") == {0: 4}


def test_a_transactions_commit_can_be_lost_that_was_being_applied_when_its_group_moved() -> None:
    """The coordinator that takes over applies the rest of it, and it is one commit of the group, as any other."""
    many = range(300)
    server = Cluster(topics={"orders": len(many)})
    assert server.commit("g", 4, *many) == ErrorCode.NONE
    peer = server.connect(broker=server.at("x", "transaction"))
    ids = peer.ask(InitProducerIdRequest("x", 60_000), 4)
    producer = (ids.producer_id, ids.producer_epoch)
    assert peer.ask(AddOffsetsToTxnRequest("x", *producer, "g"), 3).error_code == ErrorCode.NONE
    asked = commit_in_transaction("x", "g", producer, {"orders": dict.fromkeys(many, 5)})
    assert not server.ask_coordinator("g", asked, 3).topics[0].partitions[0].error_code
    server.frontend.turn.seconds = 0.0
    peer.ask(EndTxnRequest("x", *producer, committed=True), 3)
    assert server.node.world.partitions.owner("g").shard.offsets.is_group_ending("g")
    server.operator.brokers.move_group("g", (server.at("g") + 1) % BROKERS)
    server.rest()
    assert set(server.offsets("g").values()) == {5}
    server.operator.brokers.move_group("g", server.at("g"), lose_last_commits=1)
    server.rest()
    assert set(server.offsets("g").values()) == {4}


# -- brokers


def test_a_broker_that_stops_hands_over_what_it_coordinates(server: Cluster) -> None:
    (a,) = settled_group(server, "a")
    begin(server)
    home = server.at("g")
    other = server.connect(broker=(home + 1) % BROKERS)
    server.operator.brokers.stop(home)
    assert server.at("g") != home
    assert a.peer.connection.closing
    told = other.ask(MetadataRequest(topics=None), 9)
    assert [one.node_id for one in told.brokers] == sorted({0, 1, 2} - {home})
    assert {one.leader_id for topic in told.topics for one in topic.partitions} <= {0, 1, 2} - {home}
    assert home not in {
        other.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4).coordinators[0].node_id
    }
    a.peer = server.connect(broker=server.at("g"))
    assert a.beat() == ErrorCode.NONE
    view = server.operator.brokers.view(home)
    assert (view.is_running, view.groups, view.transactions) == (False, 0, 0)
    server.operator.brokers.start(home)
    assert server.operator.brokers.view(home).is_running
    assert len(other.ask(MetadataRequest(topics=None), 9).brokers) == BROKERS


def test_while_no_broker_runs_no_session_ends(server: Cluster) -> None:
    (a,) = settled_group(server, "a")
    for broker in range(BROKERS):
        server.operator.brokers.stop(broker)
    assert server.operator.brokers.coordinator("g").broker is None
    server.operator.clock.advance(3_600_000, lambda group, member: False)
    server.operator.brokers.start(2)
    assert server.at("g") == 2
    a.peer = server.connect(broker=2)
    assert a.beat() == ErrorCode.NONE


def test_one_broker_alone_can_be_stopped_and_load_a_group_again() -> None:
    server = SteeredNode(offsets_topic_num_partitions=1)
    (a,) = stable_group(server, "a")
    server.operator.brokers.move_group("g", 0, load_ms=LOAD_MS)
    server.operator.clock.advance(LOAD_MS, keep_everybody)
    assert a.beat() == ErrorCode.NONE
    server.operator.brokers.stop(0)
    late = server.connect()  # whose requests the server has read, and decides as the broker stops
    assert late.ask(MetadataRequest(), 9).controller_id == late.ask(DescribeClusterRequest(), 1).controller_id == 0
    assert not server.node.world.edge.failures
    server.operator.brokers.start(0)
    a.peer = server.connect(broker=0)
    assert a.beat() == ErrorCode.NONE


def test_a_rolling_restart_leaves_every_group_stable(server: Cluster) -> None:
    groups = [f"group-{number}" for number in range(5)]
    members = {group: stable_group(server, "a", "b", group=group, broker=server.at(group)) for group in groups}

    async def restart() -> None:
        await server.operator.brokers.restart_all(trio.lowlevel.checkpoint)

    trio.run(restart)
    for group, both in members.items():
        for member in both:
            member.peer = server.connect(broker=server.at(group))
            assert member.beat() == ErrorCode.NONE
        assert server.operator.groups.view(group).generation == 1
    assert all(view.is_running for view in server.operator.brokers.views())


def test_in_a_rolling_restart_the_next_broker_stops_when_the_last_one_has_loaded(server: Cluster) -> None:
    settled_group(server, "a")
    brokers = server.operator.brokers
    while_loading: list[set[int]] = []

    async def restart() -> None:
        async def next_turn() -> None:
            while_loading.append({view.id for view in brokers.views() if not view.is_running})
            server.advance(0.05)
            await trio.lowlevel.checkpoint()

        await brokers.restart_all(next_turn, load_ms=400)

    trio.run(restart)
    assert len(while_loading) > 3, "it waits for what is loaded"
    assert not any(while_loading), "and no broker is down meanwhile"


def test_a_rolling_restart_is_one_at_a_time_and_ends_with_a_reset(server: Cluster) -> None:
    restart_all = server.operator.brokers.restart_all

    async def restart() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refuse_one)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(Refusal, match=r"^a rolling restart is under way$"):
                await restart_all(trio.lowlevel.checkpoint)
            server.operator.state.reset()
            clock.jump(60)

    async def refuse_one() -> None:
        with pytest.raises(Refusal, match=r"^the server was reset meanwhile$"):
            await restart_all(trio.lowlevel.checkpoint, down_ms=60_000)

    clock = trio.testing.MockClock()
    trio.run(restart, clock=clock)
    trio.run(restart_all, trio.lowlevel.checkpoint)
    assert all(view.is_running for view in server.operator.brokers.views()), "the next one may be done"


def test_a_rolling_restart_ends_with_a_reset_while_it_loads(server: Cluster) -> None:
    """The brokers of the next test are none of its."""

    async def next_turn() -> None:
        server.operator.state.reset()
        await trio.lowlevel.checkpoint()

    async def restart() -> None:
        with pytest.raises(Refusal, match=r"^the server was reset meanwhile$"):
            await server.operator.brokers.restart_all(next_turn, load_ms=60_000)

    trio.run(restart)
    assert all(view.is_running for view in server.operator.brokers.views())


def test_a_rolling_restart_that_nobody_waits_for_leaves_no_broker_stopped(server: Cluster) -> None:
    async def restart() -> None:
        with trio.move_on_after(60):
            await server.operator.brokers.restart_all(trio.lowlevel.checkpoint, down_ms=120_000)

    trio.run(restart, clock=trio.testing.MockClock(autojump_threshold=0))
    assert all(view.is_running for view in server.operator.brokers.views())
    trio.run(server.operator.brokers.restart_all, trio.lowlevel.checkpoint)


def test_what_cannot_be_done_is_refused(server: Cluster) -> None:
    brokers = server.operator.brokers
    brokers.stop(1)
    for act, sentence in (
        (lambda: brokers.move_group("g", 7), "there is no broker 7: expected one of 0, 1, 2"),
        (lambda: brokers.start(0), "broker 0 is running already"),
        (lambda: brokers.move_group("g", 1), "broker 1 is stopped"),
        (lambda: brokers.stop(1), "broker 1 is stopped already"),
    ):
        with pytest.raises(Refusal, match=f"^{sentence}$") as refused:
            act()
        assert refused.value.is_conflict


def test_a_broker_that_cannot_listen_stays_stopped(server: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(listener: Listener) -> Listener:
        raise OSError(98, "Address already in use")

    brokers = server.operator.brokers
    brokers.stop(1)
    monkeypatch.setattr(MemoryPoller, "start_listening", staticmethod(refuse))
    with pytest.raises(Refusal, match=r"^broker 1 cannot listen: Address already in use$"):
        brokers.start(1)
    view = brokers.view(1)
    assert (view.is_running, view.groups, view.transactions) == (False, 0, 0)
    monkeypatch.undo()
    assert brokers.start(1).is_running


def test_a_broker_of_which_one_listener_cannot_listen_listens_at_none(server: Cluster) -> None:
    class Sockets:
        taken, listening = "", set[str]()

        def start_listening(self, listener: Listener) -> Listener:
            if listener.name == self.taken:
                raise OSError(98, "Address already in use")
            assert listener.name not in self.listening
            self.listening.add(listener.name)
            return listener

        def stop_listening(self, listener: Listener) -> Listener:
            self.listening.remove(listener.name)
            return listener

    sockets, names = Sockets(), ("FIRST", "SECOND", "THIRD")
    brokers = VirtualBrokers([replace(server.listeners[1], name=name) for name in names], sockets)
    brokers.start(1)
    for sockets.taken in names:
        brokers.stop(1)
        with pytest.raises(OSError, match="Address already in use"):
            brokers.start(1)
        assert not sockets.listening
        sockets.taken = ""
        brokers.start(1)
        assert sockets.listening == set(names)


@given(acts=st.lists(st.sampled_from([("stop", 0), ("stop", 1), ("start", 0), ("start", 1), ("reset", 0)]), max_size=8))
@settings(max_examples=40, deadline=None)
def test_whatever_was_stopped_and_started_before_a_reset_leaves_every_broker_running(
    acts: list[tuple[str, int]],
) -> None:
    server = Cluster()
    running = set(range(BROKERS))
    for verb, broker in (*acts, ("reset", 0)):
        if verb == "reset":
            server.operator.brokers.move_group("g", 2)
            server.operator.state.reset()
            running = set(range(BROKERS))
            assert [view.groups for view in server.operator.brokers.views()] == [2, 2, 2]
        elif (broker in running) == (verb == "start"):
            with pytest.raises(Refusal, match="already"):
                getattr(server.operator.brokers, verb)(broker)
        else:
            getattr(server.operator.brokers, verb)(broker)
            running ^= {broker}
        assert {view.id for view in server.operator.brokers.views() if view.is_running} == running


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("move"), st.sampled_from("xyz"), st.sampled_from([0, TIMEOUT_MS // 2, 2 * TIMEOUT_MS])),
            st.tuples(st.just("wait"), st.just(""), st.sampled_from([1, TIMEOUT_MS // 2, TIMEOUT_MS])),
        ),
        max_size=10,
    )
)
@settings(max_examples=40, deadline=None)
def test_each_transaction_times_out_once_its_own_coordinator_has_loaded_it(acts: list[tuple[str, str, int]]) -> None:
    """Whichever others are loaded before, between and after."""
    server = Cluster()
    assert len({server.operator.brokers.coordinator(name, "transaction").partition for name in "xyz"}) == 3
    server.operator.clock.set_rate(0)
    for name in "xyz":
        begin(server, name)
    over_ms = server.clock.now_ms() + TIMEOUT_MS
    ends_ms = dict.fromkeys("xyz", over_ms)
    for kind, name, ms in acts:
        if kind == "move":
            server.operator.brokers.move_transaction(name, server.at(name, "transaction"), load_ms=ms)
            if server.clock.now_ms() < ends_ms[name]:
                ends_ms[name] = max(over_ms, server.clock.now_ms() + ms)
        else:
            server.operator.clock.advance(ms, keep_everybody)
        is_open = {
            one: transaction.state is TransactionState.ONGOING
            for one, transaction in server.node.world.ledger.transactions.by_id.items()
        }
        assert is_open == {one: server.clock.now_ms() < at_ms for one, at_ms in ends_ms.items()}


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("join"), st.sampled_from("gh"), st.just(0), st.just(True)),
            st.tuples(st.just("move"), st.sampled_from("gh"), st.sampled_from([0, LOAD_MS]), st.booleans()),
            st.tuples(st.just("move"), st.sampled_from("gh"), st.just(LOAD_MS), st.just(False)),
            st.tuples(st.just("wait"), st.just("g"), st.sampled_from([LOAD_MS // 2, LOAD_MS]), st.just(True)),
        ),
        max_size=10,
    )
)
@settings(max_examples=40, deadline=None)
def test_a_group_loses_its_members_by_the_moves_that_say_so_and_once_each(
    acts: list[tuple[str, str, int, bool]],
) -> None:
    """Two groups of one partition, which moves and is loaded and is joined again."""
    server = Cluster(offsets_topic_num_partitions=1)
    server.operator.clock.set_rate(0)
    members, lost = {"g": 0, "h": 0}, set[str]()
    joins = (("join", "g", 0, True), ("join", "h", 0, True))
    for number, (kind, group, ms, keeps) in enumerate((*joins, *acts, ("wait", "g", LOAD_MS, True))):
        is_loading = server.operator.brokers.coordinator("g").is_loading
        told, before_ms = len(server.events), server.clock.now_ms()
        if kind == "join" and not is_loading:
            name = f"m{number}"
            beat = ConsumerMember(server.connect(name, broker=server.at(group)), name, group=group).beat()
            assert beat.error_code == ErrorCode.NONE
            members[group] += 1
        elif kind == "move":
            to = (server.at("g") + number) % BROKERS
            server.operator.brokers.move_group(group, to, load_ms=ms, keep_members=keeps)
            lost |= set() if keeps else {group}
        elif kind == "wait":
            server.operator.clock.advance(ms, keep_everybody)
        assert all(event.at_ms >= before_ms for event in server.events[told:]), "each is told as of when it was done"
        if server.operator.brokers.coordinator("g").is_loading:
            continue
        members |= dict.fromkeys(lost, 0)
        lost.clear()
        found = {view.group: view for view in server.operator.groups.views()}
        assert {one: len(found[one].members) if one in found else 0 for one in "gh"} == members


# -- any number of commits, moves and losses

_ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from("gh"), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.just("transaction"), st.sampled_from("gh"), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.just("move"), st.sampled_from("gh"), st.integers(0, BROKERS - 1), st.integers(0, 3)),
    ),
    max_size=14,
)


@given(acts=_ACTS)
@settings(max_examples=25, deadline=None)
def test_what_is_left_is_what_was_committed_without_the_last_commits(acts: list[tuple[str, str, int, int]]) -> None:
    """Two groups of one partition: each has what its commits add up to, but those that were lost."""
    server = Cluster(offsets_topic_num_partitions=1)
    commits: dict[str, list[dict[int, int]]] = {"g": [], "h": []}
    producer = start_producer(server)
    for kind, group, number, value in acts:
        if kind == "commit":
            assert server.commit(group, value, *range(number + 1)) == ErrorCode.NONE
            commits[group].append(dict.fromkeys(range(number + 1), value))
        elif kind == "transaction":
            commit_transaction(server, group, number, value, producer)
            commits[group].append({number: value})
        elif value > len(commits[group]):
            with pytest.raises(Refusal, match="are known, not"):
                server.operator.brokers.move_group(group, number, lose_last_commits=value)
        else:
            server.operator.brokers.move_group(group, number, lose_last_commits=value)
            del commits[group][len(commits[group]) - value :]
    for group, left in commits.items():
        with pytest.raises(Refusal, match=f"{len(left)} commits of group '{group}' are known, not"):
            server.operator.brokers.move_group(group, 0, lose_last_commits=len(left) + 1)
        while True:
            assert server.offsets(group) == {partition: offset for one in left for partition, offset in one.items()}
            if not left:
                break
            server.operator.brokers.move_group(group, 0, lose_last_commits=1)
            left.pop()


def commit_transaction(server: Cluster, group: str, partition: int, offset: int, producer: tuple[int, int]) -> None:
    """A transaction of one offset, by the older protocol, in which the epoch stays."""
    request = commit_in_transaction("x", group, producer, {"orders": {partition: offset}})
    coordinator = server.connect("producer", broker=server.at("x", "transaction"))
    assert coordinator.ask(AddOffsetsToTxnRequest("x", *producer, group), 3).error_code == ErrorCode.NONE
    committed = server.ask_coordinator(group, request, 3)
    assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert coordinator.ask(EndTxnRequest("x", *producer, committed=True), 4).error_code == ErrorCode.NONE
