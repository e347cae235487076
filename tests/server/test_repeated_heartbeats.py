"""A heartbeat that is sent again while nothing happens to its group is not decided again: its session is renewed, and
its response is the same. Nothing else is different."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from coordinator.core.acls.names import Resource
from coordinator.core.moves import MoveGroup, StartBroker, StopBroker
from coordinator.core.timers import session
from coordinator.core.verbs import Forget, Rebalance, RemoveMember
from coordinator.server.connection import REPEATED_BYTES_MAX
from coordinator.server.repeated_heartbeat import RepeatedHeartbeat
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestDeleteAclsFilter
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.members import ClassicMember, ConsumerMember
from tests.requests import commit, join, want
from tests.runtime import test_authorization as authorization
from tests.server.in_memory import Dialogue, InMemory, Peer
from tests.server.sasl_clients import log_in, sasl, shake_hands
from tests.server.slow_disk import committing, end_sync, serving

SESSION_MS = 10_000


def member_of(server: InMemory, group: str = "g", **kwargs: Any) -> ClassicMember:
    """The only member of a group, in its first generation."""
    member = ClassicMember(server.connect(**kwargs), group)
    if member.join(SESSION_MS) is None:
        server.advance(3.0)
        server.turn()
        member.take_join()
    assert not member.sync().error_code
    return member


def decided(server: InMemory) -> Callable[[], int]:
    """A count of the requests that are decided from now on."""
    handled = server.record_requests()
    return handled.__len__


def test_it_is_decided_once() -> None:
    server = InMemory()
    member = member_of(server)
    count = decided(server)
    assert [member.beat() for _ in range(5)] == [0] * 5
    assert count() == 1
    assert [number for number, _ in member.peer.answers] == list(range(1, 8)), "each answer has its request's id"


def test_it_is_counted_as_any_other() -> None:
    server = InMemory()
    member = member_of(server)
    for _ in range(5):
        member.beat()
    assert server.stats.latency[12].buckets[0] == 5


def test_the_session_is_renewed_each_time_and_ends_afterwards() -> None:
    server = InMemory()
    member = member_of(server)
    for _ in range(5):
        server.advance(SESSION_MS / 1000 - 0.001)
        assert member.beat() == 0
    server.advance(SESSION_MS / 1000)
    server.turn()
    assert member.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_other_requests_in_between_change_nothing() -> None:
    server = InMemory()
    member = member_of(server)
    count = decided(server)
    for offset in range(3):
        assert member.beat() == 0
        member.peer.ask(commit("g", {"orders": {0: offset}}, 1, member_id=member.member_id), 8)
    assert count() == 1 + 3


def test_what_differs_is_decided() -> None:
    server = InMemory()
    member = member_of(server)
    assert member.beat() == 0
    for request, version, error in (
        (HeartbeatRequest("g", 2, member.member_id), 3, ErrorCode.ILLEGAL_GENERATION),
        (HeartbeatRequest("g", 1, "nobody"), 3, ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest("h", 1, member.member_id), 3, ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest("g", 1, member.member_id), 0, ErrorCode.NONE),
        (HeartbeatRequest("g", 1, member.member_id), 1, ErrorCode.NONE),  # the same bytes, and a longer response
        (HeartbeatRequest("g", 1, member.member_id), 3, ErrorCode.NONE),
    ):
        assert member.peer.ask(request, version).error_code == error


def test_the_client_id_is_that_of_the_latest_request() -> None:
    server = InMemory()
    member = member_of(server)
    member.beat()
    other = Dialogue("other").chunk((HeartbeatRequest("h", 1, "nobody"), 3))
    member.peer.chunk((HeartbeatRequest("h", 1, "nobody"), 3))  # the answer will come to it
    server.frontend.receive(member.peer.connection, other[:8] + (4).to_bytes(4, "big") + other[12:])
    server.turn()
    assert member.peer.connection.client_id == "other"
    assert member.beat() == 0
    assert member.peer.connection.client_id == "test"


def test_in_a_consumer_group_each_is_decided() -> None:
    server = InMemory()
    ConsumerMember(server.connect(), "c").beat()
    member = ClassicMember(server.connect())
    assert not member.join().error_code
    assert not member.sync().error_code
    count = decided(server)
    assert {member.beat() for _ in range(3)} <= {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}
    assert count() == 3


def test_a_long_one_is_not_kept() -> None:
    server = InMemory()
    member = member_of(server, "g" * REPEATED_BYTES_MAX)
    member.beat()
    assert member.peer.connection.heartbeat is None


def rebalance(server: InMemory, member: ClassicMember) -> None:
    server.connect().ask(join("g"), 3)


def leave(server: InMemory, member: ClassicMember) -> None:
    server.connect().ask(LeaveGroupRequest("g", member.member_id), 2)


def command(verb: Any) -> Callable[[InMemory, ClassicMember], None]:
    def act(server: InMemory, member: ClassicMember) -> None:
        own = verb(member) if callable(verb) else verb
        response = server.node.command(own, server.clock.now_ms(), lambda: "id")
        assert not response.refusal
        server.turn()

    return act


def sync_again(server: InMemory, member: ClassicMember) -> None:
    """It joins and syncs in a new generation, and then a heartbeat of the old one comes."""
    old = member.generation
    member.join(SESSION_MS)
    member.sync()
    assert member.generation == old + 1
    member.generation = old


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (rebalance, ErrorCode.REBALANCE_IN_PROGRESS),
        (leave, ErrorCode.UNKNOWN_MEMBER_ID),
        (sync_again, ErrorCode.ILLEGAL_GENERATION),
        (command(lambda member: RemoveMember("g", member.member_id)), ErrorCode.UNKNOWN_MEMBER_ID),
        (command(Rebalance("g")), ErrorCode.REBALANCE_IN_PROGRESS),
        (command(Forget("g")), ErrorCode.UNKNOWN_MEMBER_ID),
        (command(MoveGroup("g", 1)), ErrorCode.NOT_COORDINATOR),
        (command(StopBroker(0)), ErrorCode.NOT_COORDINATOR),
    ],
)
def test_whatever_happens_to_the_group_is_told(act: Callable[..., None], error: ErrorCode) -> None:
    server = InMemory(node_ids=(0, 1), offsets_topic_num_partitions=1)
    member = member_of(server)
    assert [member.beat(), member.beat()] == [0, 0]
    act(server, member)
    assert member.beat() == error
    assert member.beat() == error


def test_a_group_that_comes_back_is_decided_anew() -> None:
    """The broker that coordinated it before has the member again, from the log: its session is another one."""
    server = InMemory(node_ids=(0, 1), offsets_topic_num_partitions=1)
    member = member_of(server)
    member.beat()
    for to in (1, 0):
        command(MoveGroup("g", to))(server, member)
        server.rest()
    count = decided(server)
    assert [member.beat(), member.beat()] == [0, 0]
    assert count() == 1
    server.advance(SESSION_MS / 1000)
    server.turn()
    assert member.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_that_has_run_out_while_a_sync_waits_begins_anew() -> None:
    """The member is not removed, and the group is the same value as before: but there is no timer to postpone."""
    server = InMemory(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=3_000)
    leader, follower = (ClassicMember(server.connect()) for _ in range(2))
    leader.join(60_000)
    follower.join(SESSION_MS)
    server.advance(3.0)
    server.advance(3.0)  # which the second member has prolonged the delay by
    for member in (leader, follower):
        member.take_join()
    assert follower.sync() is None
    follower.peer = server.connect()
    assert [follower.beat(), follower.beat()] == [0, 0]
    timers, key = server.node.world.partitions[0].shard.timers, session("g", follower.member_id)
    server.advance(SESSION_MS / 1000)
    assert key not in timers
    assert follower.beat() == 0
    assert timers.deadline(key) == server.clock.now_ms() + SESSION_MS
    assert len(timers) == len(timers.items())


def test_an_authorizer_is_asked_each_time() -> None:
    server = authorization.server(group_initial_rebalance_delay_ms=0)
    admin = authorization.user(server, "admin")
    admin.ask(CreateAclsRequest((authorization.rule(),)), 3)
    member = ClassicMember(authorization.user(server))
    member.join()
    member.sync()
    assert [member.beat() for _ in range(3)] == [0] * 3
    gone = DeleteAclsRequestDeleteAclsFilter(resource_type_filter=Resource.GROUP, operation=1, permission_type=1)
    assert admin.ask(DeleteAclsRequest((gone,)), 3).filter_results[0].matching_acls
    assert member.beat() == ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("observe", ["set_gated", "set_limited"])
def test_one_that_is_observed_is_decided_as_any_other(observe: str) -> None:
    server = InMemory()
    member = member_of(server)
    member.beat()
    count, handler = decided(server), server.frontend.handler
    getattr(handler, observe)(True)
    server.frontend.begin = lambda **_: server.frontend.turn.begin(server.clock.now_ms())  # type: ignore[method-assign]  # it looks for quotas
    assert [member.beat(), member.beat()] == [0, 0]
    assert count() == 2


@pytest.mark.parametrize("chunks", ["one chunk", "two chunks"])
def test_behind_a_request_that_is_parked_it_waits(chunks: str) -> None:
    server = InMemory(group_initial_rebalance_delay_ms=3_000)
    member = member_of(server)
    member.beat()
    beat, before = HeartbeatRequest("g", 1, member.member_id), len(member.peer.answers)
    requests = (beat, 3), (beat, 3), (join("h", protocols=want(("orders",))), 3), (beat, 3), (beat, 3)
    if chunks == "one chunk":
        member.peer.send(*requests)
    else:
        member.peer.send(*requests[:3])
        member.peer.send(*requests[3:])
    server.turn()
    assert len(member.peer.answers) == before + 2
    server.advance(3.0)
    server.turn()
    assert [type(answer).__name__ for _, answer in member.peer.answers[before + 2 :]] == [
        "JoinGroupResponse",
        "HeartbeatResponse",
        "HeartbeatResponse",
    ]


@pytest.mark.parametrize("ends_by", ["its time", "another exchange"])
def test_a_client_whose_authentication_has_ended_is_closed(ends_by: str) -> None:
    server = InMemory(sasl=sasl(connections_max_reauth_ms=10_000))
    peer = server.connect()
    log_in(peer)
    member = ClassicMember(peer)
    member.join(60_000)
    server.advance(3.0)
    member.take_join()
    member.sync()
    count = decided(server)
    assert [member.beat(), member.beat()] == [0, 0]
    assert count() == 1, "it is repeated for authenticated clients as well"
    server.advance(10.0 if ends_by == "its time" else 5.0)
    if ends_by == "another exchange":
        shake_hands(peer, "PLAIN")
    before = len(peer.answers)
    peer.send((HeartbeatRequest("g", 1, member.member_id), 3))
    server.turn()
    assert len(peer.answers) == before
    assert peer.connection.closing


def test_with_fsync_it_waits_for_what_its_group_rests_on() -> None:
    disk, server = serving(group_initial_rebalance_delay_ms=0)
    member = ClassicMember(server.connect())
    disk.is_slow = False
    member.join(SESSION_MS)
    member.sync()
    assert [member.beat(), member.beat()] == [0, 0]
    disk.is_slow = True
    request = HeartbeatRequest("g", 1, member.member_id)
    other = server.connect()
    assert other.ask(*committing("h", 2)) is None
    assert member.peer.ask(request, 3) is not None, "what another group waits for is none of its business"
    assert server.connect().ask(commit("g", {"t": {0: 2}}, 1, member_id=member.member_id), 8) is None
    assert member.peer.ask(request, 3) is None
    end_sync(disk, server)
    end_sync(disk, server)
    assert not member.peer.answers[-1][1].error_code


class Twins:
    """Two servers that get the same requests of six clients in two groups. One of them decides every heartbeat anew.

    The clients 2 and 4 have the same instance id: the one that joins takes over from the other.
    """

    def __init__(self) -> None:
        self.servers = [InMemory(node_ids=(0, 1), offsets_topic_num_partitions=2, seed=5) for _ in range(2)]
        self.peers: list[list[Peer]] = [[server.connect() for _ in range(CLIENTS)] for server in self.servers]

    @staticmethod
    def group(client: int) -> str:
        return f"g{client % 2}"

    @staticmethod
    def instance(client: int) -> str | None:
        return "i" if client in (2, 4) else None

    def membership(self, client: int) -> tuple[str, int]:
        """The member id and the generation of a client, by the latest response to a JoinGroup, if that was granted."""
        joined = [answer for _, answer in self.peers[0][client].answers if isinstance(answer, JoinGroupResponse)]
        return (joined[-1].member_id, joined[-1].generation_id) if joined and not joined[-1].error_code else ("", -1)

    def send(self, client: int, message: Any, version: int) -> None:
        self.peers[1][client].connection.heartbeat = None
        for server, peers in zip(self.servers, self.peers, strict=True):
            peers[client].send((message, version))
            server.rest()

    def beat(self, client: int) -> None:
        member_id, generation = self.membership(client)
        self.send(client, HeartbeatRequest(self.group(client), generation, member_id, self.instance(client)), 3)

    def join(self, client: int) -> None:
        member_id, _ = self.membership(client)
        times = {"session_ms": SESSION_MS * 3, "rebalance_ms": 2_000}
        request = join(self.group(client), member_id, self.instance(client), **times, protocols=want(("orders",)))
        self.send(client, request, 5 if self.instance(client) else 3)

    def sync(self, client: int) -> None:
        member_id, generation = self.membership(client)
        self.send(client, SyncGroupRequest(self.group(client), generation, member_id, self.instance(client)), 3)

    def upgrade(self, client: int, epoch: int) -> None:
        """Let a member of the consumer protocol join or stay (with 0), or leave (with -1) the client's group."""
        joining = {"subscribed_topic_names": ("orders",), "rebalance_timeout_ms": 1_000, "topic_partitions": ()}
        fields = joining if epoch == 0 else {}
        self.send(client, ConsumerGroupHeartbeatRequest(self.group(client), "new", epoch, **fields), 1)

    def wait(self, seconds: float) -> None:
        for server in self.servers:
            server.advance(seconds)
            server.rest()

    def command(self, verb: Any) -> None:
        for server in self.servers:
            server.node.command(verb, server.clock.now_ms(), lambda: "id")
            server.rest()

    def settle(self, group: str) -> None:
        """Let the members of a group join and sync, at the broker that they are connected to, and nobody else."""
        self.command(MoveGroup(group, 0))
        clients = [client for client in range(CLIENTS) if group == self.group(client) and client != 4]
        self.upgrade(clients[0], -1)
        for client in [*clients, *clients]:  # the second time those that have learned that they are no members
            self.join(client)
        self.wait(3.0)
        for client in clients:
            self.sync(client)

    def compare(self) -> None:
        ours, theirs = ([peer.answers for peer in peers] for peers in self.peers)
        assert ours == theirs
        assert self.timers(0) == self.timers(1)

    def timers(self, at: int) -> list[Any]:
        return [partition.shard.timers.items() for partition in self.servers[at].node.world.partitions]


CLIENTS = 6
WEIGHTS = {
    "beat": 75, "settle": 8, "join": 1, "sync": 2, "leave": 1, "commit": 6, "wait": 6, "verb": 1, "move": 1,
    "upgrade": 1, "downgrade": 1, "delete": 1,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_the_answers_and_the_timers_are_those_of_a_server_that_decides_them_all(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice, twins = Random(seed), Twins()
    repeat, repeated = RepeatedHeartbeat.repeat, list[bytes]()

    def note(self: RepeatedHeartbeat, frame: bytes, client_id: str | None, now_ms: int) -> bytes | None:
        response = repeat(self, frame, client_id, now_ms)
        repeated.extend([] if response is None else [frame])
        return response

    monkeypatch.setattr(RepeatedHeartbeat, "repeat", note)
    for _ in range(300):
        client = dice.randrange(CLIENTS)
        group, (member_id, generation) = twins.group(client), twins.membership(client)
        verbs = [RemoveMember(group, member_id), Rebalance(group), Forget(group)]
        moves = [MoveGroup(group, 1), MoveGroup(group, 0), StopBroker(1), StartBroker(1)]
        match dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]:
            case "beat":
                twins.beat(client)
            case "settle":
                twins.settle(group)
            case "join":
                twins.join(client)
            case "sync":
                twins.sync(client)
            case "leave":
                twins.send(client, LeaveGroupRequest(group, member_id), 2)
            case "commit":
                twins.send(client, commit(group, {"orders": {0: 1}}, generation, member_id=member_id), 8)
            case "upgrade":
                twins.upgrade(client, 0)
            case "downgrade":
                twins.upgrade(client, -1)
            case "delete":
                twins.send(client, DeleteGroupsRequest((group,)), 1)
            case "wait":
                twins.wait(dice.choice([0.05, 0.5, 3.0, 6.0]))
            case "verb":
                twins.command(dice.choice(verbs))
            case "move":
                twins.command(dice.choice(moves))
        twins.compare()
    assert len(repeated) > 10, "else nothing was compared"


def test_groups_that_are_gone_leave_nothing_behind() -> None:
    server = InMemory(offsets_topic_num_partitions=1)
    for number in range(10):
        member = member_of(server, f"g{number}")
        member.beat()
        command(Forget(f"g{number}"))(server, member)
    assert not server.node.world.partitions[0].shard.renewals


def test_a_connection_keeps_no_old_state_of_its_group() -> None:
    """A thousand members would else keep a thousand states of a group with a thousand members."""
    server = InMemory(offsets_topic_num_partitions=1)
    member = member_of(server)
    member.beat()
    before = server.node.world.partitions[0].shard.groups["g"]
    rebalance(server, member)
    assert before is not server.node.world.partitions[0].shard.groups["g"]
    assert member.peer.connection.heartbeat is not None
    kept = member.peer.connection.heartbeat.renewal
    assert all(getattr(kept, name) is not before for name in kept.__struct_fields__)
