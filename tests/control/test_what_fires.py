"""A move of the clock names all that it has set off: timers of groups, transactions, loads, and the janitor's work."""

from coordinator.runtime.janitor import Janitor
from coordinator.server.verbs.clock import keep_everybody
from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records import Record
from tests.control.steered import SteeredNode
from tests.requests import commit, create_topics, fetch, produce

DAY_MS = 86_400_000


def begin_transaction(server: SteeredNode, name: str, timeout_ms: int) -> None:
    peer = server.connect(name)
    producer = peer.ask(InitProducerIdRequest(name, timeout_ms), 4)
    topics = (AddPartitionsToTxnRequestTopic("orders", (0,)),)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )
    found = peer.ask(request, 3).results_by_topic_v3_and_below[0].results_by_partition[0]
    assert found.partition_error_code == ErrorCode.NONE


def test_a_transaction_that_times_out_is_named() -> None:
    server = SteeredNode(offsets_topic_num_partitions=1)
    began_ms = server.clock.now_ms()
    begin_transaction(server, "short", 2_000)
    begin_transaction(server, "long", 60_000)
    moved = server.operator.clock.advance(3_000, keep_everybody)
    assert [(one.kind, one.group, one.at_ms) for one in moved.fired] == [("transaction", "short", began_ms + 2_000)]
    assert moved.fired[0].effect == "the transaction is aborted, and its producer is fenced"
    server.operator.clock.set_rate(0)
    stepped = server.operator.clock.step(keep_everybody)
    assert (stepped.now_ms, [one.group for one in stepped.fired]) == (began_ms + 60_000, ["long"])


def test_a_broker_that_has_loaded_is_named() -> None:
    server = SteeredNode(virtual_brokers=3, offsets_topic_num_partitions=6)
    server.operator.clock.set_rate(0)
    home = server.operator.brokers.coordinator("g", "group").broker
    assert home is not None, "a broker runs"
    server.operator.brokers.move_group("g", (home + 1) % 3, load_ms=5_000)
    assert "load" in {one.kind for one in server.operator.clock.state().deadlines}
    assert [one.kind for one in server.operator.clock.step(keep_everybody).fired] == ["load"]
    assert not server.operator.brokers.coordinator("g", "group").is_loading


def test_records_that_expire_are_gone_when_the_move_returns() -> None:
    server = SteeredNode(offsets_topic_num_partitions=1)
    peer = server.connect()
    peer.ask(create_topics({"t": 1}, {"retention.ms": str(7 * DAY_MS)}), 7)
    batch = record_batch.encode([Record(None, b"old", timestamp=server.clock.now_ms())])
    peer.ask(produce("t", {0: batch}), 12)
    server.node.set_upkeep(Janitor(server.node, server.clock.now_ms()))
    due = {one.kind: one.at_ms for one in server.operator.clock.state().deadlines}
    assert due["retention"] == server.clock.now_ms() + 300_000
    first = server.operator.clock.step(keep_everybody)
    assert "retention" in {one.kind for one in first.fired}
    assert peer.ask(fetch("t"), 11).responses[0].partitions[0].log_start_offset == 0
    moved = server.operator.clock.advance(8 * DAY_MS, keep_everybody)
    assert {"retention", "transactional_ids", "share_states"} <= {one.kind for one in moved.fired}
    assert peer.ask(fetch("t", offset=1), 11).responses[0].partitions[0].log_start_offset == 1


def test_a_compaction_that_is_due_is_done_and_named() -> None:
    server = SteeredNode(
        offsets_topic_num_partitions=1, offsets_topic_min_dirty_bytes=1, offsets_topic_segment_bytes=1_024
    )
    for offset in range(40):
        server.connect().ask(commit("g", {"orders": {0: offset}}), 8)
    server.node.engine.flush()
    server.node.engine.append()
    server.node.set_upkeep(Janitor(server.node, server.clock.now_ms()))
    moved = server.operator.clock.advance(1, keep_everybody)
    assert ("compaction", "__consumer_offsets-0") in [(one.kind, one.group) for one in moved.fired]


def test_a_move_waits_for_a_round_that_is_being_done() -> None:
    """That one deletes what has expired by the time before: the move has another one done."""
    server = SteeredNode(offsets_topic_num_partitions=1)
    janitor = Janitor(server.node, server.clock.now_ms())
    server.node.set_upkeep(janitor)
    steps, waits = janitor.round(server.clock.now_ms() + 2 * DAY_MS), 0
    next(steps)
    move = server.operator.clock.advance_in_steps(3 * DAY_MS, keep_everybody)
    while True:
        try:
            wait = next(move)
        except StopIteration as end:
            moved = end.value
            break
        if wait is not None and janitor.is_busy:
            waits += 1
            assert not list(janitor.round(server.clock.now_ms())) and janitor.is_busy, "nor does the next one begin"
            next(steps, None)
    assert waits and not janitor.is_busy
    assert [one.kind for one in moved.fired].count("retention") == 1
    moving = janitor.catch_up(server.clock.now_ms() + 2 * DAY_MS)
    for _ in moving:
        assert not list(janitor.round(server.clock.now_ms())) and janitor.is_busy
    for _ in janitor.round(server.clock.now_ms() + 4 * DAY_MS):
        pass
    assert not janitor.is_busy
