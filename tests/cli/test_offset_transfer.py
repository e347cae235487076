"""`muster offsets export` and `import`, where a transcript cannot bring it about: many offsets, and topics that go meanwhile."""

import json
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.live import server_fixture

muster = server_fixture("--topic", "orders:3", "--topic", "payments:1", "--ephemeral")


def test_offsets_of_topics_that_are_gone_are_left_out(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    command.lines("offsets", "set", "orphan", "payments:0=0", "orders:0=0")
    monkeypatch.setattr("coordinator.cli.offset_transfer._partition_counts", lambda cluster, topics: {"orders": 3})
    code, lines, complaint = command("offsets", "export", "orphan")
    assert (code, complaint) == (0, "1 offset of deleted topics left out\n")
    assert json.loads("\n".join(lines))["groups"]["orphan"].keys() == {"orders"}


@pytest.mark.parametrize(("offset", "end", "expected"), [(5, 10, 3), (8, 10, 4), (10, 10, 6), (12, 10, 6), (0, 100, 3)])
def test_a_lag_that_is_kept_never_leads_before_the_start(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int, end: int, expected: int
) -> None:
    """The partition has the offsets 3 to 6."""
    there = {("orders", 0): (3, 6)}
    monkeypatch.setattr("coordinator.cli.offset_transfer._ranges", lambda cluster, export, missing: there)
    groups = {"lagging": {"orders": {"0": {"offset": offset, "end": end}}}}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "topics": {"orders": 3}, "groups": groups}))
    assert command("offsets", "import", str(file), "--by", "lag")[0] == 0
    assert [found["offset"] for found in command.json("offsets", "show", "lagging")] == [expected]


def test_many_offsets_go_in_several_requests(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.cli.offset_transfer.OFFSETS_AT_ONCE", 2)
    offsets = {"many": {"orders": {str(partition): {"offset": partition} for partition in range(3)}}}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "topics": {"orders": 3}, "groups": offsets}))
    assert command("offsets", "import", str(file), "--out-of-range", "commit")[0] == 0
    assert [found["offset"] for found in command.json("offsets", "show", "many")] == [0, 1, 2]
