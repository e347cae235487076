"""Records that are more than the log takes at once: timers write them when they are less, as in Kafka, and operators
are not refused."""

from typing import Any

from coordinator.core.moves import MoveGroup
from coordinator.core.verbs import Forget
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.consumer_protocol import ConsumerProtocolSubscription, write
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest
from tests.requests import join
from tests.server.in_memory import InMemory

LOG_BYTES = 3_000


def beat(member: str, epoch: int, pattern: str | None = None) -> ConsumerGroupHeartbeatRequest:
    joins = epoch == 0
    names = ("orders",) if joins and pattern is None else None
    owned = () if joins else None
    return ConsumerGroupHeartbeatRequest(
        "g", member, epoch, None, None, 60_000 if joins else -1, names, pattern, None, owned
    )


def group_of(server: InMemory) -> Any:
    return server.node.world.partitions.owner("g").shard.groups["g"]


def test_patterns_that_match_too_many_topics_are_matched_again() -> None:
    names = [f"{number}-".ljust(200, "t") for number in range(30)]
    server = InMemory(topics={"orders": 1, **dict.fromkeys(names, 1)}, message_max_bytes=LOG_BYTES)
    peer = server.connect()
    epoch = peer.ask(beat("m", 0, "[^_].*"), 1).member_epoch
    server.rest()
    assert not group_of(server).resolved
    server.advance(10)
    assert group_of(server).resolving is None, "a heartbeat begins anew"
    assert peer.ask(beat("m", epoch), 1).error_code == 0
    server.rest()
    written = server.node.log_bytes()
    assert peer.ask(beat("m", epoch), 1).error_code == 0
    assert group_of(server).resolving is not None and not group_of(server).resolving.left, "not at once"
    assert not group_of(server).resolved and server.node.log_bytes() == written
    server.advance(10)
    peer.ask(DeleteTopicsRequest(topic_names=tuple(names)), 5)
    assert peer.ask(beat("m", epoch), 1).error_code == 0
    server.rest()
    assert group_of(server).topics_matching("[^_].*") == {"orders"}
    assert not server.node.world.edge.failures


def test_a_session_that_ends_is_ended_once_the_group_can_be_converted() -> None:
    """The last consumer takes the group to the classic protocol, whose record has all that its members say."""
    server = InMemory(topics={"orders": 4}, message_max_bytes=LOG_BYTES)
    peer = server.connect()
    words = write(ConsumerProtocolSubscription(("orders",), user_data=bytes(1_000)), 1)
    protocols = (JoinGroupRequestProtocol("range", words),)
    assert peer.ask(beat("m", 0), 1).error_code == 0
    ids = [
        peer.ask(join("g", protocols=protocols, session_ms=60_000, rebalance_ms=300_000), 3).member_id for _ in range(3)
    ]
    server.advance(50)
    assert set(group_of(server).members) == {"m", *ids}, "it holds its partitions"
    assert peer.ask(LeaveGroupRequest("g", ids.pop()), 1).error_code == 0
    server.advance(1)
    assert set(group_of(server).members) == set(ids)
    assert not server.node.world.edge.failures


def test_an_operator_may_remove_all_members_of_a_large_group() -> None:
    """A group whose coordinator moved without them ended the server: the tombstones of 5,000 members take a MiB."""
    server = InMemory(topics={"orders": 4}, message_max_bytes=LOG_BYTES)
    peer, node = server.connect(), server.node
    for number in range(30):
        assert peer.ask(beat(f"m{number}".ljust(36, "m"), 0), 1).error_code == 0
    node.command(MoveGroup("g", 0, keep_members=False), server.clock.now_ms(), lambda: "id")
    server.rest()
    assert not group_of(server).members
    for number in range(30):
        assert peer.ask(beat(f"m{number}".ljust(36, "m"), 0), 1).error_code == 0
    assert not node.command(Forget("g"), server.clock.now_ms(), lambda: "id").refusal
    server.rest()
    assert not InMemory(server.files).node.world.partitions.owner("g").shard.groups
    assert not node.world.edge.failures
