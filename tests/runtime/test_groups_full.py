"""`groups.max.bytes`: beyond it no request creates a group, and those that exist go on."""

from typing import Any

import msgspec
import pytest

from coordinator.core.shard import GROUP_BYTES
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from tests.requests import commit, join
from tests.server.in_memory import InMemory

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
OFFSETS = {"orders": {0: 1}}


def beat(group: str) -> ConsumerGroupHeartbeatRequest:
    names = ("orders",)
    return ConsumerGroupHeartbeatRequest(
        group, "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=names, topic_partitions=()
    )


def code(response: Any) -> int:
    """The error code of the response, or of its only partition."""
    one = response if hasattr(response, "error_code") else response.topics[0].partitions[0]
    return int(one.error_code)


@pytest.fixture
def server() -> InMemory:
    """It has room for two groups with short ids, which exist."""
    made = InMemory(groups_max_bytes=2 * (GROUP_BYTES + 100))
    peer = made.connect()
    assert code(peer.ask(join("classic"), 4)) == ErrorCode.MEMBER_ID_REQUIRED
    assert code(peer.ask(beat("consumer"), 1)) == 0
    return made


@pytest.mark.parametrize(
    ("request_", "version"), [(join("new"), 3), (join("new"), 9), (beat("new"), 1), (commit("new", OFFSETS), 8)]
)
def test_no_group_more_is_created(server: InMemory, request_: Any, version: int) -> None:
    log_bytes = server.node.log_bytes()
    assert code(server.connect().ask(request_, version)) == FULL
    assert "new" not in server.node.world.partitions.owner("new").shard.groups
    assert server.node.log_bytes() == log_bytes
    assert not server.node.world.edge.failures, "an error that a client causes is none of the server's"


def test_groups_that_exist_go_on(server: InMemory) -> None:
    peer = server.connect()
    assert code(peer.ask(beat("consumer"), 1)) == 0
    assert code(peer.ask(join("classic"), 4)) == ErrorCode.MEMBER_ID_REQUIRED


def test_other_errors_of_unknown_groups_stay(server: InMemory) -> None:
    peer = server.connect()
    assert code(peer.ask(HeartbeatRequest("new", 1, "m"), 3)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(peer.ask(commit("new", OFFSETS, 1, member_id="m"), 8)) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("name", ["a", "größe"])
def test_a_group_that_is_deleted_leaves_room(name: str) -> None:
    """Just as much as it took, though Python keeps the bytes of an id that was written somewhere as JSON."""
    server = InMemory(groups_max_bytes=GROUP_BYTES + 512)
    peer = server.connect()
    for _ in range(3):
        assert code(peer.ask(commit(name, OFFSETS), 8)) == 0
        msgspec.json.encode(list(server.node.world.partitions.owner(name).shard.groups))
        assert code(peer.ask(commit("b" * 512, OFFSETS), 8)) == FULL
        assert peer.ask(DeleteGroupsRequest((name,)), 2).results[0].error_code == 0
        assert server.node.engine.memory.groups_bytes == 0


def test_long_ids_take_more_room() -> None:
    server = InMemory(groups_max_bytes=100_000)
    peer = server.connect()
    for name in "abc":
        assert code(peer.ask(commit(name * 32_000, OFFSETS), 8)) == 0
    assert code(peer.ask(commit("d" * 32_000, OFFSETS), 8)) == FULL
