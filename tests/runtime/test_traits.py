"""Tables with a function for each API of a trait have exactly these APIs; and what is said to change nothing does not."""

from random import Random

import pytest

from coordinator.dataplane.withdrawal import WITHDRAW
from coordinator.runtime.authorization.needs import NEEDS
from coordinator.runtime.mutation_quota import LIMITED
from coordinator.runtime.router import HANDLERS
from protocol.apis import API_VERSIONS, BY_NAME, names_with
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.traits import Trait
from tests.protocol.values import Choices, message_of
from tests.server.in_memory import InMemory


def test_each_api_with_a_trait_has_the_function_for_it() -> None:
    assert LIMITED.keys() == names_with(Trait.LIMITED)
    assert {cls.__name__.removesuffix("Response") for cls in WITHDRAW} == names_with(Trait.OF_TOPICS)
    open_to_all = names_with(Trait.HANDSHAKE) | names_with(Trait.UNGUARDED)
    assert HANDLERS.keys() - NEEDS.keys() == open_to_all & HANDLERS.keys()


@pytest.mark.parametrize("name", sorted(name for name in names_with(Trait.READS) if BY_NAME[name].kafka_4_3))
def test_what_reads_writes_nothing(name: str) -> None:
    api = BY_NAME[name]
    version = api.versions[-1] if api.key == API_VERSIONS else api.kafka_4_3[-1]
    server = InMemory(topics={"orders": 2})
    peer = server.connect()
    peer.ask(OffsetCommitRequest("group-1", topics=(OffsetCommitRequestTopic("orders", partitions=(
        OffsetCommitRequestPartition(0, 1),)),)), 9)  # fmt: skip
    before = server.node.log_bytes()
    for seed in range(10):
        message = message_of(api.request.at(version, api.is_flexible(version)), Choices(Random(seed).randbytes(200)))
        peer.send((message, version))
        server.turn()
        server.turn()
    assert len(peer.answers) > 1 or peer.connection.closing
    assert server.node.log_bytes() == before
