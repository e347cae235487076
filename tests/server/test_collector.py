"""What the collector looks at, and that to serve leaves it nothing to find: what is frozen must not be a cycle later."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from coordinator.core.moves import MoveGroup
from coordinator.server import collector
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.requests import commit, fetch_offsets
from tests.server.in_memory import InMemory

ROUNDS = 100


class Cycle:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def _frozen_anew() -> Iterator[None]:
    collector.keep_passes_short()
    yield
    gc.callbacks.remove(collector._freeze_survivors)
    gc.unfreeze()


@pytest.fixture
def _passes_on_request() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_frozen_anew")
def test_what_survives_a_full_pass_is_looked_at_no_more() -> None:
    collector.keep_passes_short()
    assert gc.callbacks.count(collector._freeze_survivors) == 1
    gc.unfreeze()
    gc.collect(1)
    assert not gc.get_freeze_count(), "a pass over young objects freezes none"
    gc.collect()
    assert gc.get_freeze_count() > 10_000 > len(gc.get_objects())


@pytest.mark.usefixtures("_frozen_anew")
def test_what_was_frozen_is_found_where_everything_is_looked_at() -> None:
    cycle = Cycle()
    gc.collect()
    found = weakref.ref(cycle)
    del cycle
    gc.collect()
    assert found() is not None and gc.get_freeze_count() > 10_000
    collector.collect_everything()
    assert found() is None and gc.get_freeze_count() > 10_000


@pytest.mark.usefixtures("_passes_on_request")
def test_to_serve_makes_no_cycles() -> None:
    server = InMemory(virtual_brokers=2)
    _serve(server, "first")  # what is made once
    gc.collect()
    for number in range(ROUNDS):
        _serve(server, f"g{number}")
    assert gc.collect() < ROUNDS, "cycles"


def _serve(server: InMemory, group: str) -> None:
    peer = server.connect(group)
    peer.ask(commit(group, {"orders": {0: 1}}), 8)
    peer.ask(fetch_offsets(group, {"orders": (0,)}), 8)
    for epoch in (0, -1):
        heartbeat = ConsumerGroupHeartbeatRequest(
            "c", group, epoch, rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",), topic_partitions=()
        )
        peer.ask(heartbeat, 1)
    server.node.command(MoveGroup(group, 0), server.clock.now_ms(), str)
    server.rest()
    server.frontend.receive(peer.connection, b"\x7f\xff\xff\xff")
    server.rest()
    server.frontend.disconnect(peer.connection)
    server.receivers().pop(peer.connection)
