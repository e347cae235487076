"""`muster produce` and `muster consume` beside other clients: what one of them writes the other reads."""

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from coordinator.cli import consume, produce
from coordinator.cli.cluster import BrokerError
from coordinator.cli.consume import Fetcher
from coordinator.cli.group_consumer import GroupConsumer
from coordinator.cli.produce import murmur2
from coordinator.client import ClientError
from coordinator.client.offsets import EARLIEST, list_offsets
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.cli.command import Command, records
from tests.live import Muster, server_fixture

muster = server_fixture("--ephemeral", "--set", "num.partitions=2")


@pytest.mark.parametrize(
    ("key", "number"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107)],
)
def test_murmur2_is_javas(key: bytes, number: int) -> None:
    """The vectors of org.apache.kafka.common.utils.UtilsTest."""
    assert murmur2(key) == number & 0xFFFFFFFF


def test_a_client_reads_what_was_typed_and_the_other_way_round(
    command: Command, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"typed\n")))
    assert command.lines("produce", "both", "--partition", "0") == ["1 record written to both"]
    producer = Producer({"bootstrap.servers": muster.kafka, "compression.type": "zstd"})
    producer.produce("both", b"\xff\x00", "key", partition=0, headers={"h": b"v"})
    assert producer.flush(10) == 0
    consumer = Consumer({"bootstrap.servers": muster.kafka, "group.id": "x", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("both", 0, 0)])
    found: list[Any] = []
    while len(found) < 2:
        found += [one.value() for one in consumer.consume(2, 5)]
    consumer.close()
    assert found == [b"typed", b"\xff\x00"]
    second = [json.loads(line) for line in command.lines("consume", "both", "--json")][1]
    assert (second["key"], second["value"], second["headers"]) == ("key", {"base64": "/wA="}, [["h", "v"]])


def test_only_what_was_committed(command: Command, muster: Muster) -> None:
    producer = Producer({"bootstrap.servers": muster.kafka, "transactional.id": "x"})
    producer.init_transactions(20)
    for number in range(4):
        producer.begin_transaction()
        producer.produce("txn", str(number), partition=0)
        if number % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    producer.begin_transaction()
    producer.produce("txn", "open", partition=0)
    producer.flush(10)
    assert command.lines("consume", "txn", "--committed") == ["0", "2"]
    assert len(command.lines("consume", "txn")) > 2
    producer.abort_transaction(20)


def test_a_member_does_not_wait_for_an_open_transaction(
    command: Command, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = Producer({"bootstrap.servers": muster.kafka, "transactional.id": "y"})
    producer.init_transactions(20)
    command.lines("topics", "create", "opened", "--partitions", "1")
    producer.begin_transaction()
    producer.produce("opened", "open", partition=0)
    assert producer.flush(10) == 0
    fetches, fetch = 0, Fetcher._fetch_from

    def fetch_a_few_times(self: Fetcher, *arguments: Any) -> Any:
        nonlocal fetches
        fetches += 1
        assert fetches < 10, "it waits for the end of the transaction"
        return fetch(self, *arguments)

    monkeypatch.setattr(Fetcher, "_fetch_from", fetch_a_few_times)
    assert command.lines("consume", "opened", "--committed", "--group", "waiting") == []
    producer.abort_transaction(20)


def test_a_member_commits_what_was_printed(command: Command, muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    command.lines("topics", "create", "printed", "--partitions", "1")
    records(muster.kafka, "printed", {0: 5})
    words = ("consume", "printed", "--group", "printing", "--show", "offset")
    assert command.lines(*words, "--count", "2") == ["0 x", "1 x"]

    def fail_at_the_second(text: str, **_: Any) -> None:
        if text.startswith("3"):
            raise ClientError("nobody reads this")

    with monkeypatch.context() as patch:
        patch.setattr(consume, "print", fail_at_the_second, raising=False)
        assert command(*words)[0] == 1
    assert command.lines(*words) == ["3 x", "4 x"]
    assert command.lines(*words) == []


class CreatingKafka:
    """A cluster that creates a topic as Apache Kafka does: unknown at first, then without leaders, then complete."""

    def __init__(self, *answers: tuple[int, tuple[int, ...]]) -> None:
        self._answers = list(answers)

    def metadata(self, topics: Sequence[str], *, creates: bool = False) -> MetadataResponse:
        assert creates
        error, leaders = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        partitions = tuple(MetadataResponsePartition(0, index, leader) for index, leader in enumerate(leaders))
        return MetadataResponse(topics=(MetadataResponseTopic(error, "new", partitions=partitions),))

    def brokers(self) -> dict[int, Any]:
        return {1: "one", 2: "two"}


def test_a_member_that_cannot_commit_leaves_all_the_same(
    command: Command, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its partitions have no other owner until its session ends."""
    records(muster.kafka, "uncommitted", {0: 1, 1: 1})

    def refuse(self: GroupConsumer, *, is_urgent: bool = True) -> None:
        if self.positions:
            raise BrokerError("commit offsets of leaver", ErrorCode.GROUP_AUTHORIZATION_FAILED)

    monkeypatch.setattr(GroupConsumer, "commit", refuse)
    assert command("consume", "uncommitted", "--group", "leaver")[0] == 1
    assert "0 members" in command("groups", "describe", "leaver")[1][0]


def test_a_topic_that_the_broker_creates_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "PAUSE_SECONDS", 0)
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())
    cluster: Any = CreatingKafka(unknown, (ErrorCode.NONE, (-1, 1)), (ErrorCode.NONE, (2, 1)))
    assert produce.find_leaders(cluster, "new") == {0: "two", 1: "one"}
    monkeypatch.setattr(produce, "CREATION_SECONDS", 0)
    for never, complaint in (
        (unknown, "cannot use topic new: "),
        ((ErrorCode.NONE, (1, -1)), "cannot write to new:1: "),
    ):
        cluster = CreatingKafka(never)
        with pytest.raises(BrokerError, match=complaint):
            produce.find_leaders(cluster, "new")


def test_a_partition_without_a_leader_is_left_out_or_refused() -> None:
    class Leaderless:
        def metadata(self, topics: list[str]) -> MetadataResponse:
            partitions = tuple(MetadataResponsePartition(partition_index=index, leader_id=-1) for index in (0, 1))
            return MetadataResponse(topics=(MetadataResponseTopic(name=topics[0], partitions=partitions),))

    cluster: Any = Leaderless()
    assert list_offsets(cluster, [("t", 0)], EARLIEST) == {}
    assert list_offsets(cluster, [("t", 7)], EARLIEST, is_strict=True) == {}, "it does not exist"
    with pytest.raises(BrokerError, match="cannot read t:1: "):
        list_offsets(cluster, [("t", 1)], EARLIEST, is_strict=True)
