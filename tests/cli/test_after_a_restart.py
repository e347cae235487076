"""`why` and `events` know what happened before the server was started last, and read it without a server."""

import json
import re
from pathlib import Path

from coordinator.client import Client
from tests.cli.command import classic_member
from tests.commands import Shell, shell_fixture
from tests.live import Muster

shell = shell_fixture()


def without_numbers(said: str) -> str:
    """Events of one directory are numbered from 1, those of a server by all that it has seen."""
    return re.sub(r'^#\d+ +|"(?:number|latest)": ?\d+,? ?|\s+', "", said, flags=re.MULTILINE)


def test_a_restart_forgets_no_cause(tmp_path: Path, shell: Shell) -> None:
    with Muster(tmp_path, "--topic", "orders:1") as server:
        with Client.to(server.kafka) as client:
            member_id = classic_member(client, "shop", {"orders": (0,)})
        server.steer("POST", f"/groups/shop/members/{member_id}/expire", reason="for the test")
        admin = ("--admin", server.ready["admin"])
        before = shell(0, "why", "shop", *admin)
        assert "session expired" in before and "(generation 1)" in before
        told = {
            form: without_numbers(shell(0, "why", "shop", *form, *admin))
            for form in ((), ("--format", "mermaid"), ("--json",))
        }
        server.stop()
        for form in ((), ("--format", "mermaid"), ("--json",)):
            assert without_numbers(shell(0, "why", "shop", *form, "--data-dir", server.data_dir)) == told[form]
        server.start()
        assert [line.split(" ", 1)[1].strip() for line in shell(0, "why", "shop", *admin).splitlines()] == [
            line.split(" ", 1)[1].strip() for line in before.splitlines()
        ]
        numbers = [json.loads(line)["number"] for line in shell(0, "events", "shop", "--json", *admin).splitlines()]
        assert numbers == list(range(1 - len(numbers), 1))
        assert json.loads(server.get("/events?after=0"))["events"] == []
        assert json.loads(shell(0, "why", "shop", "--json", *admin))["latest"] == 0
        read = shell(0, "events", "--data-dir", server.data_dir, "--count", "2")
        assert "session expired" in read


def test_what_cannot_be_read_is_one_line(tmp_path: Path, shell: Shell) -> None:
    said = shell(2, "why", "shop", "--data-dir", tmp_path)
    assert said == f"muster why: invalid --data-dir {str(tmp_path)!r}: expected a data directory with events.jsonl\n"
    assert "invalid --data-dir: --admin" in shell(2, "events", "--data-dir", tmp_path, "--admin", "localhost")
    (tmp_path / "events.jsonl").write_text("{}\n")
    assert shell(1, "why", "shop", "--data-dir", tmp_path) == "muster why: no event of a group 'shop' is known\n"
    assert shell(1, "events", "shop", "--data-dir", tmp_path) == "muster events: no event of a group 'shop' is known\n"
    assert "invalid --follow" in shell(2, "events", "--data-dir", tmp_path, "--follow")
