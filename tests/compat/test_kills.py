"""R4: SIGKILL while released clients commit. A thousand rounds: `python -m tests.compat.kills --rounds 1000`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.compat.kills import kill_in_process

LAZY = """
# A server that answers what it has not yet written: what it appends is kept back until there is a page of it.
from storage import real_files

write, kept = real_files.RealFile.append, {}


def append(self, data):
    kept[self.path] = kept.get(self.path, b"") + data
    if len(kept[self.path]) >= 4096 or not self.path.endswith(".log") or "catalog" in self.path:
        write(self, kept.pop(self.path))


real_files.RealFile.append = append
"""


@pytest.mark.parametrize(("seed", "options"), [(1, ()), (2, ("--fsync",))], ids=["written", "synced"])
def test_no_acknowledged_commit_is_lost_with_the_process(seed: int, options: tuple[str, ...]) -> None:
    code, printed = kill_in_process(2, seed, *options)
    found = re.search(r"2 kills, ([\d,]+) acknowledged commits .* nothing lost", printed)
    assert code == 0 and found, printed
    assert int(found[1].replace(",", "")) >= 2 * 4


def test_a_server_that_answers_before_it_writes_is_found_out(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(LAZY)
    code, printed = kill_in_process(5, 3, path=tmp_path)
    assert code == 1
    lost = r"is committed, but \d+ was acknowledged|the log ends here, but was on the disk up to offset \d+"
    assert re.search(lost, printed), printed
