"""A target that the log does not take at once: heartbeats are refused, as in Kafka, and it is not computed again."""

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.core.events import Cause
from coordinator.core.kinds.modern import long_targets
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.members import StreamsMember
from tests.server.in_memory import InMemory, Peer

MEMBERS = 30  # whose targets together are larger than one of them
LOG_BYTES = 1_300
NAMES = [f"{number}-".ljust(36, "m") for number in range(MEMBERS)]
TOO_LARGE = ErrorCode.UNKNOWN_SERVER_ERROR
Beat = Callable[[int], Any]


def consumers(peer: Peer) -> Beat:
    epochs: dict[int, int] = {}

    def beat(number: int) -> Any:
        epoch = epochs.get(number, 0)
        names, owned = (("orders",), ()) if epoch == 0 else (None, None)
        answer = peer.ask(
            ConsumerGroupHeartbeatRequest(
                "app", NAMES[number], epoch, rebalance_timeout_ms=60_000 if epoch == 0 else -1,
                subscribed_topic_names=names, topic_partitions=owned,
            ), 1,
        )  # fmt: skip
        epochs[number] = answer.member_epoch if not answer.error_code else epoch
        return answer

    return beat


def sharers(peer: Peer) -> Beat:
    epochs: dict[int, int] = {}

    def beat(number: int) -> Any:
        epoch = epochs.get(number, 0)
        names = ("orders",) if epoch == 0 else None
        answer = peer.ask(ShareGroupHeartbeatRequest("app", NAMES[number], epoch, None, names), 1)
        epochs[number] = answer.member_epoch if not answer.error_code else epoch
        return answer

    return beat


def streamers(peer: Peer) -> Beat:
    members = [StreamsMember(peer, NAMES[number]) for number in range(MEMBERS)]
    return lambda number: members[number].beat()


def leave(kind: str, peer: Peer, number: int) -> None:
    if kind == "consumer":
        request: Any = ConsumerGroupHeartbeatRequest("app", NAMES[number], -1)
        assert not peer.ask(request, 1).error_code
    elif kind == "share":
        assert not peer.ask(ShareGroupHeartbeatRequest("app", NAMES[number], -1), 1).error_code
    else:
        member = StreamsMember(peer, NAMES[number])
        member.epoch = -1
        assert not member.beat().error_code


@pytest.mark.parametrize(("kind", "make"), [("consumer", consumers), ("share", sharers), ("streams", streamers)])
def test_heartbeats_are_refused_until_the_group_has_changed(
    kind: str, make: Callable[[Peer], Beat], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_targets, "is_long", lambda work: work > 1)
    topics = {"orders": MEMBERS, "lines": 3, "words": 2, "counts": 2}
    server = InMemory(topics=topics, message_max_bytes=LOG_BYTES, group_streams_initial_rebalance_delay_ms=0)
    peer = server.connect()
    beat = make(peer)

    def failures() -> int:
        server.rest()
        return sum(event.cause is Cause.ASSIGNMENT_TOO_LARGE for event in server.events)

    for number in range(MEMBERS):
        assert not beat(number).error_code
    server.rest()
    server.advance(1)
    assert not beat(0).error_code, "it is answered before the target is computed"
    assert failures() == 1
    log_bytes = server.node.log_bytes()
    for number in range(MEMBERS):
        assert beat(number).error_code == TOO_LARGE
    assert (failures(), server.node.log_bytes()) == (1, log_bytes), "nothing is computed again, or written"
    for _ in range(4):  # for longer than a session, which is renewed though the heartbeat is refused
        server.advance(20)
        assert {beat(number).error_code for number in range(MEMBERS)} == {TOO_LARGE}
    leave(kind, peer, MEMBERS - 1)
    assert not beat(0).error_code, "the group is another one"
    assert failures() == 2
    assert beat(0).error_code == TOO_LARGE
    for number in range(3, MEMBERS - 1):
        leave(kind, peer, number)
    assert not beat(0).error_code
    assert failures() == 2
    group = server.node.world.partitions.owner("app").shard.groups["app"]
    assert (group.assignment_epoch, set(group.targets)) == (group.epoch, set(group.members))
    assert not beat(0).error_code
    assert not server.node.world.edge.failures


def joins(group_id: str, epoch: int, *names: str) -> tuple[Any, Any]:
    """A heartbeat of a consumer and of a member of a share group that subscribe."""
    joining = {"rebalance_timeout_ms": 60_000, "topic_partitions": ()}
    return (
        ConsumerGroupHeartbeatRequest(group_id, NAMES[0], epoch, subscribed_topic_names=names, **joining),
        ShareGroupHeartbeatRequest(group_id, NAMES[0], epoch, None, names),
    )


@pytest.mark.parametrize("kind", [0, 1])
def test_a_heartbeat_whose_own_records_are_too_large_renews_the_session(kind: int) -> None:
    """The target of a few members is computed by the heartbeat that finds it due."""
    server = InMemory(topics={"few": 1, "orders": 5_000}, message_max_bytes=LOG_BYTES)
    peer = server.connect()
    epoch = peer.ask(joins("app", 0, "few")[kind], 1).member_epoch
    members = server.node.world.partitions.owner("app").shard.groups["app"].members
    for _ in range(4):
        server.advance(20)
        assert peer.ask(joins("app", epoch, "orders")[kind], 1).error_code == TOO_LARGE
    groups = server.node.world.partitions.owner("app").shard.groups
    assert groups["app"].members is members, "nothing else has changed"
    assert peer.ask(joins("new", 0, "orders")[kind], 1).error_code == TOO_LARGE, "one that would join has no session"
    server.advance(120)
    assert not groups["app"].members, "who is silent is removed"
    assert not server.node.world.edge.failures
