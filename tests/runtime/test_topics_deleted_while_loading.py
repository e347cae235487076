"""What was committed to a topic that is deleted does not come back, wherever a start or a crash falls."""

from collections.abc import Iterator

import pytest

from coordinator.core.catalog import catalog
from coordinator.core.decision import Done
from coordinator.core.result import Call
from coordinator.core.topics import Topic
from coordinator.dataplane.brokers import NOBODY
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from storage.memory_files import MemoryFiles
from tests.dataplane.broker import NODES
from tests.requests import commit, commit_in_transaction, create_topics
from tests.server.in_memory import InMemory

CREATE = create_topics({"doomed": 2})
DELETE = DeleteTopicsRequest(topic_names=("doomed",))
COMMITTED = commit("g", {"doomed": {0: 5}, "orders": {0: 7}})


@pytest.fixture(autouse=True)
def keep_none_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which topics are gone is forgotten as soon as nothing is known of them."""
    monkeypatch.setattr(catalog, "GONE_MAX", 0)


def with_offsets() -> MemoryFiles:
    """What a server leaves with a committed and a pending offset of the topic."""
    files = MemoryFiles()
    peer = InMemory(files).connect()
    assert peer.ask(CREATE, 5).topics[0].error_code == 0
    assert not any(part.error_code for topic in peer.ask(COMMITTED, 8).topics for part in topic.partitions)
    producer = peer.ask(InitProducerIdRequest("x", 60_000), 4)
    ids = (producer.producer_id, producer.producer_epoch)
    asked = commit_in_transaction("x", "g", ids, {"doomed": {1: 6}})
    assert peer.ask(asked, 5).topics[0].partitions[0].error_code == 0
    return files


def kept(server: InMemory) -> dict[tuple[str, int], int]:
    server.rest()
    entries = server.node.world.partitions.owner("g").shard.offsets.entries("g")
    return {(key.topic, key.partition): value.offset for key, value in entries}


def halfway(server: InMemory) -> None:
    """Go on until the offsets are replayed, and not yet served."""
    assert any(step.records for step in server.loading)
    assert server.node.world.partitions.owner("g").shard.offsets.count == 2, "and one is pending"


@pytest.mark.parametrize("is_replayed", [False, True])
@pytest.mark.parametrize("comes_again", [False, True])
@pytest.mark.parametrize("crashes", [False, True])
def test_one_that_is_deleted_during_a_start(is_replayed: bool, comes_again: bool, crashes: bool) -> None:
    files = with_offsets()
    server = InMemory(files, is_loaded=False)
    if is_replayed:
        halfway(server)
    peer = server.connect()
    assert peer.ask(DELETE, 5).responses[0].error_code == 0
    if comes_again:
        assert peer.ask(CREATE, 5).topics[0].error_code == 0
    if crashes:
        server = InMemory(files)
    server.load()
    server.turn()
    assert kept(server) == {("orders", 0): 7}
    assert kept(InMemory(files)) == {("orders", 0): 7}, "that they are gone is in the log"


def test_one_that_a_crash_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog says that it is gone before its groups do."""
    files = with_offsets()
    server = InMemory(files)
    monkeypatch.setattr(type(server.node.world.partitions[0]), "flush", lambda partition: 0)
    assert server.connect().ask(DELETE, 5).responses[0].error_code == 0
    monkeypatch.undo()
    assert kept(InMemory(files)) == {("orders", 0): 7}


@pytest.mark.parametrize("away", ["none", "groups", "states"])
def test_which_topics_are_gone_is_known_as_long_as_anything_may_be_known_of_them(away: str) -> None:
    """To the end of the last work that forgets them, and where a log is still to be loaded to the work after that."""
    server = InMemory(topics={"doomed": 1}, share_coordinator_state_topic_num_partitions=1)
    engine, known = server.node.engine, server.node.world.ledger.catalog
    engine.share_states.create_topic(server.clock.now_ms())
    is_over = list[bool]()
    engine.forget_topics(_wait_for(is_over))
    delete = engine.handle(20, DELETE, Call(1, server.clock.now_ms(), 5, "", "", server.setup.fresh_id), NODES)
    assert isinstance(delete, Done)
    for _ in range(20):
        engine.long_requests.step()
    assert "doomed" in known.gone, "another work has not ended"
    unloaded = {"groups": server.node.world.partitions[3], "states": engine.share_states._logs[0]}.get(away)
    if unloaded is not None:
        unloaded.served_by = NOBODY
    is_over.append(True)
    server.rest()
    assert ("doomed" in known.gone) == (unloaded is not None)
    if unloaded is not None:
        unloaded.served_by = 0
        engine.forget_topics(_wait_for(is_over))
        assert not known.gone


def _wait_for(is_over: list[bool]) -> Iterator[None]:
    while not is_over:
        yield


def test_topics_that_nobody_here_has_deleted() -> None:
    """A log that was copied from a cluster has offsets of topics that are not here, or have other ids here."""
    server = InMemory(with_offsets())
    shard = server.node.world.partitions.owner("g").shard
    before = kept(server)
    without = shard.topics.without_topic("doomed").without_topic("orders")
    shard.set_topics(without.with_topic(Topic("orders", b"o" * 16, 4)))
    assert not any(shard.forget_topics({"another": {b"a" * 16}, "orders": {b"b" * 16}}, 0))
    assert kept(server) == before
