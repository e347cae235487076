"""A start reads from the log the offsets that memory had, whatever one turn has decided, in whatever order."""

from random import Random
from typing import Final

import pytest

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.schema import Message
from tests.requests import commit, commit_in_transaction, delete_offsets, fetch_offsets
from tests.server.in_memory import InMemory

GROUPS: Final = ("g", "h")
PRODUCERS: Final = ("x", "y")


def offsets(server: InMemory) -> dict[tuple[str, int], int]:
    peer = server.connect()
    return {
        (group, one.partition_index): one.committed_offset
        for group in GROUPS
        for topic in peer.ask(fetch_offsets(group), 8).groups[0].topics
        for one in topic.partitions
    }


@pytest.mark.parametrize("seed", range(12))
def test_commits_of_all_kinds_in_one_turn_are_replayed_as_they_were_decided(seed: int) -> None:
    dice, number = Random(seed), 0
    server = InMemory(offsets_topic_num_partitions=1)
    tool, of_producer = server.connect(), {name: server.connect(name) for name in PRODUCERS}
    ids = {}
    for name, peer in of_producer.items():
        made = peer.ask(InitProducerIdRequest(name, 60_000), 4)
        ids[name] = (made.producer_id, made.producer_epoch)
    for _ in range(12):
        for name, peer in of_producer.items():
            for group in GROUPS:
                assert peer.ask(AddOffsetsToTxnRequest(name, *ids[name], group), 3).error_code == ErrorCode.NONE
        for _ in range(dice.randint(2, 8)):  # in one turn
            number += 1
            name, group, partition = dice.choice(PRODUCERS), dice.choice(GROUPS), dice.randrange(2)
            at = {"orders": {partition: number}}
            request: tuple[Message, int]
            match dice.randrange(8):
                case 0:
                    request = delete_offsets(group, {"orders": (partition,)}), 0
                case 1 | 2 | 3:
                    request = commit(group, at), 8
                case _:
                    of_producer[name].send((commit_in_transaction(name, group, ids[name], at), 3))
                    continue
            tool.send(request)
        server.turn()
        for name, peer in of_producer.items():
            peer.send((EndTxnRequest(name, *ids[name], dice.random() < 0.8), 3))
        server.rest()
    before = offsets(server)
    assert before, "there are offsets to compare"
    assert offsets(InMemory(server.files)) == before
