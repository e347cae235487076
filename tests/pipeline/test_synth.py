"""Logs that are made up: the same for the same seed, in whatever process."""

import subprocess
import sys
from pathlib import Path

WRITE = """
import sys
from pathlib import Path
from pipeline.synth import Plan, write_logs
write_logs(Path(sys.argv[1]), Plan(seed=int(sys.argv[2]), records=300))
"""


def write_in_a_process(directory: Path, seed: int, salt: int) -> list[bytes]:
    """Make up logs in a process that salts the hashes of texts so, and return their bytes."""
    command = [sys.executable, "-c", WRITE, str(directory), str(seed)]
    subprocess.run(command, check=True, env={"PYTHONHASHSEED": str(salt), "PYTHONPATH": str(Path(__file__).parents[2])})
    return [path.read_bytes() for path in sorted(directory.rglob("*.log"))]


def test_a_seed_makes_the_same_logs_in_each_process(tmp_path: Path) -> None:
    first = write_in_a_process(tmp_path / "a", 1, salt=1)
    assert first and first == write_in_a_process(tmp_path / "b", 1, salt=2)
    assert first != write_in_a_process(tmp_path / "c", 2, salt=1)
