"""Every command's output, whole: `golden/*.txt` are transcripts, and each command in them is run again.

A line that begins with `$ ` is a command, as a shell would have it; what follows is its output, its standard error with
`! ` before each line, and its exit code unless 0. Ids, times and ports are replaced by names. After a change that is
meant, write the transcripts anew and read the difference:

    MUSTER_GOLDEN=write python -m pytest -n 0 tests/cli/test_golden.py
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli import BROKER_COMMANDS, COMMANDS, main
from coordinator.client import Client
from tests.cli.command import classic_member, consumer_member, records
from tests.cli.transcripts import GOLDEN, Shell, play
from tests.live import Muster

PAGES = sorted(path.stem for path in GOLDEN.glob("*.txt"))


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    """A server with two groups that have members, and one that has committed and left."""
    options = ("--topic", "orders:3", "--topic", "payments:1")
    with Muster(tmp_path, *options) as server:
        records(server.kafka, "orders", {0: 10, 1: 4})
        with Client.to(server.kafka, client_id="till") as client:
            main(["offsets", "set", "shop", "orders:0=3", "--bootstrap-server", server.kafka])
            main(["offsets", "set", "gone", "payments:0=0", "--bootstrap-server", server.kafka])
            classic_member(client, "shop", {"orders": (0, 1)}, instance="till-1")
            consumer_member(client, "modern", "m-1")
        yield server


@pytest.mark.parametrize("name", PAGES)
def test_a_transcript_is_what_the_commands_print(
    name: str, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if name == "help" and sys.version_info >= (3, 13):
        pytest.skip("argparse of Python 3.13 lays help pages out in another way")
    page = (GOLDEN / f"{name}.txt").read_text("utf-8")
    needs_server = name in {*BROKER_COMMANDS, "events", "why", "log"}
    muster = request.getfixturevalue("muster") if needs_server else None
    now = play(page, Shell(capsys, muster, tmp_path))
    if os.environ.get("MUSTER_GOLDEN") == "write":
        (GOLDEN / f"{name}.txt").write_text(now, "utf-8")
    assert now == (GOLDEN / f"{name}.txt").read_text("utf-8")


def test_every_command_has_a_transcript_of_use_and_of_wrong_use() -> None:
    pages = {name: (GOLDEN / f"{name}.txt").read_text("utf-8") for name in PAGES}
    assert set(COMMANDS) <= set(pages)
    helped = set(re.findall(r"\$ muster (\w+) --help", pages["help"]))
    assert set(COMMANDS) - {"log", "pipeline"} == helped - {"log", "pipeline"}
    for name in COMMANDS:
        assert f"muster {name}" in pages[name]
        assert "exit code 2" in pages[name], f"{name}: no wrong use"
