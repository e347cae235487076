"""What the APIs of readers and of administrators say of partitions: the same as a model, whatever was done to them."""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest
from msgspec import Struct

from coordinator.core.result import COORDINATOR_EPOCH
from protocol import record_batch
from protocol.compression import Meter
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsRequestDescribableLogDirTopic
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopic,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsRequestPartition, ListOffsetsRequestTopic
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from tests.dataplane.broker import NOW, Broker, batch
from tests.requests import commit, delete_records, list_offsets

POLICIES: Final = {"logs": "delete", "mixed": "compact,delete", "table": "compact"}
PARTITIONS: Final = {"logs": 3, "mixed": 1, "table": 2}
PARTITIONS_MAX: Final = 4
OLDER: Final = "x"  # a producer from before KIP-890, which counts on in its next transaction
OFFSETS: Final = "__consumer_offsets"
EARLIEST, LATEST = -2, -1
Key = tuple[str, int]


class Writer(Struct):
    """A producer id in one partition."""

    epoch: int
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    first_open: int = -1  # where its open transaction begins


class Written(Struct, frozen=True):
    """A batch of a producer, or the marker that ends its transaction."""

    offset: int
    producer: tuple[int, int]  # id and epoch
    at_ms: int
    last_sequence: int = -1
    is_transactional: bool = False
    is_marker: bool = False


class Partition(Struct):
    """The batches of a partition, by the model."""

    start: int = 0
    end: int = 0
    segment: int = 0  # where its one segment begins
    batches: list[Written] = []
    values: list[str | None] = []  # by offset; None is a marker

    @property
    def writers(self) -> dict[int, Writer]:
        """The producers, by what they have written."""
        found: dict[int, Writer] = {}
        for one in self.batches:
            producer_id, epoch = one.producer
            writer = found.get(producer_id)
            if writer is None or writer.epoch != epoch:
                before = writer or Writer(epoch)
                writer = Writer(epoch, -1, -1, before.coordinator_epoch, before.first_open)
                found[producer_id] = writer
            writer.last_timestamp = one.at_ms
            if one.is_marker:
                writer.coordinator_epoch, writer.first_open = COORDINATOR_EPOCH, -1
            else:
                writer.last_sequence = one.last_sequence
                if one.is_transactional and writer.first_open < 0:
                    writer.first_open = one.offset
        return found

    @property
    def stable(self) -> int:
        """Up to where readers of committed records may read."""
        opened = [one.first_open for one in self.writers.values() if one.first_open >= 0]
        return max(min(opened, default=self.end), self.start)

    def read_again(self) -> None:
        """Know what a start finds: the producers of records that are not deleted with their segment."""
        self.batches = [one for one in self.batches if one.offset >= self.segment]


class World:
    """A broker, and a model of its partitions."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.broker = Broker()
        for topic, count in PARTITIONS.items():
            self.broker.create(topic, count, cleanup_policy=POLICIES[topic])
        self.counts = dict(PARTITIONS)
        self.partitions = {(topic, at): Partition() for topic, count in PARTITIONS.items() for at in range(count)}
        self.idle = self.broker.producer()
        self.transactional = {name: self.broker.producer(name) for name in ("x", "y")}
        self.taking_part: dict[str, set[Key]] = {"x": set(), "y": set()}
        self.sequences: dict[tuple[Key, tuple[int, int]], int] = {}  # the next one
        self.now_ms = NOW

    def choose(self) -> Key:
        return self.random.choice(list(self.partitions))

    def write(self, key: Key, producer: tuple[int, int] | None, txn: str | None = None) -> None:
        one, size = self.partitions[key], self.random.randint(1, 3)
        values = [f"{self.now_ms}-{at}" for at in range(size)]
        self.now_ms += 1
        at_ms = self.now_ms - self.random.choice((0, 0, 100))  # a client's clock may be behind
        fields: dict[str, Any] = {"key": "k", "at_ms": at_ms}
        if producer is not None:
            sequence = self.sequences.get((key, producer), 0)
            self.sequences[key, producer] = sequence + size
            ids = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": sequence}
            fields |= {**ids, "transactional": txn is not None}
            one.batches.append(Written(one.end, producer, at_ms, sequence + size - 1, txn is not None))
        version = 11 if txn == OLDER else 12
        data = batch(*values, **fields)
        behind = data[: self.random.randrange(len(data)) if self.random.random() < 0.5 else 0]  # another one begins
        told = self.broker.produce(*key, data + behind, txn=txn, version=version, now_ms=self.now_ms)
        assert (told.error_code, told.base_offset) == (ErrorCode.NONE, one.end)
        one.end += size
        one.values += values

    def write_plain(self) -> None:
        self.write(self.choose(), None)

    def write_idempotent(self) -> None:
        self.write(self.choose(), self.idle)

    def write_in_transaction(self) -> None:
        name, key = self.random.choice(list(self.transactional)), self.choose()
        if name == OLDER and key not in self.taking_part[name]:
            topics = (AddPartitionsToTxnRequestTopic(key[0], (key[1],)),)
            self.broker.ask(AddPartitionsToTxnRequest((), name, *self.transactional[name], topics), version=3)
        self.taking_part[name].add(key)
        self.write(key, self.transactional[name], name)

    def end_transaction(self) -> None:
        name = self.random.choice(list(self.transactional))
        keys, self.taking_part[name] = self.taking_part[name], set()
        if not keys:
            return
        self.now_ms += 1
        version = 4 if name == OLDER else 5  # from 5 on each end raises the epoch, which the marker has
        request = EndTxnRequest(name, *self.transactional[name], committed=self.random.random() < 0.5)
        told = self.broker.ask(request, version=version, now_ms=self.now_ms)
        assert told.error_code == ErrorCode.NONE
        if version == 5:
            self.transactional[name] = told.producer_id, told.producer_epoch
        for key in keys:
            one = self.partitions[key]
            one.batches.append(Written(one.end, self.transactional[name], self.now_ms, is_marker=True))
            one.end += 1
            one.values.append(None)

    def delete_records(self) -> None:
        key = self.choose()
        one = self.partitions[key]
        offset = self.random.choice([-2, -1, one.start, self.random.randint(0, one.end), one.end, one.end + 1])
        upto = one.end if offset == -1 else offset
        error = ErrorCode.NONE if 0 <= upto <= one.end else ErrorCode.OFFSET_OUT_OF_RANGE
        if POLICIES[key[0]] == "compact":
            error = ErrorCode.POLICY_VIOLATION
        if not error and upto > one.start:
            one.start = upto
            one.segment = upto if upto == one.end else one.segment
        ((told,),) = [topic.partitions for topic in self.broker.ask(delete_records(key[0], {key[1]: offset})).topics]
        assert (told.error_code, told.low_watermark) == (error, -1 if error else one.start)

    def grow(self) -> None:
        """A topic gets another partition; those that it has stay as they are."""
        topic = self.random.choice(list(self.counts))
        if self.counts[topic] == PARTITIONS_MAX:
            return
        self.counts[topic] += 1
        request = CreatePartitionsRequest((CreatePartitionsRequestTopic(topic, self.counts[topic], None),))
        assert self.broker.ask(request).results[0].error_code == ErrorCode.NONE
        self.partitions[topic, self.counts[topic] - 1] = Partition()

    def make_anew(self) -> None:
        """A topic of which no transaction has a partition is deleted, and created once more."""
        busy = {topic for keys in self.taking_part.values() for topic, _ in keys}
        topic = self.random.choice(list(self.counts))
        if topic in busy:
            return
        self.broker.delete(topic)
        self.broker.create(topic, self.counts[topic], cleanup_policy=POLICIES[topic])
        for key in [key for key in self.partitions if key[0] == topic]:
            self.partitions[key] = Partition()
            self.sequences = {one: number for one, number in self.sequences.items() if one[0] != key}

    def commit_offsets(self) -> None:
        self.broker.ask(commit(f"g{self.random.randint(0, 9)}", {"logs": {0: 1}}), version=8)

    def start_again(self) -> None:
        self.broker.node.close()
        self.broker = Broker(self.broker.files)
        for one in self.partitions.values():
            one.read_again()


ACTS: Final = (
    *[World.write_plain] * 3, *[World.write_idempotent] * 3, *[World.write_in_transaction] * 5,
    *[World.end_transaction] * 3, *[World.delete_records] * 3, World.commit_offsets, World.start_again,
    World.grow, World.make_anew,
)  # fmt: skip


def read_offsets(world: World) -> None:
    """ListOffsets, OffsetForLeaderEpoch, Fetch, and the ends that metrics tell."""
    broker = world.broker
    for (topic, index), one in world.partitions.items():
        for time, isolation, offset in ((EARLIEST, 0, one.start), (LATEST, 0, one.end), (LATEST, 1, one.stable)):
            asked = list_offsets(topic, {index: time}, isolation_level=isolation)
            assert broker.ask(asked).topics[0].partitions[0].offset == offset, (topic, index, time, isolation)
        for epoch, offset in ((0, one.end), (-1, -1), (1, -1)):
            row = OffsetForLeaderEpochRequestPartition(index, leader_epoch=epoch)
            of_epoch = OffsetForLeaderEpochRequest(-1, (OffsetForLeaderEpochRequestTopic(topic, (row,)),))
            assert broker.ask(of_epoch).topics[0].partitions[0].end_offset == offset, (topic, index, epoch)
        for current in (-1, 0, 1):  # the leader's epoch, as the client knows it
            rows = (
                ListOffsetsRequestPartition(index, current, LATEST),
                OffsetForLeaderEpochRequestPartition(index, current),
            )
            answers = [
                broker.ask(ListOffsetsRequest(-1, topics=(ListOffsetsRequestTopic(topic, rows[:1]),))),
                broker.ask(OffsetForLeaderEpochRequest(-1, (OffsetForLeaderEpochRequestTopic(topic, rows[1:]),))),
            ]
            codes = [answer.topics[0].partitions[0].error_code for answer in answers]
            codes.append(broker.fetch(topic, index, one.end, current_leader_epoch=current).error_code)
            assert codes == [ErrorCode.UNKNOWN_LEADER_EPOCH if current > 0 else ErrorCode.NONE] * 3
        data = broker.fetch(topic, index, one.start, partition_max_bytes=1 << 20)
        ends = (data.log_start_offset, data.high_watermark, data.last_stable_offset)
        assert ends == (one.start, one.end, one.stable), (topic, index)
        assert list(read_records(data.records, one.start)) == list(enumerate(one.values))[one.start :], (topic, index)
        assert broker.plane.end_offset(topic, index) == one.end


def read_records(data: bytes, start: int) -> Iterator[tuple[int, str | None]]:
    """Offsets and values of the records from an offset on, None for a marker; the batches fill all of the bytes."""
    assert sum(header.size for _, header in record_batch.batches(data)) == len(data)
    for at, header in record_batch.batches(data):
        for record in record_batch.read(data, at, header, Meter()):
            if record.offset >= start:
                yield record.offset, None if header.is_control else (record.value or b"").decode()


def read_producers(world: World) -> None:
    topics = [DescribeProducersRequestTopic(name, tuple(range(count))) for name, count in world.counts.items()]
    answer = world.broker.ask(DescribeProducersRequest(tuple(topics)))
    found = {(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions}
    assert found.keys() == world.partitions.keys()
    for key, one in world.partitions.items():
        assert {
            told.producer_id: Writer(told.producer_epoch, told.last_sequence, told.last_timestamp,
                                     told.coordinator_epoch, told.current_txn_start_offset)
            for told in found[key].active_producers
        } == one.writers, key  # fmt: skip


def read_sizes(world: World) -> None:
    """DescribeLogDirs, and metrics of logs that are open: as many bytes as the files have."""
    sizes: dict[str, dict[int, int]] = {}
    for path, content in world.broker.files.contents().items():
        if path.endswith(".log"):
            topic, _, index = path.split("/")[-2].rpartition("-")
            sizes.setdefault(topic, {}).setdefault(int(index), 0)
            sizes[topic][int(index)] += len(content)
    asked = [*PARTITIONS, OFFSETS]
    rows = [DescribeLogDirsRequestDescribableLogDirTopic(name, (0, 1, 2, 3, 1)) for name in (*asked, "none", "logs")]
    for request in (DescribeLogDirsRequest(None), DescribeLogDirsRequest(tuple(rows))):
        (directory,) = world.broker.ask(request).results
        told = {topic.name: {one.partition_index: one.partition_size for one in topic.partitions}
                for topic in directory.topics}  # fmt: skip
        for topic in asked:
            count = world.counts.get(topic, 4)
            assert told[topic] == {index: sizes.get(topic, {}).get(index, 0) for index in range(count)}, topic
    measured = world.broker.node.log_bytes()
    assert all(measured[topic] == sum(sizes.get(topic, {}).values()) for topic in asked)


def turn_pages(world: World, names: tuple[str, ...], limit: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The topics of each page of DescribeTopicPartitions, with their partitions."""
    cursor = None
    while True:
        topics = tuple(map(DescribeTopicPartitionsRequestTopic, names))
        page = world.broker.ask(DescribeTopicPartitionsRequest(topics, limit, cursor))
        assert sum(len(topic.partitions) for topic in page.topics) <= limit
        for topic in page.topics:
            yield topic.name, tuple(one.partition_index for one in topic.partitions)
        if page.next_cursor is None:
            return
        cursor = DescribeTopicPartitionsRequestCursor(page.next_cursor.topic_name, page.next_cursor.partition_index)


def read_pages(world: World) -> None:
    """All pages together name each partition once, in the order of topics, as Metadata knows them."""
    known = {topic.name: len(topic.partitions) for topic in world.broker.ask(MetadataRequest(None)).topics}
    chosen = tuple(world.random.sample(sorted(known), world.random.randint(0, len(known))))
    for limit in (1, 2, 3, 4, 100):
        found = [(name, index) for name, indexes in turn_pages(world, chosen, limit) for index in indexes]
        assert found == [(name, index) for name in sorted(chosen or known) for index in range(known[name])], limit


@pytest.mark.parametrize("seed", range(9))
def test_all_apis_say_the_same_of_partitions(seed: int) -> None:
    world = World(seed)
    for number in range(60):
        world.random.choice(ACTS)(world)
        if number % 6 == 5:
            for look in (read_offsets, read_producers, read_sizes, read_pages):
                look(world)
