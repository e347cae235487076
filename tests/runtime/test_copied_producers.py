"""The logs of groups of another cluster: its producers are not those that get their ids here."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from storage.checkpoint import NAME
from storage.memory_files import MemoryFiles
from tests.requests import commit_in_transaction, fetch_offsets
from tests.server.in_memory import InMemory, Peer

GROUPS = ("a", "b", "c")


def commit_in_one(peer: Peer, name: str, offset: int) -> tuple[int, int]:
    """Commit an offset of each group in a transaction; return the producer."""
    given = peer.ask(InitProducerIdRequest(name, 60_000), 4)
    producer = (given.producer_id, given.producer_epoch)
    for group in GROUPS:
        answer = peer.ask(commit_in_transaction(name, group, producer, {"orders": {0: offset}}), 5)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert peer.ask(EndTxnRequest(name, *producer, committed=True), 4).error_code == ErrorCode.NONE
    return producer


@pytest.mark.parametrize("is_known", [False, True], ids=["first start", "second start"])
def test_a_producer_is_not_fenced_by_one_of_the_cluster_that_was_copied(is_known: bool) -> None:
    theirs = InMemory(MemoryFiles())
    peer = theirs.connect()
    for number in range(4):
        producers = [commit_in_one(peer, name, number) for name in ("x", "y")]
    theirs.node.close()
    copied = MemoryFiles()
    for directory in theirs.files.list("data"):
        if directory.startswith("__consumer_offsets-"):
            copied.make_directory(f"data/{directory}")
            for name in theirs.files.list(f"data/{directory}"):
                if name != NAME:
                    file = theirs.files.open(f"data/{directory}/{name}")
                    copied.open(f"data/{directory}/{name}", create=True).append(file.pread(0, file.size()))
    server = InMemory(copied)
    if is_known:
        server.node.close()
        server = InMemory(copied)
    peer = server.connect()
    fetched = peer.ask(fetch_offsets("a", {"orders": (0,)}), 8)
    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 3
    given = [commit_in_one(peer, name, 10) for name in ("x", "y", "z")]
    assert {producer_id for producer_id, _ in given}.isdisjoint(producer_id for producer_id, _ in producers)
    fetched = peer.ask(fetch_offsets("a", {"orders": (0,)}), 8)
    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 10
