"""R4: SIGKILL while released clients commit. A thousand rounds: `python -m tests.compat.kills --rounds 1000`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat import kills

LAZY = """
# A server that answers what it has not yet written: what it appends is kept back until there is a page of it.
from storage import files

write, kept = files.RealFile.append, {}


def append(self, data):
    kept[self.path] = kept.get(self.path, b"") + data
    if len(kept[self.path]) >= 4096 or not self.path.endswith(".log") or "catalog" in self.path:
        write(self, kept.pop(self.path))


files.RealFile.append = append
"""


@pytest.mark.parametrize(("seed", "options"), [(1, ()), (2, ("--fsync",))], ids=["written", "synced"])
def test_no_acknowledged_commit_is_lost_with_the_process(tmp_path: Path, seed: int, options: tuple[str, ...]) -> None:
    assert kills.rounds(tmp_path, 4, seed, *options) >= 4 * 4


CAMPAIGN = """
import os, sys
from pathlib import Path
from tests.compat import kills
try:
    kills.rounds(Path(sys.argv[1]), 5, 3, environment={"PYTHONPATH": sys.argv[2]})
except AssertionError as found:
    print(found, flush=True)
os._exit(0)
"""


def test_a_server_that_answers_before_it_writes_is_found_out(tmp_path: Path) -> None:
    """In a process of its own: clients whose server is away do not end, and would go on looking for it."""
    (tmp_path / "sitecustomize.py").write_text(LAZY)
    command = [sys.executable, "-c", CAMPAIGN, str(tmp_path), f"{tmp_path}:{Path.cwd()}"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    lost = r"is committed, but \d+ was acknowledged|the log ends here, but was on the disk up to offset \d+"
    assert re.search(lost, told), told
