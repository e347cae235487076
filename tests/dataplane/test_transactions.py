"""Records in transactions: who may write them, who may read them, and what a crash at any step leaves."""

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator.config import Config
from coordinator.dataplane.brokers import Broker as BrokerAddress
from coordinator.runtime.node import Node, Setup, Where
from protocol.apis import APIS
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.dataplane.broker import NOW, VERSIONS, Broker, batch, call, fetch_request, fresh_ids, read_values
from tests.storage.crashing_disk import CrashingDisk


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    broker.create("t", partitions=2)
    return broker


def of(producer: tuple[int, int], *values: str, sequence: int = 0) -> bytes:
    ids = {"producer_id": producer[0], "producer_epoch": producer[1]}
    return batch(*values, base_sequence=sequence, transactional=True, **ids)


def add(broker: Broker, producer: tuple[int, int], *partitions: int) -> None:
    topics = (AddPartitionsToTxnRequestTopic("t", partitions),)
    answer = broker.ask(AddPartitionsToTxnRequest((), "x", *producer, topics), version=3)
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0


def end(broker: Broker, producer: tuple[int, int], committed: bool = True, version: int = 5) -> tuple[int, int]:
    answer = broker.ask(EndTxnRequest("x", *producer, committed), version=version)
    assert answer.error_code == 0, answer
    return answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", [9, 12])
def test_committed_records_are_read_and_aborted_ones_passed_over(broker: Broker, version: int) -> None:
    """In both protocols: announced by AddPartitionsToTxn, or joined by the first batch (KIP-890)."""
    producer = broker.producer("x")
    sequence = 0
    for value, committed in (("a", True), ("b", False), ("c", True)):
        if version < 12:
            add(broker, producer, 0)
        assert (
            broker.produce("t", 0, of(producer, value, value, sequence=sequence), txn="x", version=version).error_code
            == 0
        )
        assert broker.values("t", committed=True) == (["a", "a"] if value != "a" else [])
        if version < 12:
            end(broker, producer, committed, version=4)
            sequence += 2
        else:
            producer = end(broker, producer, committed)
    assert broker.values("t") == ["a", "a", "b", "b", "c", "c"]
    assert broker.values("t", committed=True) == ["a", "a", "c", "c"]
    again = Broker(broker.files.copy())
    assert again.values("t", committed=True) == ["a", "a", "c", "c"]


def test_readers_of_committed_records_wait_for_the_end(broker: Broker) -> None:
    producer = broker.producer("x")
    broker.produce("t", 0, of(producer, "a"), txn="x")
    broker.produce("t", 0, batch("b"))
    assert broker.ask(fetch_request("t", max_wait_ms=500, isolation_level=1), ticket=7) is None
    data = broker.fetch("t", isolation_level=1)
    assert (data.high_watermark, data.last_stable_offset, data.records) == (2, 0, b"")
    end(broker, producer)
    ((_, answer),) = broker.plane.replies()
    assert read_values(answer.responses[0].partitions[0].records) == ["a", "b"]


@pytest.mark.parametrize(
    ("version", "error"),
    [(9, ErrorCode.INVALID_TXN_STATE), (10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_batch_that_nobody_announced(broker: Broker, version: int, error: ErrorCode) -> None:
    producer = broker.producer("x")
    before = broker.files.contents()
    assert broker.produce("t", 0, of(producer, "a"), txn="x", version=version).error_code == error
    assert broker.files.contents() == before
    unverified = Broker(broker.files.copy(), transaction_partition_verification_enable=False)
    assert unverified.produce("t", 0, of(producer, "a"), txn="x", version=version).error_code == 0


def test_who_may_not_write_in_a_transaction(broker: Broker) -> None:
    old = broker.producer("x")
    new = broker.producer("x")

    def error(producer: tuple[int, int], txn: str = "x") -> ErrorCode:
        return ErrorCode(broker.produce("t", 0, of(producer, "a"), txn=txn).error_code)

    assert error(old) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert error((99, 0)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert error(new, "y") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert error(new) == ErrorCode.NONE
    plain = batch("b", producer_id=new[0], producer_epoch=new[1], base_sequence=1)
    assert broker.produce("t", 0, plain).error_code == ErrorCode.INVALID_TXN_STATE  # while its transaction is open


def test_a_late_batch_of_an_ended_transaction_is_fenced(broker: Broker) -> None:
    """KIP-890: the end raised the epoch, so what arrives after the marker opens nothing that nobody would close."""
    producer = broker.producer("x")
    broker.produce("t", 0, of(producer, "a"), txn="x")
    end(broker, producer)
    late = broker.produce("t", 0, of(producer, "b", sequence=1), txn="x")
    assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.values("t", committed=True) == ["a"]


def test_a_topic_that_goes_does_not_hold_up_the_end(broker: Broker) -> None:
    producer = broker.producer("x")
    broker.create("u")
    broker.produce("t", 0, of(producer, "a"), txn="x")
    broker.produce("u", 0, of(producer, "b"), txn="x")
    broker.ask(DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState("u"),)))
    end(broker, producer)
    assert broker.values("t", committed=True) == ["a"]


def test_what_is_open_in_a_log_and_in_no_transaction_is_aborted(broker: Broker) -> None:
    """A power cut may lose that the transaction began, and keep its records: nobody would ever end it."""
    producer = broker.producer("x")
    broker.produce("t", 0, of(producer, "a"), txn="x")
    files = broker.files.copy()
    for path in [path for path in files.contents() if path.startswith("data/__muster_catalog-0")]:
        files.remove(path)
    after = Broker(files)
    after.create("t", partitions=2)
    assert after.values("t", committed=True) == []
    after.produce("t", 0, batch("b"))
    assert after.values("t", committed=True) == ["b"]


# -- crashes ---------------------------------------------------------------------------------------------------------------

WHERE = Where((BrokerAddress(0, "localhost", 9092),))
GROUP = "g"


class Server:
    """A whole node on a disk in memory."""

    def __init__(self, files: CrashingDisk, is_synced: bool, topics: Mapping[str, int] | None = None) -> None:
        self.files = files
        setup = Setup(
            config=Config({"offsets.topic.num.partitions": 1}),
            files=files,
            data_dir="data",
            fresh_id=fresh_ids(),
            real_ms=lambda: 0,
            tell=lambda event: None,
            is_synced=is_synced,
            topics={"t": 1} if topics is None else topics,
        )
        self.node = Node(setup)
        self.node.open(NOW)
        for _ in self.node.load(lambda: NOW):
            pass

    def ask(self, request: Any, version: int | None = None) -> Any:
        key = next(key for key, api in APIS.items() if api.request.cls is type(request))
        version = VERSIONS[type(request)] if version is None else version
        answer = self.node.handle(key, request, call(request, version=version), WHERE)
        self.node.flush()
        return answer

    def run(self, version: int, producer: tuple[int, int], number: int, committed: bool) -> tuple[int, int]:
        """One transaction: a record with its number, and its number as the group's offset."""
        sequence = number if version == 1 else 0  # which begins anew with each epoch
        data = ProduceRequestTopicData(
            "t", partition_data=(ProduceRequestPartitionData(0, of(producer, str(number), sequence=sequence)),)
        )
        if version == 1:
            topics = (AddPartitionsToTxnRequestTopic("t", (0,)),)
            self.ask(AddPartitionsToTxnRequest((), "x", *producer, topics), 3)
            self.ask(AddOffsetsToTxnRequest("x", *producer, GROUP), 3)
        produced = self.ask(ProduceRequest("x", -1, 0, (data,)), 9 if version == 1 else 12)
        assert produced.responses[0].partition_responses[0].error_code == 0, produced
        topics_ = (TxnOffsetCommitRequestTopic("t", (TxnOffsetCommitRequestPartition(0, number),)),)
        commit = TxnOffsetCommitRequest("x", GROUP, *producer, topics=topics_)
        answer = self.ask(commit, 3 if version == 1 else 5)
        assert answer.topics[0].partitions[0].error_code == 0, answer
        ended = self.ask(EndTxnRequest("x", *producer, committed), 4 if version == 1 else 5)
        assert ended.error_code == 0, ended
        return producer if version == 1 else (ended.producer_id, ended.producer_epoch)

    def produce(self, topic: str, partition: int, data: bytes) -> None:
        of_topic = ProduceRequestTopicData(topic, partition_data=(ProduceRequestPartitionData(partition, data),))
        produced = self.ask(ProduceRequest(None, -1, 0, (of_topic,)))
        assert produced.responses[0].partition_responses[0].error_code == 0, produced

    def values(self) -> list[str]:
        return self.read("t", 0)

    def read(self, topic: str, partition: int) -> list[str]:
        """The committed records of a partition."""
        request = fetch_request(topic, partition, isolation_level=1, partition_max_bytes=2**30)
        data = self.ask(request).responses[0].partitions[0]
        assert data.error_code == 0, data
        return read_values(data.records, {(one.producer_id, one.first_offset) for one in data.aborted_transactions})

    def offset(self) -> int:
        asked = OffsetFetchRequestGroup(GROUP, topics=(OffsetFetchRequestTopics("t", partition_indexes=(0,)),))
        answer = self.ask(OffsetFetchRequest(groups=(asked,), require_stable=True), 8)
        one = answer.groups[0].topics[0].partitions[0]
        assert one.error_code == 0, one
        return int(one.committed_offset)

    def begun(self) -> tuple[int, int]:
        """What a producer does when it starts: it asks until what was open under its id has ended."""
        for _ in range(3):
            answer = self.ask(InitProducerIdRequest("x", 60_000), 5)
            if answer.error_code == 0:
                return answer.producer_id, answer.producer_epoch
            assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        raise AssertionError("the transaction never ends")


STORY = (True, False, True, False, True)  # which of the transactions commit
Found = tuple[
    str, CrashingDisk, int
]  # how the crash went, what it left, how many transactions were acknowledged by then


def crashed(version: int, is_synced: bool) -> list[Found]:
    """What a crash at each call to the disk may leave of the story."""
    files, found = CrashingDisk(), []
    server = Server(files, is_synced)
    producer, ended = server.begun(), 0

    def after_call(operation: str, path: str) -> None:
        for how, disk in files.crashes():
            if is_synced or how == "killed":
                found.append((f"{how} after {operation} {path}", disk, ended))

    files.after_call = after_call
    for number, committed in enumerate(STORY):
        producer = server.run(version, producer, number, committed)
        ended = number + 1
    return found


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("is_synced", [False, True])
def test_an_offset_is_visible_if_and_only_if_its_transaction_committed(version: int, is_synced: bool) -> None:
    """With the process killed, and with --fsync with the power cut, at every call to the disk."""
    crashes = crashed(version, is_synced)
    assert len(crashes) > 30
    for how, disk, ended in crashes:
        server = Server(disk, is_synced)
        server.begun()
        values = server.values()
        by_then = [[str(n) for n in range(upto) if STORY[n]] for upto in (ended, min(ended + 1, len(STORY)))]
        assert values in by_then, f"{how}, {ended} were acknowledged"
        assert server.offset() == (int(values[-1]) if values else -1), f"{how}, {ended} were acknowledged"
