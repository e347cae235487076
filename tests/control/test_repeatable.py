"""R8: the same seed and the same requests give the same responses, events and bytes of the logs."""

import os
import subprocess
import sys

from tests.control.repeat import play

SEEDS = range(6)


def test_a_run_can_be_repeated() -> None:
    runs = [play(seed) for seed in SEEDS]
    assert [play(seed) for seed in SEEDS] == runs
    assert len(set(runs)) == len(SEEDS), "and another seed gives another run"


def test_the_order_of_hashes_does_not_matter() -> None:
    """Python hashes strings by a seed of each process: nothing may depend on it."""
    results = set()
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.control.repeat", "3"]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        results.add(subprocess.run(command, env=environment, capture_output=True, check=True, timeout=240).stdout)
    assert results == {play(3).encode() + b"\n"}
