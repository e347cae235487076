"""`muster groups` against a live server: what people read, what programs read, what is refused."""

from collections.abc import Iterator

import pytest

from coordinator.cli import main
from coordinator.client import Client
from tests.cli.command import Command, classic_member, consumer_member, records, squeeze
from tests.live import Muster

TOPICS = ("--topic", "orders:2", "--topic", "payments:1")


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    with Muster(tmp_path_factory.mktemp("groups"), *TOPICS, "--ephemeral") as server:
        records(server.kafka, "orders", {0: 10, 1: 4})
        yield server


@pytest.fixture
def command(muster: Muster, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(muster.kafka, capsys)


@pytest.fixture
def client(muster: Muster) -> Iterator[Client]:
    with Client.to(muster.kafka, client_id="app") as one:
        yield one


def test_list_shows_every_group_and_filters(command: Command, client: Client) -> None:
    classic_member(client, "list-classic", {"orders": (0, 1)})
    consumer_member(client, "list-consumer", "m-1", "orders")
    command.lines("offsets", "set", "list-empty", "orders:0=1")
    lines = command.lines("groups", "list")
    assert lines[0] == "GROUP TYPE STATE PROTOCOL"
    assert {"list-classic classic Stable consumer", "list-consumer consumer Stable consumer"} <= set(lines)
    assert "list-empty classic Empty -" in lines
    listed = command.json("groups", "list", "--type", "consumer", "--state", "Stable")
    assert {"group": "list-consumer", "type": "consumer", "state": "Stable", "protocol": "consumer"} in listed
    assert {one["type"] for one in listed} == {"consumer"}
    assert "list-empty" in {one["group"] for one in command.json("groups", "list", "--state", "Empty")}


def test_describe_of_a_classic_group_says_lag_and_owner(command: Command, client: Client) -> None:
    command.lines("offsets", "set", "classic", "orders:0=3")
    member = classic_member(client, "classic", {"orders": (0, 1)}, instance="till-1")
    assert command.lines("groups", "describe", "classic") == [
        "classic: Stable, classic, 1 member, assignor range, lag 7",
        "TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG MEMBER-ID INSTANCE-ID HOST CLIENT-ID",
        f"orders 0 3 10 7 {member} till-1 /127.0.0.1 app",
        f"orders 1 - 4 - {member} till-1 /127.0.0.1 app",
    ]
    assert command.lines("groups", "describe", "classic", "--members") == [
        "classic: Stable, classic, 1 member, assignor range, lag 7",
        "MEMBER-ID INSTANCE-ID HOST CLIENT-ID PROTOCOL EPOCH SUBSCRIPTION ASSIGNMENT",
        f"{member} till-1 /127.0.0.1 app classic - orders orders:0-1",
    ]
    (told,) = command.json("groups", "describe", "classic")
    assert [(one["partition"], one["lag"]) for one in told["offsets"]] == [(0, 7), (1, None)]
    assert told["members"][0]["assignment"] == {"orders": [0, 1]}


def test_describe_of_a_consumer_group_says_its_epochs(command: Command, client: Client) -> None:
    consumer_member(client, "modern", "m-1", "orders")
    (told,) = command.json("groups", "describe", "modern")
    (member,) = told["members"]
    assert (told["type"], told["state"], told["assignor"]) == ("consumer", "Stable", "uniform")
    assert (member["protocol"], member["epoch"], member["topics"]) == ("consumer", told["epoch"], ["orders"])
    assert member["assignment"] == member["target"] == {"orders": [0, 1]}
    assert command.lines("groups", "describe", "modern")[0] == (
        f"modern: Stable, consumer, 1 member, assignor uniform, epoch {told['epoch']}"
    )


def test_describe_without_names_describes_all(command: Command, client: Client) -> None:
    classic_member(client, "one-of-all", {"orders": (0,)})
    listed = {one["group"] for one in command.json("groups", "list")}
    assert {one["group"] for one in command.json("groups", "describe")} == listed


def test_a_group_that_is_not_there_is_one_line_and_the_others_are_told(command: Command, client: Client) -> None:
    classic_member(client, "there", {"orders": (0,)})
    code, lines, complaint = command("groups", "describe", "nobody", "there")
    assert (code, complaint) == (1, "muster groups: no group nobody\n")
    assert lines[0].startswith("there: Stable")


@pytest.mark.parametrize(
    ("where", "after"),
    [
        (("--to-earliest",), {0: 0, 1: 0}),
        (("--to-latest",), {0: 10, 1: 4}),
        (("--to-offset", "6"), {0: 6, 1: 4}),  # beyond the end goes to the end
        (("--shift-by", "2"), {0: 7, 1: 3}),
        (("--shift-by", "-3"), {0: 2, 1: 0}),  # before the beginning goes to the beginning
        (("--to-datetime", "1970-01-01T03:30:00"), {0: 3, 1: 3}),  # records are at 1:00, 2:00, 3:00, 4:00 ...
        (("--to-datetime", "1970-01-01T07:00:00+02:00"), {0: 4, 1: 4}),  # partition 1 has none that late: its end
    ],
)
def test_reset_offsets_shows_and_with_execute_moves(
    command: Command, where: tuple[str, ...], after: dict[int, int]
) -> None:
    command.lines("offsets", "set", "moved", "orders:0=5", "orders:1=1")
    words = ("groups", "reset-offsets", "moved", "--all-topics", *where)
    rows = [f"orders {partition} {before} {after[partition]}" for partition, before in ((0, 5), (1, 1))]
    head = "TOPIC PARTITION BEFORE AFTER"
    assert command.lines(*words) == [head, *rows, "nothing was changed; --execute changes it"]
    assert committed(command, "moved") == {0: 5, 1: 1}
    assert command.lines(*words, "--execute") == [head, *rows, "done"]
    assert committed(command, "moved") == after


def test_reset_offsets_of_some_partitions_of_a_new_group(command: Command) -> None:
    told = command.json("groups", "reset-offsets", "fresh", "--topic", "orders:1", "--to-latest", "--execute")
    assert told == {
        "group": "fresh",
        "executed": True,
        "offsets": [{"topic": "orders", "partition": 1, "before": None, "after": 4}],
    }
    assert committed(command, "fresh") == {1: 4}


def test_reset_offsets_is_refused_where_it_cannot_be_meant(command: Command, client: Client) -> None:
    classic_member(client, "busy", {"orders": (0,)})
    told = {
        (
            "busy",
            "--topic",
            "orders",
            "--to-latest",
        ): "busy is Stable with 1 member: stop them before you reset offsets",
        ("no", "--all-topics", "--to-latest"): "no has no committed offsets",
        (
            "no",
            "--topic",
            "absent",
            "--to-latest",
        ): "cannot use topic absent: no such topic or partition (UNKNOWN_TOPIC_OR_PARTITION)",
        ("no", "--topic", "orders:7", "--to-latest"): "topic orders has no partition 7: expected 0 to 1",
        ("no", "--topic", "orders", "--shift-by", "1"): "cannot shift by 1: no has no committed offset in orders:0",
    }
    for words, complaint in told.items():
        assert command("groups", "reset-offsets", *words, "--execute") == (1, [], f"muster groups: {complaint}\n")
    refused = command("groups", "reset-offsets", "no", "--topic", "orders:x", "--to-latest")
    complaint = "muster groups: invalid TOPIC 'orders:x': expected TOPIC or TOPIC:PARTITION,PARTITION\n"
    assert refused == (2, [], complaint)


def test_members_are_removed_static_ones_by_their_instance_id(command: Command, client: Client) -> None:
    """KIP-345: an operator frees the partitions of an instance that will not come back."""
    member = classic_member(client, "static", {"orders": (0, 1)}, instance="till-7")
    code, lines, _ = command("groups", "remove-members", "static", "--instance", "till-8")
    assert (code, squeeze(lines[1])) == (1, "- till-8 the group has no such member (UNKNOWN_MEMBER_ID)")
    assert command.lines("groups", "remove-members", "static", "--instance", "till-7") == [
        "MEMBER-ID INSTANCE-ID RESULT",
        "- till-7 removed",
    ]
    assert member not in str(command.json("groups", "describe", "static"))
    dynamic = classic_member(client, "static", {"orders": (0,)})
    assert command.json("groups", "remove-members", "static", "--all") == [
        {"member_id": dynamic, "instance_id": None, "error": None}
    ]
    assert command("groups", "remove-members", "static", "--all")[::2] == (1, "muster groups: static has no members\n")


def test_groups_without_members_are_deleted(command: Command, client: Client) -> None:
    command.lines("offsets", "set", "old", "orders:0=1")
    classic_member(client, "in-use", {"orders": (0,)})
    code, lines, _ = command("groups", "delete", "old", "in-use", "never-was")
    assert code == 1
    assert [squeeze(line) for line in lines] == [
        "GROUP RESULT",
        "old deleted",
        "in-use the group has members: stop them first (NON_EMPTY_GROUP)",
        "never-was no such group (GROUP_ID_NOT_FOUND)",
    ]
    assert "old" not in {one["group"] for one in command.json("groups", "list")}


def test_no_broker_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "list", "--bootstrap-server", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == "muster groups: cannot connect to 127.0.0.1:1: Connection refused\n"


@pytest.mark.parametrize(
    "words",
    [
        ("groups",),
        ("groups", "reset-offsets", "g", "--all-topics"),
        ("groups", "reset-offsets", "g", "--to-latest"),
        ("groups", "remove-members", "g"),
        ("groups", "delete"),
        ("offsets", "set", "g"),
        ("groups", "reset-offsets", "no", "--topic", "orders", "--to-datetime", "noon"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def committed(command: Command, group: str) -> dict[int, int]:
    return {one["partition"]: one["offset"] for one in command.json("offsets", "show", group)}
