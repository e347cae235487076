"""`muster offsets export` and `import`: offsets go from one server to another by way of JSON."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.client import Client
from tests.cli.command import Command, classic_member, records
from tests.live import Muster

Make = Callable[[Any], str]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    topics = ("--topic", "orders:3", "--topic", "payments:1")
    with Muster(tmp_path_factory.mktemp("source"), *topics, "--ephemeral") as server:
        records(server.kafka, "orders", {0: 10, 1: 4})
        yield server


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    with Muster(tmp_path_factory.mktemp("target"), "--topic", "orders:3", "--ephemeral") as server:
        records(server.kafka, "orders", {0: 6, 1: 4})
        yield server


@pytest.fixture
def here(source: Muster, capsys: pytest.CaptureFixture[str]) -> Command:
    command = Command(source.kafka, capsys)
    command.lines("offsets", "set", "shop", "orders:0=8", "orders:1=4", "--metadata", "night run")
    return command


@pytest.fixture
def there(target: Muster, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(target.kafka, capsys)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Write a file, and return its name."""

    def write(content: Any) -> str:
        file = tmp_path / "offsets.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return str(file)

    return write


def one(group: str, topic: str = "orders", offset: int = 1, **more: Any) -> dict[str, Any]:
    """A file with one offset, of partition 0."""
    return {"version": 1, "topics": {topic: 1}, "groups": {group: {topic: {"0": {"offset": offset, **more}}}}}


def test_an_export_has_offsets_ends_and_partitions(here: Command) -> None:
    assert here.json("offsets", "export", "shop") == {
        "version": 1,
        "topics": {"orders": 3},
        "groups": {
            "shop": {
                "orders": {
                    "0": {"offset": 8, "end": 10, "metadata": "night run"},
                    "1": {"offset": 4, "end": 4, "metadata": "night run"},
                }
            }
        },
    }
    here.lines("offsets", "set", "another", "payments:0=0")
    exported = here.json("offsets", "export")
    assert {"shop", "another"} <= exported["groups"].keys()
    assert exported["topics"] == {"orders": 3, "payments": 1}


def test_an_import_by_lag_leaves_the_lag(here: Command, there: Command, make: Make) -> None:
    file = make(here.json("offsets", "export", "shop"))
    assert there.lines("offsets", "import", file, "--by", "lag") == [
        "GROUP TOPIC PARTITION BEFORE OFFSET RESULT",
        "shop orders 0 - 4 set",
        "shop orders 1 - 4 set",
    ]
    shown = there.json("offsets", "show", "shop")
    assert [(found["partition"], found["offset"], found["metadata"]) for found in shown] == [
        (0, 4, "night run"),
        (1, 4, "night run"),
    ]


def test_a_dry_run_changes_nothing(here: Command, there: Command, make: Make) -> None:
    here.lines("offsets", "set", "timid", "orders:0=2", "payments:0=0")
    file = make(here.json("offsets", "export", "timid"))
    assert there.lines("offsets", "import", file, "--dry-run", "--create-topics") == [
        "would create payments",
        "GROUP TOPIC PARTITION BEFORE OFFSET RESULT",
        "timid orders 0 - 2 would be set",
        "timid payments 0 - 0 would be set",
    ]
    assert there("offsets", "show", "timid")[0] == 1
    assert "payments" not in "".join(there.lines("topics", "list"))


def test_topics_that_are_missing_are_created_when_asked(there: Command, make: Make) -> None:
    file = make({"version": 1, "topics": {"fresh": 5}, "groups": {"new": {"fresh": {"4": {"offset": 0}}}}})
    assert there("offsets", "import", file) == (
        1,
        [],
        "muster offsets: no topic fresh: create it, or use --create-topics\n",
    )
    assert there.lines("offsets", "import", file, "--create-topics")[0] == "created fresh"
    assert any(line.startswith("fresh 5 ") for line in there.lines("topics", "list"))


def test_an_offset_beyond_its_partition_is_refused_clamped_or_committed(there: Command, make: Make) -> None:
    file = make(one("far", offset=1_000))
    code, lines, complaint = there("offsets", "import", file)
    assert (code, lines) == (1, [])
    assert complaint == (
        "muster offsets: cannot set the offset of far in orders:0 to 1000: the partition has 0 to 6; "
        "--by lag keeps the lag, --out-of-range clamp or commit takes it\n"
    )
    assert there("offsets", "show", "far")[0] == 1
    assert there.lines("offsets", "import", file, "--out-of-range", "clamp")[1] == "far orders 0 - 6 set"
    assert there.lines("offsets", "import", file, "--out-of-range", "commit")[1] == "far orders 0 6 1000 set"


def test_nothing_is_committed_if_one_of_the_groups_has_members(there: Command, target: Muster, make: Make) -> None:
    with Client.to(target.kafka) as client:
        classic_member(client, "busy", {"orders": (0,)})
    file = make({"version": 1, "topics": {"orders": 1}, "groups": one("a")["groups"] | one("busy")["groups"]})
    assert there("offsets", "import", file) == (
        1,
        [],
        "muster offsets: cannot set the offsets of busy: the group has members: stop them first\n",
    )
    assert there("offsets", "show", "a")[0] == 1
    assert there.lines("offsets", "import", file, "a")[1] == "a orders 0 - 1 set"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "Input data was truncated"),
        ({"version": 2, "topics": {}, "groups": {}}, "Invalid enum value 2 - at `$.version`"),
        (one("g", offset=-1), "Expected `int` >= 0 - at `$.groups[...][...][...].offset`"),
        (one("g", epoch=1), "Object contains unknown field `epoch` - at `$.groups[...][...][...]`"),
        (one("g") | {"topics": {}}, "topics has too few partitions of orders, or none"),
    ],
)
def test_a_file_of_another_form_is_wrong_use(there: Command, make: Make, content: Any, complaint: str) -> None:
    file = make(content)
    code, lines, said = there("offsets", "import", file)
    assert (code, lines) == (2, [])
    assert said.startswith(f"muster offsets: invalid {file}: {complaint}")


def test_refusals_are_one_line(here: Command, there: Command, make: Make) -> None:
    assert here("offsets", "export", "nobody") == (1, [], "muster offsets: nobody has no committed offsets\n")
    assert there("offsets", "import", "/nowhere") == (
        2,
        [],
        "muster offsets: cannot read /nowhere: No such file or directory\n",
    )
    file = make(one("g"))
    assert there("offsets", "import", file, "h") == (1, [], "muster offsets: the file has no group h\n")
    assert there("offsets", "import", file, "--by", "lag")[2] == (
        "muster offsets: cannot keep the lag of g in orders:0: the file does not have the end of the partition\n"
    )
    wide = {"version": 1, "topics": {"orders": 9}, "groups": {"g": {"orders": {"8": {"offset": 0}}}}}
    assert there("offsets", "import", make(wide))[2] == (
        "muster offsets: topic orders has no partition 8: expected 0 to 2\n"
    )


def test_offsets_of_topics_that_are_gone_are_left_out(here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    here.lines("offsets", "set", "orphan", "payments:0=0", "orders:0=1")
    monkeypatch.setattr("coordinator.cli.offset_transfer._partition_counts", lambda cluster, topics: {"orders": 3})
    code, lines, complaint = here("offsets", "export", "orphan")
    assert (code, complaint) == (0, "1 offset of deleted topics left out\n")
    assert json.loads("\n".join(lines))["groups"]["orphan"].keys() == {"orders"}


def test_many_offsets_go_in_several_requests(
    here: Command, there: Command, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.cli.offset_transfer.OFFSETS_AT_ONCE", 2)
    file = make(
        {
            "version": 1,
            "topics": {"orders": 3},
            "groups": {"many": {"orders": {str(p): {"offset": 1} for p in range(3)}}},
        }
    )
    assert there("offsets", "import", file, "--out-of-range", "clamp")[0] == 0
    assert [found["offset"] for found in there.json("offsets", "show", "many")] == [1, 1, 0]
