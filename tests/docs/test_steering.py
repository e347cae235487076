"""The examples of docs/steering.md run as they stand, one after the other, against one server."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.live import Muster, server_fixture

PAGE = (Path(__file__).parents[2] / "docs" / "steering.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


muster = server_fixture("--ephemeral", "--brokers=3", "--topic=orders:4", "--set=journal.max.bytes=16777216")


def aim(text: str, muster: Muster) -> str:
    """The example, asking the server of the test."""
    return text.replace("http://127.0.0.1:8092", str(muster.ready["admin"]))


def test_the_examples_in_python(muster: Muster, capsys: pytest.CaptureFixture[str]) -> None:
    scope: dict[str, object] = {}
    examples = [text for language, text in BLOCKS if language == "python"]
    assert len(examples) >= 6
    for example in examples:
        exec(aim(example, muster), scope)
    printed = capsys.readouterr().out
    assert "'offsets': {'shop': {'orders': {'0': 5, '1': 0}}}" in printed


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_examples_in_a_shell(muster: Muster, tmp_path: Path) -> None:
    (scenario,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "lost.toml").write_text(scenario)
    lines = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines() if "curl" in line]
    assert len(lines) >= 8
    for line in lines:
        command = aim(line.replace("curl ", "curl -sS -f ", 1), muster)
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert (tmp_path / "shop.pcapng").read_bytes()[:4] == b"\n\r\r\n"


def test_the_calls_are_in_the_openapi_document(muster: Muster) -> None:
    paths = json.loads(muster.get("/v1/openapi.json"))["paths"]
    for method, path in re.findall(r"`([A-Z]+) (/v1[^ ?`]*)", PAGE):
        assert path == "/v1/openapi.json" or method.lower() in paths[path], f"{method} {path}"
