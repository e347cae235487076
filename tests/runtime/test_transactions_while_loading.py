"""Transactions that end while the log of a partition of theirs is being opened or replayed: nobody else writes to it."""

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.core.transactions.states import State
from coordinator.runtime.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from storage.log import scan
from storage.memory_files import MemoryFiles
from tests.requests import commit_in_transaction, fetch_offsets
from tests.server.in_memory import InMemory

TIMEOUT_MS = 60_000
PRODUCER = (0, 0)
INIT = InitProducerIdRequest("x", TIMEOUT_MS)
COMMIT = commit_in_transaction("x", "g", PRODUCER, {"orders": {1: 5}})
FETCH = fetch_offsets("g", {"orders": (1,)}, require_stable=True)


def stopped_in_a_transaction() -> MemoryFiles:
    """What a server leaves that was killed while a group's offset was pending."""
    files = MemoryFiles()
    peer = InMemory(files).connect()
    assert peer.ask(INIT, 4).producer_id == PRODUCER[0]
    assert peer.ask(COMMIT, 5).topics[0].partitions[0].error_code == ErrorCode.NONE
    return files


def opened_slowly(partition: Partition, meanwhile: Callable[[], None]) -> None:
    """Let others have a turn while the partition's log is opened: it has been read, and nobody has it yet."""
    open_log, turns = partition._open, [meanwhile]

    def opened() -> Any:
        log = open_log()
        if turns:
            turns.pop()()
        return log

    partition._open = opened


def fetched(server: InMemory) -> tuple[int, int]:
    """The offset as the group's members read it, with its error code."""
    partition = server.connect().ask(FETCH, 9).groups[0].topics[0].partitions[0]
    return partition.committed_offset, partition.error_code


def times_out(server: InMemory) -> None:
    server.advance(TIMEOUT_MS / 1000 + 1)


def commits(server: InMemory) -> None:
    answer = server.connect().ask(EndTxnRequest("x", *PRODUCER, committed=True), 5)
    assert answer.error_code == ErrorCode.NONE, "the decision is in the log, and that is what is promised"
    again = server.connect().ask(EndTxnRequest("x", *PRODUCER, committed=True), 5)
    assert again.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def is_fenced(server: InMemory) -> None:
    assert server.connect().ask(INIT, 4).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert server.connect().ask(INIT, 4).error_code == ErrorCode.CONCURRENT_TRANSACTIONS, "it is to come back"


@pytest.mark.parametrize(
    ("meanwhile", "offset", "prepared"),
    [
        (times_out, -1, State.PREPARE_ABORT),
        (commits, 5, State.PREPARE_COMMIT),
        (is_fenced, -1, State.PREPARE_ABORT),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_an_end_waits_for_the_log_that_is_being_opened(
    meanwhile: Callable[[InMemory], None], offset: int, prepared: State
) -> None:
    """Two owners of one log would write over each other."""
    files = stopped_in_a_transaction()
    server = InMemory(files, is_loaded=False)
    partition = server.node.world.partitions.owner("g")
    states: list[State] = []

    def turn() -> None:
        meanwhile(server)
        states.append(server.node.world.ledger.transactions.by_id["x"].state)

    opened_slowly(partition, turn)
    for step in server.loading:
        if step.opens is not None:
            step.opens()  # as a thread does
    server.turn()
    assert states == [prepared], "decided, and not yet carried out"
    assert server.node.world.ledger.transactions.by_id["x"].state.is_over
    assert fetched(server) == (offset, ErrorCode.NONE)
    batches = [(header.base_offset, header.is_control) for header, _ in scan(partition.log)]
    assert batches == [(0, False), (1, True)], "the offset and its marker, once"
    assert fetched(InMemory(files)) == (offset, ErrorCode.NONE), "the next start reads the same"


def test_an_end_waits_while_any_of_its_partitions_is_replayed() -> None:
    """What was replayed of it already is loaded, and its group is served: its offset stays unstable."""
    server = InMemory(stopped_in_a_transaction(), is_loaded=False)
    assert any(step.records == 1 for step in server.loading), "all is read, and nothing is served yet"
    commits(server)
    assert not server.node.world.partitions.owner("g").is_loaded
    server.load()
    assert fetched(server) == (5, ErrorCode.NONE)


def test_nothing_is_written_to_a_partition_that_is_loaded() -> None:
    """A mistake of ours fails the step, and not the log."""
    server = InMemory(is_loaded=False)
    partition = server.node.world.partitions.owner("g")
    with pytest.raises(AssertionError, match="written to while it is loaded"):
        partition.end_transaction(1, True, b"marker")
