"""docs/securing.md, run from its first line to its last in a shell."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.live import WAIT_SECONDS
from tests.ports import reserve_ports

INSTALL = """.venv/bin/pip install -q -e '.[security]'
"""
PAGE = (Path(__file__).parents[2] / "docs" / "securing.md").read_text("utf-8")


def test_the_page_leads_from_an_open_server_to_a_secure_one(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "muster"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m coordinator "$@"\n')
    command.chmod(0o755)
    with reserve_ports(0) as (port,):
        run_page(tmp_path, command, port)


def run_page(tmp_path: Path, command: Path, port: int) -> None:
    script = "set -e\n" + "\n".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    script = script.replace("127.0.0.1:9092", f"127.0.0.1:{port}").replace("127.0.0.1:8092", "127.0.0.1:0")
    assert INSTALL in script
    script = script.replace(INSTALL, "")  # the tests have it
    script = script.replace("ready.json &", "ready.json > muster.log 2>&1 & echo $! > pid")
    environment = os.environ | {
        "PATH": f"{command.parent}:{os.environ['PATH']}", "MUSTER_BOOTSTRAP": f"127.0.0.1:{port}",
    }  # fmt: skip
    try:
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS
        )
    finally:
        if (tmp_path / "pid").exists():
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert {"created orders", "set till", "set web", "1 record written to orders", "tea"} <= set(lines), done
    assert lines[-1] == "till may not write"
    assert "this user may not use the topic (TOPIC_AUTHORIZATION_FAILED)" in done.stderr
    ready = (tmp_path / "muster.log").read_text().splitlines()[0]
    assert f"kafka=127.0.0.1:{port} protocol=SASL_SSL admin=" in ready
    private = ("users.txt", "admin.properties", "till.properties", "muster.toml", "muster-data", "certificates")
    assert {name: oct((tmp_path / name).stat().st_mode & 0o077) for name in private} == dict.fromkeys(private, "0o0")
