"""A data plane on a disk in memory, with as much of a runtime as it needs: what a test talks to.

broker = Broker()
broker.create("t", partitions=2)
broker.produce("t", 0, batch("a", "b")).base_offset == 0
"""

from collections.abc import Callable, Generator, Sequence
from types import GeneratorType
from typing import Any

from coordinator.config import Config
from coordinator.core.catalog import records as facts
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.catalog.records import CatalogRecord
from coordinator.core.result import Call, Markers, Result
from coordinator.core.transactions.ending import complete
from coordinator.core.transactions.transactions import Transactions
from coordinator.dataplane.brokers import Broker as Node
from coordinator.dataplane.brokers import Where
from coordinator.dataplane.dataplane import DataPlane
from coordinator.dataplane.settings import catalog_settings
from coordinator.runtime.edge import Edge
from protocol import record_batch
from protocol.apis import APIS
from protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
)
from protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartitionData,
    ProduceRequestTopicData,
    ProduceResponsePartition,
)
from protocol.records import EndMarker, Record
from storage.log import Log, scan
from tests.storage.crashing_disk import CrashingDisk

DATA = "data"
NOW = 1_000_000
NODES = Where((Node(0, "localhost", 9092),))
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


def fresh_ids() -> Callable[[], str]:
    """Ids that are different from each other and the same in each run."""
    return lambda: f"00000000-0000-4000-8000-{next(_IDS):012x}"


_IDS = iter(range(1, 2**40))


class Ledger:
    """Catalog and transactions, their log written at once."""

    def __init__(self, files: CrashingDisk, config: Config) -> None:
        settings = catalog_settings(config, (0,))
        self.catalog, self.transactions = Catalog(settings), Transactions(settings)
        self.log = Log.open(files, f"{DATA}/__muster_catalog-0")
        for _, found in scan(self.log):
            for record in found:
                self.apply(facts.decode(record.key, record.value))

    def apply(self, record: CatalogRecord) -> Any:
        self.transactions.replay(record)
        return self.catalog.replay(record)

    def write(self, records: Sequence[CatalogRecord], now_ms: int) -> list[Any]:
        if not records:
            return []
        batch = [Record(*facts.encode(record), timestamp=now_ms) for record in records]
        self.log.append(record_batch.encode(batch))
        return [change for record in records if (change := self.apply(record)) is not None]

    def flush(self) -> None:
        """Everything is in the log already."""


class Broker:
    """A runtime of one turn a request. `real_ms` is the time that long polls go by; a test moves it."""

    def __init__(self, files: CrashingDisk | None = None, **settings: Any) -> None:
        self.files = files or CrashingDisk()
        self.config = Config({name.replace("_", "."): value for name, value in settings.items()})
        self.real_ms = 0
        self.edge = Edge()
        self.ledger = Ledger(self.files, self.config)
        self.offsets: dict[int, Log] = {}
        self.plane = DataPlane(self.files, DATA, self.config, self, lambda: self.real_ms, "cluster")
        for markers in self.ledger.transactions.find_prepared():
            self.mark(markers, NOW)

    # -- what the data plane needs of it -------------------------------------------------------------------------------

    def record(self, outcome: Result[Any], now_ms: int) -> Any:
        self.plane.topics_changed(self.ledger.write(outcome.records, now_ms))
        for markers in outcome.effects:
            self.mark(markers, now_ms)
        return outcome.response

    def offsets_log(self, index: int) -> Log | None:
        return self.offsets.get(index)

    def mark(self, markers: Markers, now_ms: int) -> None:
        ids = {"producer_id": markers.producer_id, "producer_epoch": markers.producer_epoch}
        marker = record_batch.encode_marker(EndMarker(commits=markers.committed), now_ms, **ids)
        self.plane.end_transaction(markers, marker, now_ms)
        for topic, index in markers.partitions:
            if topic == OFFSETS_TOPIC:
                self.append_offsets(index, marker)
        done = complete(self.ledger.transactions, markers.transactional_id, now_ms)
        self.ledger.write(done.records, now_ms)

    def append_offsets(self, index: int, data: bytes) -> None:
        log = self.offsets.setdefault(index, Log.open(self.files, f"{DATA}/{OFFSETS_TOPIC}-{index}"))
        log.append(data)
        self.plane.offsets_appended(index, len(data))

    # -- what a test says ----------------------------------------------------------------------------------------------

    def ask(self, request: Any, ticket: int = 1, version: int | None = None, now_ms: int = NOW) -> Any:
        answer = self.plane.handle(request, call(request, ticket, version, now_ms), NODES)
        if isinstance(answer, GeneratorType):
            answer = finish(answer)
        self.plane.written()  # as at the end of a turn
        return answer

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        settings = [
            CreateTopicsRequestCreatableTopicConfig(name.replace("_", "."), text) for name, text in configs.items()
        ]
        asked = CreateTopicsRequestCreatableTopic(topic, partitions, 1, configs=tuple(settings))
        (result,) = self.ask(CreateTopicsRequest((asked,))).topics
        assert result.error_code == 0, result

    def produce(
        self, topic: str, partition: int, data: bytes, *, txn: str | None = None, version: int = 12, now_ms: int = NOW
    ) -> ProduceResponsePartition:
        request = ProduceRequest(
            txn,
            -1,
            1000,
            (ProduceRequestTopicData(topic, partition_data=(ProduceRequestPartitionData(partition, data),)),),
        )
        return self.ask(request, version=version, now_ms=now_ms).responses[0].partition_responses[0]

    def fetch(self, topic: str, partition: int = 0, offset: int = 0, **fields: Any) -> Any:
        """The one partition's answer, or None while it waits."""
        ticket, version = fields.pop("ticket", 1), fields.pop("version", 12)
        answer = self.ask(fetch_request(topic, partition, offset, **fields), ticket, version)
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


def finish(steps: Generator[None, None, Any]) -> Any:
    """Do all steps of a request, and return its response."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def fetch_request(topic: str, partition: int = 0, offset: int = 0, **fields: Any) -> FetchRequest:
    size, epoch = fields.pop("partition_max_bytes", 1_000_000), fields.pop("current_leader_epoch", -1)
    one = FetchRequestPartition(partition, epoch, offset, partition_max_bytes=size)
    topics = (FetchRequestTopic(topic, partitions=(one,)),)
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "topics": topics, **fields})


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
            found += [record.value.decode() for record in record_batch.read(data, at, header)]
    return found
