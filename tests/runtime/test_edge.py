"""The edge of the step: whatever fails in it has changed nothing, is logged once and counted, and costs that input."""

import errno
import logging
from typing import Any, NoReturn

import pytest
from msgspec import structs

from coordinator.core import cleanup, dispatch
from coordinator.dataplane import dataplane
from coordinator.runtime import engine, ledger, partition
from coordinator.runtime.edge import FAILED, Edge
from coordinator.runtime.error_response import error_response
from protocol.apis import ADVERTISED_ONLY, API, BY_NAME, TABLE
from protocol.codec import decode_response, encode_response
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.produce import ProduceRequest
from protocol.schema import Message
from storage.files import StorageError
from tests import requests
from tests.dataplane.broker import batch
from tests.log_lines import log_lines
from tests.protocol.values import Choices, value_of
from tests.requests import create_topics, fetch, join, produce
from tests.server.in_memory import InMemory, Peer
from tests.simulation.promises import codes_in
from tests.storage.crashing_disk import CrashingDisk

JOIN = join("g")


def commit(group_id: str, offset: int = 5) -> OffsetCommitRequest:
    return requests.commit(group_id, {"orders": {0: offset}})


def fail(*_: Any) -> NoReturn:
    raise KeyError("a mistake")


def with_entries(api: API, version: int) -> Any:
    """A request with something in each of its arrays: a response has a place for the code of each entry."""
    request = value_of(api.request.at(version, api.is_flexible(version)), Choices(bytes([2] * 400)))
    return structs.replace(request, acks=1) if api.name == "Produce" else request


@pytest.mark.rule("G-048")
@pytest.mark.parametrize("api", TABLE, ids=lambda api: api.name)
def test_every_api_has_a_response_that_says_one_error(api: Any) -> None:
    """It can be encoded in every version, and says the error of all that was asked for, or of the whole."""
    for version in api.versions:
        request = with_entries(api, version)
        response = error_response(request, version, ErrorCode.UNKNOWN_SERVER_ERROR)
        read = decode_response(api.key, version, encode_response(api.key, version, 1, response)[4:]).body
        found = codes_in(read)
        assert found == {ErrorCode.UNKNOWN_SERVER_ERROR}, f"{api.name} v{version}: {read}"


@pytest.mark.rule("G-048")
@pytest.mark.parametrize("name", sorted(name for name, api in BY_NAME.items() if api.kafka_4_3))
def test_a_request_that_fails_costs_that_request_alone(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """G-048, of every API: the client is told, and asks on by the same connection; there is one line in the log."""
    server = InMemory()
    peer = server.connect()
    version = max(
        v for v in server.node.engine.offered[BY_NAME[name].key] if (BY_NAME[name].key, v) not in ADVERTISED_ONLY
    )
    route = server.node.engine._routes[BY_NAME[name].key, version]
    monkeypatch.setitem(server.node.engine._routes, (BY_NAME[name].key, version), type(route)(name, fail))
    with caplog.at_level(logging.ERROR, "muster"):
        peer.send((with_entries(BY_NAME[name], version), version), (ListGroupsRequest(), 4))
        server.turn()
    assert [correlation_id for correlation_id, _ in peer.answers] == [1, 2]
    assert not peer.connection.closing
    assert len(caplog.records) == (2 if name == "ListGroups" and version == 4 else 1)
    assert log_lines(caplog)[0] == (f"internal error: {name}", {"kind": name})
    assert caplog.records[0].exc_info is not None and "a mistake" in caplog.text
    assert server.node.world.edge.failures[name] == 1


def test_a_producer_that_wants_no_acknowledgement_gets_none_of_a_failure_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(dataplane.HANDLERS, ProduceRequest, fail)
    server = InMemory()
    peer = server.connect()
    assert peer.ask(ProduceRequest(acks=0), 9) is None
    assert peer.connection.closing


# -- what fails before it is applied has changed nothing ---------------------------------------------------------------


def stable_group(server: InMemory) -> Peer:
    """A group `g` with an offset, and one member that waits for the initial delay."""
    peer = server.connect()
    peer.ask(commit("g"), 8)
    peer.ask(JOIN, 3)
    return peer


def two_groups(**settings: int) -> tuple[InMemory, Peer]:
    server = InMemory(**settings)
    peer = server.connect()
    for group_id in ("g", "h"):
        peer.ask(commit(group_id), 8)
    return server, peer


def state(server: InMemory) -> tuple[Any, ...]:
    """All that an input may change."""
    shards = [partition.shard for partition in server.node.world.partitions]
    node = server.node
    return (
        [dict(shard.groups) for shard in shards],
        [list(shard.offsets.entries(group_id)) for shard in shards for group_id in shard.offsets.groups()],
        [shard.timers.items() for shard in shards],
        dict(node.world.ledger.catalog.topics_by_name),
        node.world.ledger.transactions.next_producer_id,
        {partition.index: partition.log.end_offset for partition in node.world.partitions if partition.has_log},
        node.world.ledger.log.end_offset,
    )


def unencodable(*_: Any) -> NoReturn:
    raise ProtocolError("a string of 40000 bytes, more than 32767 in member_id")


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (commit("h"), 8),
        (join("g2"), 3),
        (create_topics({"new": 1}), 5),
        (DeleteTopicsRequest(topic_names=("orders",)), 5),
        (InitProducerIdRequest(None, 60_000), 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_what_cannot_be_encoded_is_not_applied_either(
    request_: Message, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory and log stay together, and the client's bytes are not blamed for what the server cannot write."""
    server = InMemory()
    stable_group(server)
    peer, before = server.connect(), state(server)
    with monkeypatch.context() as broken:
        broken.setattr(partition, "write_records", unencodable)
        broken.setattr(ledger.records, "encode", unencodable)
        answer = peer.ask(request_, version)
    assert ErrorCode.UNKNOWN_SERVER_ERROR in codes_in(answer)
    assert state(server) == before
    assert not peer.connection.closing and server.stats.connections_refused == 0
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes_in(peer.ask(request_, version)), "it was the encoding"


@pytest.mark.parametrize("request_", [DeleteTopicsRequest(topic_names=("orders",)), EndTxnRequest("x", 0, 0, True)])
def test_an_append_that_fails_within_a_step_ends_the_process(request_: Message) -> None:
    """No response may be sent, not even that of a failure: nobody knows what the log holds."""
    disk = CrashingDisk()
    server = InMemory(disk)
    peer = server.connect()
    peer.ask(InitProducerIdRequest("x", 60_000), 4)
    peer.ask(AddOffsetsToTxnRequest("x", 0, 0, "g"), 3)
    disk.refuse = lambda operation, path: errno.EIO * (operation == "append to" and ledger.DIRECTORY in path)
    before = len(peer.answers)
    peer.send((request_, 4))
    with pytest.raises(StorageError, match=ledger.DIRECTORY):
        server.turn()
    disk.refuse = lambda operation, path: 0
    assert len(peer.answers) == before
    assert server.node.world.edge.failures == {}


def test_a_timer_that_fails_is_gone_and_the_others_fire(monkeypatch: pytest.MonkeyPatch) -> None:
    server = InMemory(group_initial_rebalance_delay_ms=1_000)
    a, b = server.connect(), server.connect()
    a.ask(JOIN, 3)
    b.ask(join("h"), 3)
    handlers = dict(dispatch.TIMERS)
    key = next(key for key in handlers if key[0] == "join" and key[1].__name__ == "ClassicGroup")

    def of_g(group: Any, timer: Any, env: Any) -> Any:
        return fail() if group.group_id == "g" else handlers[key](group, timer, env)

    monkeypatch.setitem(dispatch.TIMERS, key, of_g)
    server.advance(1)
    assert (len(a.answers), len(b.answers)) == (0, 1), "the other group has its generation"
    assert server.node.world.edge.failures == {"timer join": 1}
    server.advance(5)
    assert server.node.world.edge.failures == {"timer join": 1}, "it does not come back"


def test_a_group_whose_offsets_cannot_expire_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = two_groups(offsets_retention_minutes=1, offsets_retention_check_interval_ms=60_000)
    expire = cleanup.expire_offsets
    monkeypatch.setattr(
        cleanup, "expire_offsets", lambda group, *args: fail() if group.group_id == "g" else expire(group, *args)
    )
    server.advance(130)
    groups = {group_id for partition in server.node.world.partitions for group_id in partition.shard.groups}
    assert groups == {"g"}
    assert server.node.world.edge.failures["timer expiry"] >= 1
    assert server.node.engine.next_deadline_ms() is not None, "the next pass comes"


def test_a_group_that_fails_as_a_topic_goes_does_not_keep_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    server, peer = two_groups()
    remove = cleanup.remove_offsets
    monkeypatch.setattr(
        cleanup, "remove_offsets", lambda keys, group_id: fail() if group_id == "g" else remove(keys, group_id)
    )
    answer = peer.ask(DeleteTopicsRequest(topic_names=("orders",)), 5)
    assert not codes_in(answer)
    left = {group_id for partition in server.node.world.partitions for group_id in partition.shard.offsets.groups()}
    assert left == {"g"} and server.node.world.edge.failures == {"topics": 1}


def test_one_group_of_many_to_delete_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    _, peer = two_groups()
    delete = cleanup.delete_group
    monkeypatch.setattr(
        cleanup,
        "delete_group",
        lambda group, group_id, env: fail() if group_id == "g" else delete(group, group_id, env),
    )
    answer = peer.ask(DeleteGroupsRequest(("g", "h")), 2)
    assert {one.group_id: one.error_code for one in answer.results} == {"g": -1, "h": 0}


@pytest.mark.parametrize("woken", [True, False])
def test_a_long_poll_that_fails_is_answered(woken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    server = InMemory()
    consumer, producer = server.connect(), server.connect()
    assert consumer.ask(fetch("orders", max_wait_ms=500, max_bytes=1_000), 12) is None
    monkeypatch.setattr(dataplane, "resume" if woken else "overdue", fail)
    if woken:
        producer.ask(produce("orders", {0: batch("a")}, acks=1), 9)
    else:
        server.advance(1)
    ((_, answer),) = consumer.answers
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert server.node.world.edge.failures == {"Fetch": 1}


def test_a_transaction_that_cannot_time_out_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = InMemory()
    peer = server.connect()
    producer = peer.ask(InitProducerIdRequest("x", 1_000), 4)
    peer.ask(AddOffsetsToTxnRequest("x", producer.producer_id, producer.producer_epoch, "g"), 3)
    monkeypatch.setattr(engine, "fence", fail)
    for _ in range(3):
        server.advance(2)
    assert server.node.world.edge.failures == {"timer transaction": 1}


def test_a_missing_module_of_ours_ends_the_process_and_one_of_others_does_not() -> None:
    edge = Edge()

    def load(name: str) -> NoReturn:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    assert edge.attempt("x", load, "someone.else") is FAILED
    for name in ("coordinator.gone", "protocol.gone", "storage"):
        with pytest.raises(ModuleNotFoundError):
            edge.attempt("x", load, name)
    assert edge.failures == {"x": 1}
