"""`muster consume` beside a model: transactions of several producers, deleted records, beginnings, ends and counts."""

import json
from random import Random
from typing import Any

import pytest

from coordinator.cli import consume, main
from coordinator.client import Client
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.commands import Shell, shell_fixture
from tests.dataplane.broker import batch
from tests.live import Muster, server_fixture
from tests.requests import create_topics, delete_records, produce

PARTITIONS = 2
server = server_fixture("--ephemeral")
shell = shell_fixture()


@pytest.fixture
def muster(server: Muster, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("MUSTER_BOOTSTRAP", server.kafka)
    return shell


class Producer:
    """A transactional producer, and what it has written in its open transaction."""

    def __init__(self, client: Client, name: str) -> None:
        begun = client.ask(InitProducerIdRequest(name, 60_000), up_to=4)
        self.client, self.name, self.ids = client, name, (begun.producer_id, begun.producer_epoch)
        self.sequences = [0] * PARTITIONS
        self.open: list[tuple[int, int]] = []  # partition and offset

    def write(self, topic: str, partition: int, values: list[str]) -> int:
        topics = (AddPartitionsToTxnRequestTopic(topic, (partition,)),)
        self.client.ask(AddPartitionsToTxnRequest((), self.name, *self.ids, topics), up_to=3)
        ids = {"producer_id": self.ids[0], "producer_epoch": self.ids[1]}
        data = batch(*values, base_sequence=self.sequences[partition], transactional=True, **ids)
        self.sequences[partition] += len(values)
        return append(self.client, topic, partition, data, self.name)

    def end(self, *, is_committed: bool) -> set[tuple[int, int]]:
        if self.open:
            assert not self.client.ask(EndTxnRequest(self.name, *self.ids, is_committed), up_to=3).error_code
        ended, self.open = set(self.open), []
        return ended


def append(client: Client, topic: str, partition: int, data: bytes, txn: str | None = None) -> int:
    (answer,) = client.ask(produce(topic, {partition: data}, txn), up_to=9).responses[0].partition_responses
    assert not answer.error_code
    offset: int = answer.base_offset
    return offset


class Topic:
    """A topic that was written to by chance, and what is to be read of it."""

    def __init__(self, client: Client, name: str, dice: Random) -> None:
        self.name = name
        client.ask(create_topics({name: PARTITIONS}), up_to=5)
        self.records: list[dict[int, str]] = [{} for _ in range(PARTITIONS)]  # by offset
        self.starts = [0] * PARTITIONS
        aborted: set[tuple[int, int]] = set()
        producers = [Producer(client, f"{name}-{number}") for number in range(3)]
        for number in range(dice.randrange(20, 60)):
            partition, producer = dice.randrange(PARTITIONS), dice.choice(producers)
            values = [f"{number}-{at}" for at in range(dice.randrange(1, 4))]
            match dice.randrange(6):
                case 0 | 1:
                    first = append(client, name, partition, batch(*values))
                case 2 | 3:
                    first = producer.write(name, partition, values)
                    producer.open += [(partition, first + at) for at in range(len(values))]
                case 4:
                    producer.end(is_committed=True)
                    continue
                case _:
                    aborted |= producer.end(is_committed=False)
                    continue
            self.records[partition].update((first + at, value) for at, value in enumerate(values))
        if dice.random() < 0.5:  # else some stay open
            for producer in producers:
                is_committed = dice.random() < 0.5
                ended = producer.end(is_committed=is_committed)
                aborted |= set() if is_committed else ended
        still_open = [place for producer in producers for place in producer.open]
        self.stable = [min([o for p, o in still_open if p == at], default=1 << 62) for at in range(PARTITIONS)]
        for partition, found in enumerate(self.records):
            if found and dice.random() < 0.5:
                self.starts[partition] = dice.choice([*found])
                client.ask(delete_records(name, {partition: self.starts[partition]}), up_to=2)
        self.aborted = aborted

    def read(self, partition: int, start: int = 0, *, committed: bool = False) -> list[tuple[int, str]]:
        """Offsets and values that a consumer sees from an offset on."""
        return [
            (offset, value)
            for offset, value in self.records[partition].items()
            if offset >= max(start, self.starts[partition])
            and not (committed and ((partition, offset) in self.aborted or offset >= self.stable[partition]))
        ]


def split(printed: str) -> list[list[tuple[int, str]]]:
    """Return the offsets and values that `--json` has printed, by partition."""
    found: list[list[tuple[int, str]]] = [[] for _ in range(PARTITIONS)]
    for line in printed.splitlines():
        record = json.loads(line)
        found[record["partition"]].append((record["offset"], record["value"]))
    return found


@pytest.mark.parametrize("seed", range(10))
def test_it_prints_what_a_consumer_reads(seed: int, server: Muster, muster: Shell) -> None:
    dice = Random(seed)
    with Client.to(server.kafka) as client:
        topic = Topic(client, f"mixed-{seed}", dice)
    for words, committed in (((), False), (("--committed",), True)):
        whole = [topic.read(partition, committed=committed) for partition in range(PARTITIONS)]
        assert split(muster(0, "consume", topic.name, "--json", *words)) == whole
        count = dice.randrange(1, 6)
        some = split(muster(0, "consume", topic.name, "--json", "--count", str(count), *words))
        assert sum(map(len, some)) == min(count, sum(map(len, whole)))
        assert all(part == found[: len(part)] for part, found in zip(some, whole, strict=True))
        for partition in range(PARTITIONS):
            start = dice.randrange(1 + max(topic.records[partition], default=0))
            only = ("--partition", str(partition), "--from", str(start))
            (found,) = [one for one in split(muster(0, "consume", topic.name, "--json", *only, *words)) if one] or [[]]
            assert found == topic.read(partition, start, committed=committed)
    assert muster(0, "consume", topic.name, "--from", "latest") == ""


@pytest.mark.parametrize("seed", range(2))
def test_a_group_is_given_each_record_once(seed: int, server: Muster, muster: Shell) -> None:
    """What one command has printed is committed, and the next one goes on behind it."""
    dice = Random(seed)
    with Client.to(server.kafka) as client:
        topic = Topic(client, f"grouped-{seed}", dice)
    found: list[list[tuple[int, str]]] = [[] for _ in range(PARTITIONS)]
    words = ("consume", topic.name, "--json", "--group", f"readers-{seed}")
    for count in (("--count", "1"), ("--count", "4"), ()):
        for partition, more in enumerate(split(muster(0, *words, *count))):
            found[partition] += more
    assert found == [topic.read(partition) for partition in range(PARTITIONS)]
    assert muster(0, *words) == ""


def test_a_member_reads_partitions_that_its_topic_gets_meanwhile(
    server: Muster, muster: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client.to(server.kafka) as client:
        client.ask(create_topics({"growing": 1}))
        append(client, "growing", 0, batch("first"))
        print_one = consume._format

        def grow(partition: int, *about: Any) -> str:
            if partition == 0:
                main(["topics", "alter", "growing", "--partitions", "3"])
                append(client, "growing", 2, batch("second"))
            return print_one(partition, *about)

        monkeypatch.setattr(consume, "_format", grow)
        words = ("--group", "growing", "--follow", "--show", "partition,offset,value")
        assert muster(0, "consume", "growing", *words, "--count", 2) == "altered growing\n0\t0\tfirst\n2\t0\tsecond\n"
        assert server.steer("GET", "/groups/growing")["offsets"] == {"growing": {"0": 1, "1": 0, "2": 1}}
