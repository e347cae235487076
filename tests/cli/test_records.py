"""`muster produce` and `muster consume`: JSON lines, tombstones, compression, and the coordinator's own records."""

import io
import json
import sys

import pytest

from protocol import record_batch
from protocol.compression import Compression
from tests.commands import Shell, shell_fixture
from tests.live import Muster, server_fixture
from tests.requests import fetch

server = server_fixture("--ephemeral", "--topic", "orders:2", "--topic", "copy:2", scope="function")
shell = shell_fixture()


@pytest.fixture
def muster(server: Muster, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("MUSTER_BOOTSTRAP", server.kafka)
    return shell


def type_in(monkeypatch: pytest.MonkeyPatch, *lines: object) -> None:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode("utf-8", "surrogateescape"))))


def _place(line: str) -> tuple[int, int]:
    record = json.loads(line)
    return record["partition"], record["offset"]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_one_command_prints_the_other_one_writes(
    compression: str, server: Muster, muster: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = [["source", "shell"], ["none", None], ["empty", ""]]
    typed = [
        {"partition": 0, "key": None, "value": {"base64": "/w=="}, "headers": []},
        {"partition": 0, "key": "", "value": "", "headers": []},
        {"partition": 1, "key": "anna", "value": "tea", "headers": headers, "timestamp": 5},
        {"partition": 1, "key": "anna", "value": None, "headers": [], "timestamp": 0},
    ]
    type_in(monkeypatch, *typed)
    words = () if compression == "none" else ("--compression", compression)
    assert muster(0, "produce", "orders", "--input", "json", *words) == "4 records written to orders\n"
    printed = muster(0, "consume", "orders", "--json")
    assert [
        {name: value for name, value in json.loads(line).items() if name in one}
        for one, line in zip(typed, sorted(printed.splitlines(), key=_place), strict=True)
    ] == typed
    type_in(monkeypatch, *printed.splitlines())
    muster(0, "produce", "copy", "--input", "json", *words)
    assert muster(0, "consume", "copy", "--json") == printed.replace('"orders"', '"copy"')
    assert muster(0, "consume", "copy", "--partition", "1", "--show", "offset,value,key").splitlines() == [
        "0\ttea\tanna", "1\t\tanna",
    ]  # fmt: skip
    from coordinator.client import Client

    with Client.to(server.kafka) as client:
        (data,) = client.ask(fetch("copy", 1), up_to=11).responses[0].partitions
    assert {Compression(header.compression).name.lower() for _, header in record_batch.batches(data.records)} == {
        compression
    }


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{}", "expected an object with a value: Object missing required field `value`"),
        ("tea", "expected an object with a value: "),
        ('{"value": {"base64": "x"}}', "expected an object with a value: "),
        ('{"value": "x", "partition": 7}', "orders has no partition 7"),
        ('{"value": "x", "timestamp": -2}', "Expected `int` >= -1 - at `$.timestamp`"),
        ('{"value": "x", "timestamp": 9223372036854775808}', "expected an object with a value: "),
    ],
)
def test_a_line_that_is_none_is_named(
    line: str, complaint: str, muster: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(monkeypatch, line)
    said = muster(1, "produce", "orders", "--input", "json")
    assert said.startswith("muster produce: invalid line 1: ")
    assert complaint in said
    assert said.endswith("; 0 records written before\n")
    assert "cannot be combined" in muster(2, "produce", "orders", "--input", "json", "--key-separator", ":")


def test_a_separator_and_headers_are_the_bytes_that_they_are_given_as(
    muster: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the byte `\xff`, which is no UTF-8, as Python reads it from the command line."""
    words = ("produce", "orders", "--key-separator", "\udcff", "--header", "\udcffname=\udcff")
    type_in(monkeypatch, "anna\udcfftea", "tea")
    assert "invalid line 2: expected the key separator" in muster(1, *words)
    type_in(monkeypatch, "anna\udcfftea")
    muster(0, *words)
    (record,) = map(json.loads, muster(0, "consume", "orders", "--json").splitlines())
    assert (record["key"], record["value"]) == ("anna", "tea")
    assert record["headers"] == [["\udcffname", {"base64": "/w=="}]]


def test_a_separator_is_written_alike_and_headers_keep_their_blanks(
    muster: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, separator in enumerate((r"\t", r"\\", r"\0", " = ", r"\x")):
        type_in(monkeypatch, {"value": " tea ", "key": "anna", "partition": 0})
        muster(0, "produce", "orders", "--input", "json")
        printed = muster(0, "consume", "orders", "--key-separator", separator, "--from", number)
        type_in(monkeypatch, printed.removesuffix("\n"))
        words = ("--partition", 0, "--key-separator", separator, "--header", " note = a b =\t")
        muster(0, "produce", "copy", *words)
        (record,) = map(json.loads, muster(0, "consume", "copy", "--from", number, "--json").splitlines())
        assert (record["key"], record["value"], record["headers"]) == ("anna", " tea ", [[" note ", " a b =\t"]])


def test_the_coordinators_records_are_decoded(server: Muster, muster: Shell) -> None:
    server.steer("POST", "/state", offsets={"shop": {"orders": {"0": 5}}})
    (line,) = muster(0, "consume", "__consumer_offsets", "--json").splitlines()
    record = json.loads(line)
    assert record["type"] == "OffsetCommit"
    assert (record["key"]["group"], record["key"]["topic"], record["value"]["offset"]) == ("shop", "orders", 5)
    assert '"type": "OffsetCommit"' in muster(0, "consume", "__consumer_offsets")
    assert "base64" in muster(0, "consume", "__consumer_offsets", "--json", "--raw")


def test_five_thousand_topics_are_made_and_removed_in_one_command(server: Muster, muster: Shell) -> None:
    names = [f"t{number}" for number in range(5_000)]
    assert muster(0, "topics", "create", *names).count("created ") == 5_000
    assert muster(0, "topics", "alter", *names[:1_200], "--partitions", "2").count("altered ") == 1_200
    assert muster(0, "topics", "delete", *names).count("deleted ") == 5_000
