"""The end of a transaction of many offsets: its marker is written at once, and the offsets follow in steps."""

from collections.abc import Set as AbstractSet
from typing import Any

import pytest

from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.moves import MoveGroup
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestWritableTxnMarker,
    WriteTxnMarkersRequestWritableTxnMarkerTopic,
)
from protocol.schema import Message
from storage.memory_files import MemoryFiles
from tests.control.steered import SteeredNode
from tests.requests import commit, commit_in_transaction, fetch_offsets
from tests.server.in_memory import InMemory, Peer

COUNT = 400
EVERYTHING = {"orders": range(COUNT)}
ONE_GROUP = OffsetFetchRequest("g", (OffsetFetchRequestTopic("orders", tuple(range(COUNT))),))


def begun(files: MemoryFiles | None = None) -> tuple[InMemory, Peer, tuple[int, int]]:
    """A server with a transaction of offsets 7 for each partition, all of which have offset 5."""
    server = InMemory(files, topics={"orders": COUNT})
    peer = server.connect()
    assert not peer.ask(commit("g", {"orders": dict.fromkeys(range(COUNT), 5)}), 8).topics[0].partitions[0].error_code
    ids = peer.ask(InitProducerIdRequest("x", 60_000), 4)
    producer = ids.producer_id, ids.producer_epoch
    assert not commit_pending(server, producer, 7, range(COUNT))
    server.frontend.turn.seconds = 0.0  # a step a turn
    return server, peer, producer


def commit_pending(server: InMemory, producer: tuple[int, int], offset: int, partitions: range) -> ErrorCode:
    request = commit_in_transaction("x", "g", producer, {"orders": dict.fromkeys(partitions, offset)})
    answer = server.connect().ask(request, 5)
    (code,) = {one.error_code for one in answer.topics[0].partitions}
    return ErrorCode(code)


def fetched(server: InMemory, *, is_stable: bool) -> AbstractSet[tuple[int, ErrorCode]]:
    peer = server.connect()
    peer.send((fetch_offsets("g", EVERYTHING, require_stable=is_stable), 9))
    while not peer.answers:
        server.turn()
    answer: Any = peer.answers[0][1]
    return {(one.committed_offset, ErrorCode(one.error_code)) for one in answer.groups[0].topics[0].partitions}


def test_an_offset_is_unstable_until_its_step() -> None:
    server, peer, producer = begun()
    assert not peer.ask(EndTxnRequest("x", *producer, committed=True), 3).error_code
    assert server.frontend.has_work, "not all at once"
    seen = []
    while server.frontend.has_work:
        seen.append(fetched(server, is_stable=True))
    assert {(7, ErrorCode.NONE), (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)} in seen
    assert all((5, ErrorCode.NONE) not in one for one in seen)
    assert fetched(server, is_stable=True) == {(7, ErrorCode.NONE)}
    assert commit_pending(server, producer, 8, range(1)) == ErrorCode.NONE


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_ends_in_each_of_its_groups(committed: bool) -> None:
    """Those of one partition of `__consumer_offsets` and of others, after a restart as well."""
    server = InMemory(topics={"orders": 3}, offsets_topic_num_partitions=4)
    peer, names = server.connect(), [f"g{number}" for number in range(8)]
    assert len({server.node.world.partitions.owner(name).index for name in names}) == 4
    ids = peer.ask(InitProducerIdRequest("x", 60_000), 4)
    producer = ids.producer_id, ids.producer_epoch
    for number, name in enumerate(names):
        assert not peer.ask(commit(name, {"orders": {0: 1}}), 8).topics[0].partitions[0].error_code
        request = commit_in_transaction("x", name, producer, {"orders": {0: 10 + number, 1: number}})
        assert not peer.ask(request, 5).topics[0].partitions[0].error_code
    assert not peer.ask(EndTxnRequest("x", *producer, committed=committed), 3).error_code
    server.rest()
    for one in (server, InMemory(server.files, topics={"orders": 3}, offsets_topic_num_partitions=4)):
        assert not one.node.world.ledger.transactions.find_prepared_transactions()
        for number, name in enumerate(names):
            (topic,) = one.connect().ask(fetch_offsets(name, require_stable=True), 9).groups[0].topics
            found = {each.partition_index: each.committed_offset for each in topic.partitions}
            assert found == ({0: 10 + number, 1: number} if committed else {0: 1})


@pytest.mark.parametrize("version", range(2, 10))
def test_a_fetch_sees_all_of_the_new_offsets_or_is_refused(version: int) -> None:
    """A client that does not ask for stable offsets is told to come back, by any version of the request."""
    server, peer, producer = begun()
    peer.ask(EndTxnRequest("x", *producer, committed=True), 3)
    seen = set[object]()
    while server.frontend.has_work:
        reader = server.connect()
        reader.send((fetch_offsets("g", EVERYTHING) if version >= 8 else ONE_GROUP, version))
        server.turn()
        if reader.answers:
            answer: Any = reader.answers[0][1]
            found = answer.groups[0] if version >= 8 else answer
            seen.add((found.error_code, len(found.topics)))
    assert (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0) in seen
    assert fetched(server, is_stable=False) == {(7, ErrorCode.NONE)}


def test_what_is_being_applied_is_finished_for_an_operator() -> None:
    server = SteeredNode(topics={"orders": COUNT})
    peer = server.connect()
    ids = peer.ask(InitProducerIdRequest("x", 60_000), 4)
    producer = ids.producer_id, ids.producer_epoch
    assert not commit_pending(server, producer, 7, range(COUNT))
    server.frontend.turn.seconds = 0.0
    peer.ask(EndTxnRequest("x", *producer, committed=True), 3)
    assert server.frontend.has_work
    found = server.operator.state.contents().offsets["g"]["orders"]
    assert found == {str(number): 7 for number in range(COUNT)}
    server.rest()
    assert commit_pending(server, producer, 8, range(1)) == ErrorCode.NONE


def test_an_operator_who_leaves_meanwhile_cuts_nothing_off() -> None:
    """As one does whose connection is closed while groups are listed."""
    server, peer, producer = begun()
    peer.ask(EndTxnRequest("x", *producer, committed=True), 3)
    looking = server.node.world.partitions.owner("g").shard.offsets.finish_ends()
    next(looking)
    looking.close()
    server.rest()
    assert fetched(server, is_stable=True) == {(7, ErrorCode.NONE)}
    assert commit_pending(server, producer, 8, range(1)) == ErrorCode.NONE


@pytest.mark.parametrize("turns", range(4))
def test_groups_that_move_while_a_transaction_ends_have_all_of_it_or_nothing(turns: int) -> None:
    """Whether the steps of a group have begun or not, they are those of its coordinator of before."""
    server = InMemory(topics={"orders": 100}, offsets_topic_num_partitions=3, virtual_brokers=2)
    coordinators, partitions, names = server.node.world.coordinators, server.node.world.partitions, ("g0", "g1", "g2")
    assert len({partitions.owner(name).index for name in names}) == 3

    def ask(broker: int, message: Message, version: int) -> Any:
        peer = server.connect(broker=broker)
        peer.send((message, version))
        server.rest()
        return peer.answers[0][1]

    home, offsets = coordinators.of_transaction("x"), dict.fromkeys(range(100), 7)
    ids = ask(home, InitProducerIdRequest("x", 60_000), 4)
    producer = ids.producer_id, ids.producer_epoch
    for name in names:
        at, request = coordinators.of_group(name), commit_in_transaction("x", name, producer, {"orders": offsets})
        assert not ask(at, request, 5).topics[0].partitions[0].error_code
    server.frontend.turn.seconds = 0.0  # a step a turn
    server.connect(broker=home).send((EndTxnRequest("x", *producer, committed=True), 3))
    for _ in range(turns):
        server.turn()
    for name in names:
        move = MoveGroup(name, 1 - coordinators.of_group(name), load_ms=1_000)
        server.node.command(move, server.clock.now_ms(), str)
    server.rest()
    server.advance(7)
    server.rest()
    for name in names:
        found = ask(coordinators.of_group(name), fetch_offsets(name, require_stable=True), 9).groups[0]
        assert {one.committed_offset for topic in found.topics for one in topic.partitions} == {7}
    assert server.node.engine.memory.offsets_bytes == sum(one.shard.offsets.bytes for one in partitions) > 0
    assert not server.node.world.ledger.transactions.find_prepared_transactions()
    assert not server.node.world.edge.failures


def test_what_is_committed_after_the_marker_stays() -> None:
    server, peer, producer = begun()
    peer.ask(EndTxnRequest("x", *producer, committed=True), 3)
    last = {"orders": {COUNT - 1: 9}}
    assert server.connect().ask(commit("g", last), 8).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert server.frontend.has_work, "while others are still to be committed"
    server.rest()
    for one in (server, InMemory(server.files, topics={})):
        assert fetched(one, is_stable=True) == {(7, ErrorCode.NONE), (9, ErrorCode.NONE)}


def test_a_server_that_stops_between_two_steps_has_all_of_them() -> None:
    for commits, offset in ((True, 7), (False, 5)):
        server, peer, producer = begun()
        peer.ask(EndTxnRequest("x", *producer, committed=commits), 3)
        assert server.frontend.has_work
        assert fetched(InMemory(server.files, topics={}), is_stable=True) == {(offset, ErrorCode.NONE)}


@pytest.mark.parametrize("leaves", [False, True])
def test_a_producer_waits_until_an_administrators_marker_is_applied(leaves: bool) -> None:
    """Its transaction goes on, as in Kafka; what it commits next is not mixed with what the marker commits, whether the
    administrator waits for that or not."""
    server, peer, producer = begun()
    partition = server.node.world.partitions.owner("g").index
    topics = (WriteTxnMarkersRequestWritableTxnMarkerTopic(OFFSETS_TOPIC, (partition,)),)
    marker = WriteTxnMarkersRequest((WriteTxnMarkersRequestWritableTxnMarker(*producer, True, topics),))
    administrator = server.connect()
    assert administrator.ask(marker, 1) is None, "it is decided in steps"
    assert commit_pending(server, producer, 8, range(2)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if leaves:
        server.frontend.disconnect(administrator.connection)
    server.rest()
    assert leaves or len(administrator.answers) == 1
    assert fetched(server, is_stable=True) == {(7, ErrorCode.NONE)}
    assert commit_pending(server, producer, 8, range(2)) == ErrorCode.NONE
    assert fetched(server, is_stable=False) == {(7, ErrorCode.NONE)}
    peer.ask(EndTxnRequest("x", *producer, committed=True), 3)
    server.rest()
    assert fetched(server, is_stable=True) == {(7, ErrorCode.NONE), (8, ErrorCode.NONE)}
