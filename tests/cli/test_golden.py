"""Every command's output, whole: `golden/*.txt` are transcripts, and each command in them is run again.

A line that begins with `$ ` is a command, as a shell would have it; what follows is its output, its standard error with
`! ` before each line, and its exit code unless 0. Ids, times and ports are replaced by names. After a change that is
meant, write the transcripts anew and read the difference:

    MUSTER_GOLDEN=write python -m pytest -n 0 tests/cli/test_golden.py
"""

import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli import BROKER_COMMANDS, COMMANDS, main
from coordinator.client import Client
from tests.cli.command import classic_member, consumer_member, records
from tests.live import Muster

GOLDEN = Path(__file__).parent / "golden"
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


class Shell:
    """Runs the commands of a transcript in this process, against one server."""

    def __init__(self, capsys: pytest.CaptureFixture[str], muster: Muster | None, folder: Path) -> None:
        self._capsys = capsys
        self._typed = folder / "typed"
        self._names = {str(GOLDEN): "$GOLDEN", str(self._typed): "/dev/stdin"}
        if muster is not None:
            self._names |= {
                str(muster.data_dir): "$DATA",
                muster.kafka: "127.0.0.1:KAFKA",
                muster.ready["admin"].removeprefix("http://"): "127.0.0.1:ADMIN",
            }
        self._environment = {"COLUMNS": "100"}
        if muster is not None:
            self._environment |= {"MUSTER_BOOTSTRAP": muster.kafka, "MUSTER_ADMIN": muster.ready["admin"]}

    def run(self, line: str) -> Iterator[str]:
        """The lines that a command prints, and its exit code unless 0."""
        typed, pipe, command = line.rpartition(" | ")
        text = typed.removeprefix("printf '").removesuffix("'").encode().decode("unicode_escape") if pipe else ""
        for told, name in self._names.items():
            command = command.replace(name, told)
        self._typed.write_text(text)
        words = shlex.split(command)
        variables = [word for word in words[: words.index("muster")] if "=" in word]
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (self._environment | dict(word.split("=", 1) for word in variables)).items():
                patch.setenv(name, value)
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
            self._capsys.readouterr()
            try:
                code: object = main(words[len(variables) + 1 :])
            except SystemExit as ended:
                code = ended.code
            printed = self._capsys.readouterr()
        yield from (self._neutral(one) for one in printed.out.splitlines())
        yield from (self._neutral(f"! {one}") for one in printed.err.splitlines())
        if code:
            yield f"exit code {code}"

    def _neutral(self, line: str) -> str:
        """The line without what differs from run to run."""
        for told, name in self._names.items():
            line = line.replace(told, name)
        line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z", "<time>", line)
        line = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>", line)
        line = re.sub(r"\+\d\.\d{3}s", "+<seconds>", line)
        line = re.sub(r'(_ms": )1[789]\d{11}\b', r"\1<ms>", line)
        line = re.sub(r'("timestamp": )1[789]\d{11}\b', r"\1<ms>", line)
        line = re.sub(r"(timestamp=)1[789]\d{11}\b", r"\1<ms>", line)
        line = re.sub(r"""(crc32c(?:=|": "))[0-9a-f]{8}""", r"\1<crc>", line)
        return re.sub(r"\b[0-9a-f]{32}\b", "<topic id>", line).rstrip()


def play(page: str, shell: Shell) -> str:
    """The transcript that the commands of this one give now; lines before the first command are kept."""
    lines: list[str] = []
    is_head = True
    for line in page.splitlines():
        if line.startswith(("$ ", "# ")) or is_head:
            is_head &= not line.startswith("$ ")
            lines += ["", line] if line.startswith(("$ ", "# ")) and lines else [line]
        if line.startswith("$ "):
            lines += shell.run(line.removeprefix("$ "))
    return "\n".join(lines) + "\n"


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
