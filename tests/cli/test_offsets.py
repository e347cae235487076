"""`muster offsets` against a live server."""

from collections.abc import Iterator

import pytest

from coordinator.client import Client
from tests.cli.asked import Command, classic_member
from tests.live import Muster


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    topics = ("--topic", "orders:3", "--topic", "payments:1")
    with Muster(tmp_path_factory.mktemp("offsets"), *topics, "--ephemeral") as server:
        yield server


@pytest.fixture
def command(muster: Muster, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(muster.kafka, capsys)


def test_what_is_set_is_shown(command: Command) -> None:
    words = ("offsets", "set", "shop", "orders:0=5", "payments:0=12", "--metadata", "by hand")
    assert command.lines(*words) == ["TOPIC PARTITION OFFSET RESULT", "orders 0 5 set", "payments 0 12 set"]
    assert command.lines("offsets", "show", "shop") == [
        "TOPIC PARTITION OFFSET EPOCH METADATA",
        "orders 0 5 - by hand",
        "payments 0 12 - by hand",
    ]
    assert command.json("offsets", "show", "shop", "payments") == [
        {"topic": "payments", "partition": 0, "offset": 12, "leader_epoch": -1, "metadata": "by hand"}
    ]


def test_what_is_deleted_is_gone_and_the_rest_stays(command: Command) -> None:
    command.lines("offsets", "set", "tidy", "orders:0=1", "orders:1=2", "orders:2=3", "payments:0=4")
    assert command.lines("offsets", "delete", "tidy", "orders:0,2") == [
        "TOPIC PARTITION OFFSET RESULT",
        "orders 0 1 deleted",
        "orders 2 3 deleted",
    ]
    assert command.json("offsets", "delete", "tidy", "payments") == [{"topic": "payments", "partition": 0, "offset": 4}]
    assert [(one["topic"], one["partition"]) for one in command.json("offsets", "show", "tidy")] == [("orders", 1)]


def test_a_group_with_members_keeps_its_offsets(command: Command, muster: Muster) -> None:
    command.lines("offsets", "set", "busy", "orders:0=1", "payments:0=1")
    with Client.to(muster.kafka) as client:
        classic_member(client, "busy", {"orders": (0,)})
    refused = command("offsets", "set", "busy", "orders:0=2")
    assert refused == (1, [], "muster offsets: setting the offset of busy in orders:0: UNKNOWN_MEMBER_ID\n")
    refused = command("offsets", "delete", "busy", "orders")
    assert refused == (1, [], "muster offsets: deleting the offset of busy in orders:0: GROUP_SUBSCRIBED_TO_TOPIC\n")
    assert len(command.lines("offsets", "delete", "busy", "payments")) == 2, "it does not subscribe to this one"


def test_refusals_are_one_line(command: Command) -> None:
    told = {
        ("show", "nobody"): "nobody has no offsets",
        ("show", "nobody", "orders"): "nobody has no offsets in orders",
        ("set", "g", "absent:0=1"): "topic absent: UNKNOWN_TOPIC_OR_PARTITION",
        ("set", "g", "orders:9=1"): "topic orders has no partition 9",
        ("delete", "g", "orders"): "g has no offsets in orders",
    }
    for words, complaint in told.items():
        assert command("offsets", *words) == (1, [], f"muster offsets: {complaint}\n")
    for text in ("orders=1", "orders:0", "orders:0=x", ":0=1", "orders:0=-1"):
        complaint = f"muster offsets: {text!r} will not do; it may be TOPIC:PARTITION=OFFSET\n"
        assert command("offsets", "set", "g", text) == (2, [], complaint)


def test_an_empty_answer_is_an_empty_list_for_programs(command: Command) -> None:
    assert command.json("offsets", "show", "nobody") == []
