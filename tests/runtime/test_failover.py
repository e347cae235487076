"""Coordinators that move again before their logs have been read."""

from coordinator.core.moves import MoveGroup
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.server.in_memory import InMemory


def test_a_partition_that_moves_twice_is_read_once() -> None:
    """The first load took records into what the second one has read from the beginning: what follows contradicts
    them."""
    server = InMemory(topics={"orders": 4})
    node, peer = server.node, server.connect()
    for member, epoch in (("first", 0), ("first", -1), ("second", 0)):  # one has after the other what both own
        beat = ConsumerGroupHeartbeatRequest("g", member, epoch, None, None, 60_000, ("orders",), None, None, ())
        assert peer.ask(beat, 1).error_code == 0
    partition = node.world.partitions.owner("g")
    members = partition.shard.groups["g"].members
    for _ in range(2):
        node.command(MoveGroup("g", 0), server.clock.now_ms(), lambda: "id")
    server.rest()
    assert not node.world.edge.failures
    assert partition.is_loaded and partition.shard.groups["g"].members == members
