"""A node on a disk in memory, called without bytes: what tests of topics and records talk to.

broker = Broker()
broker.create("t", partitions=2)
broker.produce("t", 0, batch("a", "b")).base_offset == 0
"""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator.core.acls.names import Operation, Resource
from coordinator.core.decision import Decision, Done, Silent
from coordinator.core.result import Call
from coordinator.dataplane.brokers import Broker as Address
from coordinator.dataplane.brokers import Where
from protocol import record_batch
from protocol.apis import APIS
from protocol.compression import Meter
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.fetch import FetchRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import ProduceRequest, ProduceResponsePartition
from protocol.records import Record
from tests import requests
from tests.server.in_memory import InMemory
from tests.storage.crashing_disk import CrashingDisk

NOW = 1_000_000
NODES = Where((Address(0, "localhost", 9092),))
VERSIONS = {api.request.cls: api.versions[-1] for api in APIS.values()} | {FetchRequest: 12, ProduceRequest: 12}
"""The newest of each; of Fetch and Produce the newest that names topics by name."""


def batch(*values: str, key: str | None = None, at_ms: int = NOW, **fields: Any) -> bytes:
    """A record batch of these values, as a producer sends it."""
    records = [Record(key.encode() if key else None, value.encode(), timestamp=at_ms) for value in values]
    return record_batch.encode(records, **fields)


def call(request: Any, ticket: int = 1, version: int | None = None, now_ms: int = NOW) -> Call:
    """The call that comes with a request; in the version above unless another is named."""
    version = VERSIONS[type(request)] if version is None else version
    return Call(ticket, now_ms, version, "client", "/127.0.0.1", fresh_ids())


def response_of(decision: Decision) -> Any:
    """The response, if it is known; None while the request is parked or decided in steps, SILENT if there is none."""
    if isinstance(decision, Done):
        return decision.response
    return decision if isinstance(decision, Silent) else None


def fresh_ids() -> Callable[[], str]:
    """Ids that are different from each other and the same in each run."""
    return lambda: f"00000000-0000-4000-8000-{next(_IDS):012x}"


_IDS = iter(range(1, 2**40))


class ReaderRights:
    """The rights of a client that may read every topic but one."""

    def __init__(self, denied: str) -> None:
        self.denied = denied

    def may(self, operation: Operation, kind: Resource, name: str) -> bool:
        assert (operation, kind) == (Operation.READ, Resource.TOPIC)
        return name != self.denied


class Broker:
    """A node that is called without bytes, one turn a request. `real_ms` is the time that long polls go by."""

    def __init__(
        self,
        files: CrashingDisk | None = None,
        *,
        is_synced: bool = False,
        topics: Mapping[str, int] | None = None,
        **settings: Any,
    ) -> None:
        self.files = files or CrashingDisk()
        self.real_ms = 0
        self.node = InMemory(
            self.files,
            is_synced=is_synced,
            topics=topics or {},
            monotonic=lambda: self.real_ms / 1000,
            wall_ms=0.5,  # so that rounding takes no millisecond away
            **{"offsets_topic_num_partitions": 4, **settings},
        ).node
        self.plane, self.ledger = self.node.world.dataplane, self.node.world.ledger
        self._replies: list[tuple[int, Any]] = []

    def ask(self, request: Any, ticket: int = 1, version: int | None = None, now_ms: int = NOW) -> Any:
        """Return the response to a request, None while it is parked."""
        key = next(key for key, api in APIS.items() if api.request.cls is type(request))
        answer = response_of(self.node.engine.handle(key, request, call(request, ticket, version, now_ms), NODES))
        while self.node.engine.unfinished:
            self.node.engine.long_requests.step()
            self._replies += self._take_replies()
            mine = [reply for reply in self._replies if reply[0] == ticket]
            if mine:
                self._replies.remove(mine[0])
                answer = mine[0][1]
        self.node.engine.flush()
        return answer

    def replies(self) -> list[tuple[int, Any]]:
        """Return the answers to parked requests since this was last asked: (ticket, response)."""
        replies, self._replies = self._replies + self._take_replies(), []
        return replies

    def _take_replies(self) -> list[tuple[int, Any]]:
        return [(ticket, response_of(outcome)) for ticket, outcome in self.node.engine.replies()]

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        settings = {name.replace("_", "."): text for name, text in configs.items()}
        (result,) = self.ask(requests.create_topics({topic: partitions}, settings)).topics
        assert result.error_code == 0, result

    def delete(self, topic: str) -> None:
        (result,) = self.ask(DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState(topic),))).responses
        assert result.error_code == 0, result

    def produce(
        self, topic: str, partition: int, data: bytes, *, txn: str | None = None, version: int = 12, now_ms: int = NOW
    ) -> ProduceResponsePartition:
        request = requests.produce(topic, {partition: data}, txn)
        return self.ask(request, version=version, now_ms=now_ms).responses[0].partition_responses[0]

    def fetch(self, topic: str, partition: int = 0, offset: int = 0, **fields: Any) -> Any:
        """The one partition's answer, or None while it waits."""
        ticket, version = fields.pop("ticket", 1), fields.pop("version", 12)
        answer = self.ask(requests.fetch(topic, partition, offset, **fields), ticket, version)
        return None if answer is None else answer.responses[0].partitions[0]

    def values(self, topic: str, partition: int = 0, *, committed: bool = False) -> list[str]:
        """What a consumer reads from the beginning, passing over aborted transactions as consumers do."""
        data = self.fetch(topic, partition, isolation_level=int(committed), partition_max_bytes=2**30)
        aborted = {(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()}
        return read_values(data.records, aborted)

    def producer(self, txn: str | None = None, **fields: Any) -> tuple[int, int]:
        version = fields.pop("version", 5)
        answer = self.ask(InitProducerIdRequest(txn, 60_000, **fields), version=version)
        assert answer.error_code == 0, answer
        return answer.producer_id, answer.producer_epoch


def read_values(data: bytes, aborted: set[tuple[int, int]] | None = None) -> list[str]:
    """The values of the records, without markers and without those of aborted transactions."""
    starts = aborted or set()
    found: list[str] = []
    dropped: set[int] = set()
    for at, header in record_batch.batches(data):
        if header.is_control:
            dropped.discard(header.producer_id)
            continue
        if header.is_transactional and (header.producer_id, header.base_offset) in starts:
            dropped.add(header.producer_id)
        if not (header.is_transactional and header.producer_id in dropped):
            found += [record.value.decode() for record in record_batch.read(data, at, header, Meter())]
    return found
