"""A topic's log that cannot be synced at the end of a turn: its partition is closed, and nobody hears otherwise."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct
from msgspec.structs import replace

from coordinator.dataplane.withdrawal import WITHDRAW, withdraw
from coordinator.server import encoder
from protocol.batch_validation import Allowance
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from tests.dataplane.broker import read_values
from tests.dataplane.failing_disk import codes, fail, fetching, producing, serving
from tests.dataplane.transactional import transactional_batch
from tests.requests import commit, produce
from tests.server.in_memory import InMemory


def committing() -> tuple[OffsetCommitRequest, int]:
    return commit("g", {"t": {0: 5}}), 8


def test_a_sync_that_fails_closes_its_partition_and_no_other() -> None:
    files, server = serving()
    writer, reader, member = server.connect(), server.connect(), server.connect()
    reader.send(fetching(0, 1, wait_ms=10_000))
    server.turn()
    assert reader.answers == []
    fail(files, "sync", "t-0")
    writer.send(producing(0, 1), producing(2))
    member.send(committing())
    server.turn()
    assert codes(writer) == [(0, ErrorCode.KAFKA_STORAGE_ERROR), (1, 0), (2, 0)]
    assert [one.base_offset for _, answer in writer.answers for one in answer.responses[0].partition_responses] == [
        -1, 1, 1,
    ]  # fmt: skip
    assert member.answers[0][1].topics[0].partitions[0].error_code == ErrorCode.NONE
    (read,) = reader.answers[0][1].responses[0].partitions
    assert (read.error_code, read.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b""), "it would have had the record"
    assert set(server.node.world.dataplane.closed_partitions) == {("t", 0)}
    assert writer.ask(*producing(0)).responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert writer.ask(*producing(1)).responses[0].partition_responses[0].base_offset == 2


def test_what_was_appended_before_an_append_fails_is_not_acknowledged() -> None:
    """The log is closed in the middle of a turn, before it was synced: none of its responses may say that all is well."""
    files, server = serving()
    first, second = server.connect(), server.connect()
    fail(files, "append to", "t-0", after=1)
    first.send(producing(0))
    second.send(producing(0, 1))
    server.turn()
    assert codes(first) == [(0, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert codes(second) == [(0, ErrorCode.KAFKA_STORAGE_ERROR), (1, 0)]


def test_a_request_in_steps_is_not_acknowledged_for_an_earlier_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    files, server = serving()
    peer = server.connect()
    monkeypatch.setattr(Allowance, "end_step", lambda self: True)
    server.frontend.turn.seconds = -1.0  # every turn is over at once, and does one step
    fail(files, "sync", "t-0")
    peer.send(producing(0, 1, 2))
    server.turn()
    server.turn()
    assert server.node.world.dataplane.closed_partitions
    assert peer.answers == []
    for _ in range(10):
        server.turn()
    assert codes(peer) == [(0, ErrorCode.KAFKA_STORAGE_ERROR), (1, 0), (2, 0)]


@pytest.mark.parametrize("operation", ["sync", "append to"])
def test_a_transaction_whose_marker_cannot_be_written_ends_at_the_next_start(operation: str) -> None:
    files, server = serving()
    peer = server.connect()
    producer = peer.ask(InitProducerIdRequest("x", 60_000), 4)
    records = transactional_batch((producer.producer_id, producer.producer_epoch), "b")
    answer = peer.ask(produce("t", {0: records}, "x"), 12)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    fail(files, operation, "t-0")
    ended = peer.ask(EndTxnRequest("x", producer.producer_id, producer.producer_epoch, True), 4)
    assert ended.error_code == ErrorCode.NONE, "that it is committed is on the disk"
    assert server.node.world.ledger.transactions.by_id["x"].state.is_prepared
    for how, disk in files.crashes():
        after = InMemory(disk, is_synced=True, topics={"t": 3})
        assert not after.node.world.ledger.transactions.by_id["x"].state.is_prepared, how
        (read,) = after.connect().ask(*fetching(0, 1, level=1)).responses[0].partitions
        assert b"b" in read.records, how
        assert not read.aborted_transactions, how


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("operation", ["sync", "append to"])
def test_of_transactions_that_end_together_those_are_complete_whose_markers_are_all_there(
    operation: str, failing: int
) -> None:
    """Whichever of the partitions of a transaction fails; whatever else the same turn writes is there as well."""
    files, server = serving()
    peer = server.connect()
    wanted = {"a": (0, 1), "b": (1, 2), "c": (2, 0), "d": (0, 1, 2), "e": (1,)}
    producers = {}
    for name, partitions in wanted.items():
        made = peer.ask(InitProducerIdRequest(name, 60_000), 4)
        producers[name] = producer = made.producer_id, made.producer_epoch
        for index in partitions:
            answer = peer.ask(produce("t", {index: transactional_batch(producer, name)}, name), 12)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    fail(files, operation, f"t-{failing}")
    peers = [server.connect() for _ in wanted]
    for one, (name, producer) in zip(peers, producers.items(), strict=True):
        one.send((EndTxnRequest(name, *producer, name != "a"), 4))
    for _ in range(20):
        server.turn()
    assert [one.answers[0][1].error_code for one in peers] == [ErrorCode.NONE] * 5, "all of it is decided"
    left = {name for name, one in server.node.world.ledger.transactions.by_id.items() if one.state.is_prepared}
    assert left == {name for name, partitions in wanted.items() if failing in partitions}
    for how, disk in files.crashes():
        after = InMemory(disk, is_synced=True, topics={"t": 3})
        assert not any(one.state.is_prepared for one in after.node.world.ledger.transactions.by_id.values()), how
        for index in range(3):
            (read,) = after.connect().ask(*fetching(index, 1, level=1)).responses[0].partitions
            there = [name for name, partitions in wanted.items() if index in partitions]
            aborted = {(one.producer_id, one.first_offset) for one in read.aborted_transactions}
            assert read_values(read.records, aborted) == [name for name in there if name != "a"], how


def test_a_response_that_is_half_encoded_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be replaced any more, so its connection is closed."""
    files, server = serving()
    writer, reader = server.connect(), server.connect()
    reader.send(fetching(0, 1, wait_ms=10_000))
    server.turn()

    def encode_in_pieces(*arguments: Any) -> Iterator[bytes]:
        data = encode_response(*arguments)
        yield from (data[4:8], data[8:9], data[9:10], data[10:])

    monkeypatch.setattr(encoder, "encode_response_in_pieces", encode_in_pieces)
    monkeypatch.setattr(encoder, "is_fetch_short", lambda response: False)
    server.frontend.turn.seconds = -1.0  # no turn has time for more than one piece
    fail(files, "sync", "t-0")
    writer.send(producing(0))
    for _ in range(10):
        server.turn()
    assert codes(writer) == [(0, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert reader.connection.closing
    assert server.stats.connections_closed == {"internal error": 1}
    assert reader.answers == []
    assert not server.frontend.encoder.encodings
    assert not server.frontend.connections.parked


def fill_in(kind: Any) -> Any:
    """A message of that class in which every array, and all bytes and texts, have something in them."""
    hints = get_type_hints(kind)
    made = {name: _value(hints[name]) for name in kind.__struct_fields__ if name != "error_code"}
    return kind(**made)


def _value(hint: Any) -> Any:
    parts = [one for one in get_args(hint) if one not in (type(None), Ellipsis)]
    if get_origin(hint) is tuple:
        return (_value(parts[0]),)
    if parts:  # it may be null
        return _value(parts[0])
    return fill_in(hint) if issubclass(hint, Struct) else {bytes: b"x", str: "t", bool: True}.get(hint, 0)


@pytest.mark.parametrize("kind", WITHDRAW, ids=lambda kind: kind.__name__)
def test_what_is_withdrawn_tells_nothing_of_records(kind: Any) -> None:
    """Of a partition that is lost; another one's results stay as they are."""
    response = fill_in(kind)
    assert withdraw(response, {("t", 1)}, lambda _: "t") is response
    (topic,) = withdraw(response, {("t", 0)}, lambda _: "t").responses
    (withdrawn,) = getattr(topic, "partitions", None) or topic.partition_responses
    assert withdrawn.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    told = [name for name in withdrawn.__struct_fields__ if isinstance(getattr(withdrawn, name), tuple | bytes)]
    assert not [name for name in told if getattr(withdrawn, name)]


@pytest.mark.parametrize("kind", WITHDRAW, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("by_ids", [False, True])
def test_of_several_partitions_those_are_withdrawn_that_are_lost(kind: Any, by_ids: bool) -> None:
    """Of several topics, by their names or their ids; what was refused already stays so, and so does all the rest."""
    response = fill_in(kind)
    (topic,) = response.responses
    field = "partitions" if hasattr(topic, "partitions") else "partition_responses"
    index = "index" if hasattr(getattr(topic, field)[0], "index") else "partition_index"
    (one,) = getattr(topic, field)
    codes = [0, ErrorCode.UNKNOWN_LEADER_EPOCH, 0, 0]
    rows = tuple(replace(one, **{index: at, "error_code": code}) for at, code in enumerate(codes))
    named = {name: "" if by_ids else "{}" for name in ("name", "topic") if hasattr(topic, name)}
    topics = tuple(
        replace(topic, topic_id=bytes([at]) * 16, **{name: text.format(f"t{at}") for name, text in named.items()},
                **{field: rows})
        for at in range(3)
    )  # fmt: skip
    response = replace(response, responses=topics)

    def name_of(topic_id: bytes) -> str | None:
        return f"t{topic_id[0]}" if topic_id[0] < 2 else None  # the last one is gone

    lost = {("t0", 0), ("t0", 1), ("t1", 3), ("t9", 2)}
    found = withdraw(response, lost, name_of)
    assert replace(found, responses=()) == replace(response, responses=())
    for at, (before, after) in enumerate(zip(topics, found.responses, strict=True)):
        assert replace(after, **{field: ()}) == replace(before, **{field: ()})
        is_named = at < 2 or any(named.values())
        for old, new in zip(getattr(before, field), getattr(after, field), strict=True):
            number = getattr(old, index)
            if is_named and (f"t{at}", number) in lost and not old.error_code:
                assert (getattr(new, index), new.error_code) == (number, ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                assert new == old
