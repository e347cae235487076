"""Work that takes many steps is rationed: a turn does one of them, whoever has asked for it."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from coordinator.core import regex, shard
from coordinator.core.events import Cause
from coordinator.core.moves import StartBroker, StopBroker
from coordinator.core.timers import IMMEDIATELY
from coordinator.core.transactions.states import State
from coordinator.runtime import loader, log_pace
from coordinator.runtime.engine import TIMERS_A_TURN
from coordinator.runtime.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.members import ConsumerMember
from tests.requests import commit, commit_in_transaction, join
from tests.server.in_memory import InMemory


def test_patterns_of_many_groups_are_a_step_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many groups have patterns that are much work, a turn does one step of one of them."""
    server = InMemory(topics={f"t{number}": 1 for number in range(20)}, offsets_topic_num_partitions=5)
    matched: list[str] = []
    match = regex.match

    def note(pattern: str, names: Sequence[str], start: int = 0, units_max: int = 0) -> regex.Progress:
        matched.append(pattern)
        found = match(pattern, names, start, 1)  # one name a step
        return found._replace(units=regex.STEP_UNITS)

    monkeypatch.setattr(regex, "match", note)
    groups = [f"g{number}" for number in range(8)]
    for group_id in groups:
        joining = {"rebalance_timeout_ms": 60_000, "topic_partitions": (), "subscribed_topic_regex": f"t.*|{group_id}"}
        server.connect().send((ConsumerGroupHeartbeatRequest(group_id, "m", 0, **joining), 1))
    turns = 0
    while server.frontend.next_deadline_ms() == IMMEDIATELY or not turns:
        before = len(matched)
        server.turn()
        turns += 1
        assert len(matched) - before <= 1
    assert len(matched) == len(server.node.world.ledger.catalog.topics) * len(groups)
    firsts = [matched.index(f"t.*|{group_id}") for group_id in groups]
    assert max(firsts) < 20, "they have their turns, whatever their partitions"
    for group_id in groups:
        group = server.node.world.partitions.owner(group_id).shard.groups[group_id]
        assert {name for resolved in group.resolved.values() for name in resolved.topics} == {
            f"t{number}" for number in range(20)
        }


def test_passes_over_offsets_of_all_partitions_are_a_step_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are due at the same time."""
    server = InMemory(offsets_topic_num_partitions=10, offsets_retention_minutes=1)
    peer = server.connect()
    for number in range(40):
        peer.ask(commit(f"g{number}", {"orders": {0: 1}}), 8)
    server.seconds += 700
    left = [40]
    while left[-1] and len(left) < 20:
        server.turn()
        left.append(sum(len(partition.shard.groups) for partition in server.node.world.partitions))
    assert left[-1] == 0
    assert len(left) > 10
    assert len({partition.shard.timers.deadline(("expiry", "", "")) for partition in server.node.world.partitions}) == 1


def test_members_that_are_lost_at_once_expire_over_some_turns() -> None:
    """In each of them others are answered."""
    groups, beat_ms = 5 * TIMERS_A_TURN // 2, 40_000
    server = InMemory(offsets_topic_num_partitions=5)
    members = [ConsumerMember(server.connect("m"), "m", f"g{number}") for number in range(groups)]
    for member in members:
        member.beat()

    def left() -> int:
        return sum(
            bool(group.members)
            for partition in server.node.world.partitions
            for group in partition.shard.groups.values()
        )

    assert left() == groups
    server.seconds += beat_ms / 1000
    assert members[0].beat().error_code == 0
    server.seconds += 10
    counts = [left()]
    while counts[-1] > 1:
        assert server.frontend.next_deadline_ms() <= server.clock.now_ms(), "the next turn comes at once"
        assert members[0].beat().error_code == 0
        counts.append(left())
    expired = [before - after for before, after in pairwise(counts)]
    assert sum(expired) == groups - 1
    assert max(expired) <= TIMERS_A_TURN
    assert len(expired) == 3


def test_transactions_that_time_out_at_once_end_over_some_turns() -> None:
    count = TIMERS_A_TURN + 30
    server = InMemory()
    peer = server.connect()
    for number in range(count):
        made = peer.ask(InitProducerIdRequest(f"tx{number}", 1_000), 5)
        join = AddPartitionsToTxnRequestTopic("orders", (0,))
        ids = (made.producer_id, made.producer_epoch)
        peer.ask(AddPartitionsToTxnRequest((), f"tx{number}", *ids, (join,)), 3)
    server.seconds += 5

    def is_open() -> int:
        return sum(one.state == State.ONGOING for one in server.node.world.ledger.transactions.by_id.values())

    found = [is_open()]
    for _ in range(2):
        server.turn()
        found.append(is_open())
    assert found == [count, 30, 0]


def test_the_end_of_a_topic_is_a_step_of_those_groups_alone_that_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of each of 20,000 groups took 150 ms, whichever topic was deleted."""
    server = InMemory(topics={"orders": 4, "few": 1, "none": 1}, offsets_topic_num_partitions=3)
    peer = server.connect()
    for number in range(60):
        peer.ask(commit(f"g{number}", {"orders": {0: 1}}), 8)
    for number in (3, 40):
        peer.ask(commit(f"g{number}", {"few": {0: 1}}), 8)
    asked: list[str] = []
    cut = shard.cut_forgotten_offsets

    def note(group_id: str, *args: Any) -> Any:
        asked.append(group_id)
        return cut(group_id, *args)

    monkeypatch.setattr(shard, "cut_forgotten_offsets", note)
    assert peer.ask(DeleteTopicsRequest(topic_names=("few", "none")), 5).responses[0].error_code == 0
    assert sorted(asked) == ["g3", "g40"]
    assert sum(partition.shard.offsets.count for partition in server.node.world.partitions) == 60


def test_timers_of_a_large_group_count_for_several() -> None:
    """Each session that ends makes another target for all members."""
    server = InMemory(topics={"orders": 1}, group_consumer_max_size=300, offsets_topic_num_partitions=1)
    peer = server.connect()
    for number in range(120):
        joining = {"rebalance_timeout_ms": 60_000, "topic_partitions": (), "subscribed_topic_names": ("none",)}
        peer.ask(ConsumerGroupHeartbeatRequest("g", f"m{number}", 0, **joining), 1)
    groups = server.node.world.partitions.owner("g").shard.groups
    server.seconds += 60
    server.node.engine.fire(server.clock.now_ms())
    large = 120 - len(groups["g"].members)
    assert 0 < large <= TIMERS_A_TURN // 2
    while groups["g"].members:
        server.turn()


def test_a_broker_that_stops_forgets_its_groups_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are no longer served at once, and who waits is told of the move one after the other."""
    server = InMemory(topics={"orders": 1}, offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=3_000)
    waiting, peer = server.connect(), server.connect()
    for number in range(40):
        peer.ask(commit(f"g{number}", {"orders": {0: 1}}), 8)
    assert waiting.ask(join("waits"), 3) is None
    node, (partition,) = server.node, server.node.world.partitions
    old, read, replay = partition.shard, list[str](), loader.replay

    def note(partition: Partition) -> Iterator[int]:
        read.append("a part of the log")
        return (yield from replay(partition))

    monkeypatch.setattr(loader, "replay", note)
    node.command(StopBroker(0), server.clock.now_ms(), lambda: "id")
    assert not partition.is_loaded and not partition.shard.groups
    assert node.world.partitions.owner("g0").shard.offsets.bytes == 0
    counts = [len(old.groups)]
    while node.engine.unfinished:
        node.engine.long_requests.step()
        counts.append(len(old.groups))
    assert counts[-1] == 0 and len(set(counts)) > 3
    server.turn()
    assert waiting.answers[-1][1].error_code == ErrorCode.NOT_COORDINATOR
    assert [event.group for event in server.events if event.cause is Cause.COORDINATOR_MOVED] == ["waits"]
    node.command(StartBroker(0), server.clock.now_ms(), lambda: "id")
    assert not read, "the log is read later"
    server.rest()
    assert read
    assert partition.is_loaded and len(partition.shard.groups) == 41


def test_a_large_batch_is_loaded_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction of many offsets is one batch: its records are read at once, and applied a few at a time."""
    monkeypatch.setattr(log_pace, "STEP_RECORDS", 10)
    server = InMemory(topics={"orders": 95})
    peer = server.connect()
    ids = peer.ask(InitProducerIdRequest("x", 60_000), 4)
    asked = commit_in_transaction(
        "x", "g", (ids.producer_id, ids.producer_epoch), {"orders": dict.fromkeys(range(95), 1)}
    )
    assert not peer.ask(asked, 5).topics[0].partitions[0].error_code
    again = InMemory(server.files, is_loaded=False)
    counts = [step.records for step in again.loading if step.records]
    assert max(counts) == 10 and sum(counts) == 95
    assert len(again.node.world.partitions.owner("g").shard.offsets.pending_offsets_of("g")) == 95
