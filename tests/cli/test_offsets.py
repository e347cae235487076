"""`muster offsets` against a live server."""

from collections.abc import Iterator

import pytest

from coordinator.cli import main
from coordinator.client import Client
from tests.cli.command import Command, classic_member
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
        "TOPIC PARTITION OFFSET LEADER-EPOCH METADATA",
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
    assert refused == (
        1,
        [],
        "muster offsets: cannot set the offset of busy in orders:0: the group has members: stop them first (UNKNOWN_MEMBER_ID)\n",
    )
    refused = command("offsets", "delete", "busy", "orders")
    assert refused == (
        1,
        [],
        "muster offsets: cannot delete the offset of busy in orders:0: members of the group subscribe to the topic: stop them first (GROUP_SUBSCRIBED_TO_TOPIC)\n",
    )
    assert len(command.lines("offsets", "delete", "busy", "payments")) == 2, "it does not subscribe to this one"


def test_refusals_are_one_line(command: Command) -> None:
    told = {
        ("show", "nobody"): "nobody has no committed offsets",
        ("show", "nobody", "orders"): "nobody has no committed offsets in orders",
        ("set", "g", "absent:0=1"): "cannot use topic absent: no such topic or partition (UNKNOWN_TOPIC_OR_PARTITION)",
        ("set", "g", "orders:9=1"): "topic orders has no partition 9: expected 0 to 2",
        ("delete", "g", "orders"): "g has no committed offsets in orders",
    }
    for words, complaint in told.items():
        assert command("offsets", *words) == (1, [], f"muster offsets: {complaint}\n")


@pytest.mark.parametrize("text", ["orders=1", "orders:0", "orders:0=x", ":0=1", "orders:0=-1"])
def test_an_offset_of_another_form_is_wrong_use(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["offsets", "set", "g", text])
    complaint = f"invalid TOPIC:PARTITION=OFFSET {text!r}: expected TOPIC:PARTITION=OFFSET"
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"muster offsets set: {complaint}; see muster offsets set --help\n"


def test_an_empty_answer_is_an_empty_list_for_programs(command: Command) -> None:
    assert command.json("offsets", "show", "nobody") == []
