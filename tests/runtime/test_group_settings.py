"""Settings of one group: they count from the next heartbeat on, and a restart remembers them."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestResource,
)
from storage.memory_files import MemoryFiles
from tests.server.in_memory import InMemory, Peer

GROUP, SET, DELETE = 32, 0, 1  # a resource type, and two operations


def alter(peer: Peer, operation: int, *, validate_only: bool = False, **values: str | None) -> int:
    configs = tuple(
        IncrementalAlterConfigsRequestAlterableConfig(name.replace("_", "."), operation, value)
        for name, value in values.items()
    )
    resource = IncrementalAlterConfigsRequestResource(GROUP, "shop", configs)
    answer = peer.ask(IncrementalAlterConfigsRequest((resource,), validate_only), 1)
    return int(answer.responses[0].error_code)


def interval_ms(peer: Peer, member_id: str = "m", epoch: int = 0) -> tuple[int, int]:
    """The member's epoch, and how often it is told to beat."""
    joins = epoch == 0
    request = ConsumerGroupHeartbeatRequest(
        "shop",
        member_id,
        epoch,
        rebalance_timeout_ms=30_000 if joins else -1,
        subscribed_topic_names=("orders",) if joins else None,
        topic_partitions=() if joins else None,
    )
    answer = peer.ask(request, 1)
    assert answer.error_code == ErrorCode.NONE
    return answer.member_epoch, answer.heartbeat_interval_ms


@pytest.mark.rule("K-341")
def test_the_next_heartbeat_tells_the_new_interval() -> None:
    peer = InMemory().connect()
    epoch, told = interval_ms(peer)
    assert told == 5_000
    assert alter(peer, SET, consumer_heartbeat_interval_ms="9000", validate_only=True) == ErrorCode.NONE
    assert interval_ms(peer, epoch=epoch) == (epoch, 5_000), "it was only asked whether it may be"
    assert alter(peer, SET, consumer_heartbeat_interval_ms="9000") == ErrorCode.NONE
    assert interval_ms(peer, epoch=epoch) == (epoch, 9_000)
    assert alter(peer, DELETE, consumer_heartbeat_interval_ms=None) == ErrorCode.NONE
    assert interval_ms(peer, epoch=epoch) == (epoch, 5_000)


@pytest.mark.rule("K-338 K-341")
def test_a_session_is_as_long_as_the_group_says_also_after_a_restart() -> None:
    """The settings are there before the group is."""
    files = MemoryFiles()
    first = InMemory(files)
    peer = first.connect()
    settings = alter(peer, SET, consumer_session_timeout_ms="50000", consumer_heartbeat_interval_ms="7000")
    assert settings == ErrorCode.NONE
    epoch, _ = interval_ms(peer)
    first.node.close()

    again = InMemory(files)
    assert interval_ms(again.connect(), epoch=epoch) == (epoch, 7_000)
    again.advance(49.9)
    assert again.events == []
    again.advance(0.2)
    assert next(str(event.cause) for event in again.events) == "session_expired"
