"""The commands of docs/backup.md, run on the data directory of a server that runs."""

import re
import subprocess
import sys
from pathlib import Path

from coordinator.cli import main
from tests.live import WAIT_SECONDS, Muster

PAGE = (Path(__file__).parents[2] / "docs" / "backup.md").read_text("utf-8")


def test_the_copy_verifies(tmp_path: Path) -> None:
    (script,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    with Muster(tmp_path, "--topic", "orders:1") as server:
        assert main(["offsets", "set", "shop", "orders:0=0", "--bootstrap-server", server.kafka]) == 0
        script = script.replace("/var/lib/muster", str(server.data_dir)).replace("/backups", str(tmp_path / "backups"))
        script = script.replace("muster log", f"'{sys.executable}' -m coordinator log")
        done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
    (copy,) = (tmp_path / "backups").iterdir()
    copied = {path.name for path in copy.iterdir()}
    assert {"__muster_catalog-0", "muster.format"} < copied
    assert any(name.startswith("__consumer_offsets-") for name in copied)
