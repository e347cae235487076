"""The largest and the most hostile requests of members of share groups, to a server that has 86,000 records in flight.

Each case has a group of its own, whose member has acquired all records: `shapes.py` knows no session.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from coordinator.core.share_state.values import StateKey
from protocol import record_batch
from protocol.apis import api_of
from protocol.codec import encode_request
from protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
)
from protocol.messages.share_fetch import (
    ShareFetchRequest,
)
from protocol.records import Record
from tests import requests
from tests.worst.server import Cost, WorstServer

TOPIC: Final = "queue"
PARTITIONS: Final = 43  # as many as fit into one request with an acknowledgement for each record
RECORDS: Final = 2_000  # of each partition: as many as may be in flight by default
ALL: Final = PARTITIONS * RECORDS
ACCEPT, RELEASE = 1, 2
Ranges = list[tuple[int, int, tuple[int, ...]]]


class Case(Struct, frozen=True):
    """Acknowledgements of a partition: the same of each that is named."""

    name: str
    ranges: Callable[[], Ranges]
    partitions: int = PARTITIONS


def _single(types: Callable[[int], int], count: int = RECORDS) -> Ranges:
    return [(offset, offset, (types(offset),)) for offset in range(count)]


CASES: Final = (
    Case("86,000 single offsets", lambda: _single(lambda offset: ACCEPT)),
    Case("86,000 single offsets, accepted and released", lambda: _single(lambda offset: 1 + offset % 2)),
    Case("43 ranges with 86,000 types", lambda: [(0, RECORDS - 1, (ACCEPT, RELEASE) * (RECORDS // 2))]),
    Case("86,000 single offsets of one partition, most beyond its end", lambda: _single(lambda offset: 1, ALL), 1),
    Case("86,000 times one offset", lambda: [(0, 0, (ACCEPT,))] * ALL, 1),
    Case("86,000 ranges, of which the last is reversed", lambda: [*_single(lambda offset: 1, ALL), (ALL, 0, (1,))], 1),
    Case("a range up to the last offset of all", lambda: [(0, 2**63 - 1, (ACCEPT,))]),
    Case("ranges of 2^31 records", lambda: [(at << 31, (at << 31) + 2**31 - 1, (ACCEPT,)) for at in range(2_000)]),
    Case("huge gaps", lambda: [(at << 40, at << 40, (ACCEPT,)) for at in range(2_000)]),
    Case("a million types for two records", lambda: [(0, 1, (ACCEPT,) * 1_000_000)], 1),
    Case("a million types, as many as there are records", lambda: [(0, 999_999, (ACCEPT, RELEASE) * 500_000)], 1),
)


class Queues:
    """The topic of a server, and a group for each case."""

    def __init__(self, server: WorstServer) -> None:
        self.server = server
        server.ask(19, 7, requests.create_topics({TOPIC: PARTITIONS}))
        self.topic_id = server.node.world.ledger.catalog.topics_by_name[TOPIC].id
        records = record_batch.encode([Record(None, b"x", timestamp=1)] * RECORDS)
        for index in range(PARTITIONS):
            server.ask(0, 9, requests.produce(TOPIC, {index: records}))
        self._groups = 0

    def begin(self) -> str:
        """Begin the states of another group. Returns its name."""
        self._groups += 1
        group = f"q{self._groups}"
        for index in range(PARTITIONS):
            key = StateKey(group, self.topic_id, index)
            assert not self.server.node.engine.share_states.initialize(key, 1, 0, self.server.now_ms)
        self.server.node.engine.flush()
        return group

    def fetch(self, group: str, member: str = "m", epoch: int = 0, ranges: Ranges | None = None) -> ShareFetchRequest:
        """A fetch of all records."""
        topics = requests.share_fetch_topics({(self.topic_id, index): ranges or () for index in range(PARTITIONS)})
        return ShareFetchRequest(group, member, epoch, 0, 1, 2**31 - 1, 2**31 - 1, 1, topics=topics)

    def acknowledgement(self, group: str, case: Case) -> ShareAcknowledgeRequest:
        """What a case says of the records that the member of the group has acquired."""
        ranges = case.ranges()
        told = {(self.topic_id, index): ranges for index in range(case.partitions)}
        return ShareAcknowledgeRequest(group, "m", 1, topics=requests.share_acknowledge_topics(told))

    def acquire_all(self, group: str) -> None:
        """Let the member acquire all records."""
        answer = self.server.ask(78, 2, self.fetch(group))
        assert sum(_sizes(answer)) == ALL, "all records are in flight"

    def measure(self) -> Iterator[Cost]:
        """Yield what each case costs."""
        yield self._cost("a fetch of 86,000 records", self.fetch(self.begin()))
        for case in CASES:
            group = self.begin()
            self.acquire_all(group)
            yield self._cost(case.name, self.acknowledgement(group, case))
        group = self.begin()
        for number in range(1_000):
            self.server.ask(78, 2, self.fetch(group, f"m{number}"))
        yield self._cost("a fetch beside 1,000 sessions", self.fetch(group, "m0", 1))
        yield self.server.measure_work("a connection with 1,000 sessions is lost", self.server.end_connection)
        self.acquire_all(self.begin())
        self.server.pass_time(60_000)
        yield self.server.measure_work("86,000 locks end at once, one turn", self.server.fire)

    def _cost(self, name: str, request: Any) -> Cost:
        return self.server.measure_request(name, encode_request(api_of(request).key, 2, 1, "c", request)[4:])


def _sizes(answer: Any) -> Iterable[int]:
    for topic in answer.responses:
        for one in topic.partitions:
            for run in one.acquired_records:
                yield run.last_offset - run.first_offset + 1
