"""`muster topics`, `muster produce` and `muster consume` against a live server: lines in, lines out."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from coordinator.cli import main
from coordinator.cli.produce import murmur2
from tests.cli.command import Command
from tests.live import Muster


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    with Muster(tmp_path_factory.mktemp("topics"), "--ephemeral", "--set", "num.partitions=2") as server:
        yield server


class Shell(Command):
    """Commands that read lines."""

    def __init__(self, bootstrap: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(bootstrap, capsys)
        self._monkeypatch = monkeypatch

    def complaint(self) -> str:
        return self._capsys.readouterr().err

    def typing(self, text: str, *words: str) -> list[str]:
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return self.lines(*words)


@pytest.fixture
def shell(muster: Muster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(muster.kafka, capsys, monkeypatch)


def test_topics_are_created_listed_described_and_deleted(shell: Shell) -> None:
    assert shell.lines("topics", "create", "a", "b", "--partitions", "3", "--set", "retention.ms=5") == [
        "created a",
        "created b",
    ]
    listed = shell.json("topics", "list")
    assert {(one["topic"], one["partitions"]) for one in listed} >= {("a", 3), ("b", 3)}
    assert "__consumer_offsets" not in {one["topic"] for one in listed}
    assert "__consumer_offsets" in {one["topic"] for one in shell.json("topics", "list", "--internal")}
    assert shell.lines("topics", "describe", "a")[:3] == [
        "a: 3 partitions, retention.ms=5",
        "PARTITION LEADER REPLICAS START-OFFSET END-OFFSET RECORDS",
        "0 0 0 0 0 0",
    ]
    assert shell.lines("topics", "delete", "a") == ["deleted a"]
    assert "a" not in {one["topic"] for one in shell.json("topics", "list")}


def test_what_cannot_be_done_is_said_in_a_line(shell: Shell) -> None:
    shell.lines("topics", "create", "twice")
    code, lines, complaint = shell("topics", "create", "twice", "once", "../out")
    assert (code, lines) == (1, ["created once"])
    assert "muster topics: cannot create twice: the topic exists already (TOPIC_ALREADY_EXISTS)" in complaint
    assert "muster topics: cannot create ../out: not a valid topic name" in complaint
    assert shell("topics", "delete", "nobody") == (
        1,
        [],
        "muster topics: cannot delete nobody: no such topic or partition (UNKNOWN_TOPIC_OR_PARTITION)\n",
    )
    assert shell("topics", "describe", "nobody")[0] == 1
    code, lines, complaint = shell("topics", "describe", "../out", "twice", "nobody")
    assert (code, lines[0]) == (1, "twice: 2 partitions")
    assert "cannot describe ../out: not a valid topic name" in complaint
    assert "no topic nobody" in complaint
    assert shell("consume", "nobody")[0] == 1
    assert (
        shell("consume", "twice", "--partition", "9")[2]
        == "muster consume: topic twice has no partition 9: expected 0 to 1\n"
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("topics", "create", "x", "--set", "nothing"), "invalid --set 'nothing': expected NAME=VALUE"),
        (
            ("topics", "create", "x", "--partitions", "many"),
            "invalid --partitions 'many': expected a whole number from 1",
        ),
        (
            ("topics", "list", "--bootstrap-server", "no one"),
            "invalid --bootstrap-server 'no one': expected HOST[:PORT], with commas between several",
        ),
        (("consume", "x", "--from", "here"), "invalid --from 'here': expected earliest, latest or an offset"),
        (("consume", "x", "--from", "-1"), "-1"),
        (("consume", "x", "--count", "0"), "invalid --count '0': expected a whole number from 1"),
        (("consume",), "missing TOPIC"),
        (("produce", "x", "--key-separator", ""), "invalid --key-separator '': expected a text such as : or"),
        (("produce",), "missing TOPIC"),
    ],
)
def test_wrong_use_is_exit_code_2_and_a_line(words: tuple[str, ...], complaint: str, shell: Shell) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    said = shell.complaint()
    assert complaint in said
    assert len(said.splitlines()) == 1


def test_lines_in_are_lines_out(shell: Shell) -> None:
    assert shell.typing("one\ntwo\nthree\n", "produce", "lines", "--partition", "1") == ["3 records written to lines"]
    assert shell.typing("four", "produce", "lines", "--partition", "1") == ["1 record written to lines"]
    assert shell.lines("consume", "lines") == ["one", "two", "three", "four"]
    assert shell.lines("consume", "lines", "--from", "1", "--count", "1") == ["two"]
    assert shell.lines("consume", "lines", "--from", "latest") == []
    assert shell.lines("consume", "lines", "--partition", "0") == []


def test_keys_go_where_java_puts_them(shell: Shell) -> None:
    shell.typing("k1=a\nk2=b\nk1=c\n", "produce", "keyed", "--key-separator", "=")
    shell.typing("plain\n", "produce", "keyed")
    found = [json.loads(line) for line in shell.lines("consume", "keyed", "--json")]
    keyed = {one["value"]: (one["key"], one["partition"]) for one in found}
    assert {value: key for value, (key, _) in keyed.items()} == {"a": "k1", "b": "k2", "plain": None, "c": "k1"}
    assert keyed["a"][1] == keyed["c"][1] == (murmur2(b"k1") & 0x7FFFFFFF) % 2
    assert sorted(shell.lines("consume", "keyed", "--key-separator", ":")) == [":plain", "k1:a", "k1:c", "k2:b"]


@pytest.mark.parametrize(
    ("key", "number"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107)],
)
def test_murmur2_is_javas(key: bytes, number: int) -> None:
    """The vectors of org.apache.kafka.common.utils.UtilsTest."""
    assert murmur2(key) == number & 0xFFFFFFFF


def test_a_client_reads_what_was_typed_and_the_other_way_round(shell: Shell, muster: Muster) -> None:
    shell.typing("typed\n", "produce", "both", "--partition", "0")
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
    second = [json.loads(line) for line in shell.lines("consume", "both", "--json")][1]
    assert (second["key"], second["value"], second["headers"]) == ("key", {"base64": "/wA="}, [["h", "v"]])


def test_only_what_was_committed(shell: Shell, muster: Muster) -> None:
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
    assert shell.lines("consume", "txn", "--committed") == ["0", "2"]
    assert len(shell.lines("consume", "txn")) > 2
    producer.abort_transaction(20)
