"""The transcripts in docs/usage.md that need no members: each is run again, and prints what the page shows."""

import re
from pathlib import Path

import pytest

from tests.cli.transcripts import Shell, play
from tests.live import Muster

PAGE = Path(__file__).parents[2] / "docs" / "usage.md"
COMMANDS = ("muster topics create orders", "muster decode 0000")


def find_transcript(command: str) -> str:
    blocks = re.findall(r"^```\w*\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if block.startswith("$ ") and command in block]
    return "\n\n".join(re.split(r"\n(?=\$ )", found.rstrip("\n"))) + "\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_transcript_is_what_the_commands_print(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    transcript = find_transcript(command)
    with Muster(tmp_path, "--ephemeral") as server:
        assert play(transcript, Shell(capsys, server, tmp_path)) == transcript
