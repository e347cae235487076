"""Transcripts of commands: play them, and compare or write what they print."""

import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli import main
from tests.live import Muster

GOLDEN = Path(__file__).parent / "golden"


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
        line = re.sub(r"(\d{4}-\d\d-\d\d )?\b\d\d:\d\d:\d\dZ", "<time>", line)
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
