"""What no request is large for, and what the server holds is: the end of groups, topics and transactions, timers, moves.

`shapes.py` fills requests. Here the requests are small, and the state is what many of the largest ones have left: a group
with 150,000 offsets, of as many partitions as `topics.max.bytes` lets there be, or 10,000 groups with one each. Each
case has a copy of the server.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from msgspec.structs import astuple

from coordinator.core.moves import StartBroker, StopBroker
from coordinator.core.verbs import Forget
from coordinator.runtime.node import Node
from protocol.apis import api_of
from protocol.codec import encode_request
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests import requests
from tests.worst.growth import in_a_copy
from tests.worst.server import SMALL, Cost, Size, WorstServer

DAY_MS: Final = 86_400_000


class Many(Size, frozen=True):
    """How much is held."""

    wide: int = 15  # topics of `most` partitions, in all of which one group has offsets
    most: int = 10_000
    many: int = 10_000  # groups with an offset of one topic
    crowd: int = 3_000  # members of a consumer group


FEW: Final = Many(*astuple(SMALL), wide=3, most=400, many=200, crowd=30)


class Held:
    """A server with much state."""

    def __init__(self, size: Many) -> None:
        self.size = size
        self.server = server = WorstServer(size)
        self.topics = [f"w{number}" for number in range(size.wide)]
        for topic, partitions in {**dict.fromkeys(self.topics, size.most), "of-many": 1}.items():
            (created,) = server.ask(19, 7, requests.create_topics({topic: partitions})).topics
            assert not created.error_code, f"{topic}: {created}"
        whole = dict.fromkeys(range(size.most), 5)
        for topic in self.topics:
            server.ask(8, 8, requests.commit("big", {topic: whole}))
        for number in range(size.many):
            server.ask(8, 8, requests.commit(f"many{number}", {"of-many": {0: 5}}))
        for number in range(size.crowd):
            server.ask(68, 1, ConsumerGroupHeartbeatRequest(
                "crowd", f"m{number}", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("t1",), topic_partitions=(),
            ))  # fmt: skip
        self.producer = answer = server.ask(22, 5, InitProducerIdRequest("ending", 60_000))
        server.ask(25, 3, AddOffsetsToTxnRequest("ending", answer.producer_id, answer.producer_epoch, "pending"))
        for topic in self.topics:
            server.ask(28, 3, requests.commit_in_transaction(
                "ending", "pending", (answer.producer_id, answer.producer_epoch), {topic: whole}
            ))  # fmt: skip
        server.finish()
        held = sum(partition.shard.offsets.count for partition in server.node.world.partitions)
        assert held >= size.wide * size.most + size.many, f"{held} offsets"
        for topic in self.topics:
            begins = tuple([AlterShareGroupOffsetsRequestPartition(index, 1) for index in whole])
            topics = (AlterShareGroupOffsetsRequestTopic(topic, begins),)
            server.ask(91, 0, AlterShareGroupOffsetsRequest("queue", topics))
        held = len(list(server.node.engine.share_states.states()))
        assert held >= size.wide * size.most, f"{held} states"
        gc.collect()
        gc.freeze()

    def cases(self) -> Mapping[str, Callable[[], Cost]]:
        """Return what is measured, by what it is."""
        size, server, command = self.size, self.server, self._command
        count = f"{size.wide * size.most:,}"
        producer = self.producer.producer_id, self.producer.producer_epoch
        share = AlterShareGroupOffsetsRequestPartition
        return {
            f"DeleteGroups of a group of {count} offsets": self._asking(DeleteGroupsRequest(("big",)), 2),
            f"DeleteGroups of {size.many:,} groups": self._asking(
                DeleteGroupsRequest(tuple(f"many{number}" for number in range(size.many))), 2
            ),
            f"DeleteTopics of {size.wide} topics, a group has {count} offsets": self._asking(
                DeleteTopicsRequest(topic_names=tuple(self.topics), timeout_ms=1_000), 5
            ),
            f"DeleteTopics of a topic of {size.many:,} groups": self._asking(
                DeleteTopicsRequest(topic_names=("of-many",), timeout_ms=1_000), 5
            ),
            "all offsets expire": self._pass_time(8 * DAY_MS),
            "a pass over offsets that stay": self._pass_time(700_000),
            f"a transaction of {count} offsets times out": partial(
                server.measure_turns, "", lambda: server.pass_time(61_000)
            ),
            f"EndTxn of {count} offsets": self._asking(EndTxnRequest("ending", *producer, True), 3),
            f"DeleteGroups of a share group of {count} states": self._asking(DeleteGroupsRequest(("queue",)), 2),
            f"DeleteShareGroupOffsets of {count} states": self._asking(DeleteShareGroupOffsetsRequest(
                "queue", tuple(DeleteShareGroupOffsetsRequestTopic(topic) for topic in self.topics)
            ), 0),
            f"a member of a share group joins, {count} states begin": self._asking(
                ShareGroupHeartbeatRequest("sharing", "m", 0, subscribed_topic_names=tuple(self.topics)), 1
            ),
            f"AlterShareGroupOffsets of {3 * size.most:,} partitions": self._asking(AlterShareGroupOffsetsRequest(
                "altered",
                tuple(
                    AlterShareGroupOffsetsRequestTopic(topic, tuple(share(at, 1) for at in range(size.most)))
                    for topic in self.topics[:3]
                ),
            ), 0),
            f"an operator forgets {size.crowd:,} members": partial(
                server.measure_turns, "", command(Forget("crowd"))
            ),
            "a broker stops": partial(server.measure_turns, "", command(StopBroker(0))),
            "it starts again": self._start_again,
            "a server starts": self._load,
        }  # fmt: skip

    def measure(self, only: str = "") -> Iterator[Cost]:
        """Measure the cases whose name has `only` in it."""
        for name, case in self.cases().items():
            if only in name:
                cost = in_a_copy(case)
                yield Cost(name, *[getattr(cost, field) for field in Cost.__struct_fields__[1:]])

    def _asking(self, request: Any, version: int) -> Callable[[], Cost]:
        frame = encode_request(api_of(request).key, version, 1, "c", request)[4:]
        return partial(self.server.measure_request, "", frame)

    def _command(self, verb: Any) -> Callable[[], Any]:
        return lambda: self.server.node.command(verb, self.server.now_ms, lambda: "id")

    def _pass_time(self, ms: int) -> Callable[[], Cost]:
        """Move the clock where no transaction times out."""

        def measure() -> Cost:
            self._asking(EndTxnRequest("ending", self.producer.producer_id, self.producer.producer_epoch, True), 3)()
            return self.server.measure_turns("", lambda: self.server.pass_time(ms))

        return measure

    def _start_again(self) -> Cost:
        self.server.measure_turns("", self._command(StopBroker(0)))
        return self.server.measure_turns("", self._command(StartBroker(0)))

    def _load(self) -> Cost:
        """Start another node with what this one has written."""
        server = self.server
        server.node.close()
        node = Node(server.setup)
        node.open(server.now_ms)
        server.node = node
        return server.measure_load("", node.load(lambda: server.now_ms))
