"""Every line and every branch of `protocol/` is run by its tests.

The same with all of them, which takes a minute: `pytest tests/protocol --cov=protocol --cov-branch --cov-fail-under=100`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
AT_RANDOM = {"test_oracle.py", "test_fuzz.py", "test_hostile.py", "test_round_trip.py"}
"""Frames by the thousand. They look for what nobody has thought of, and no line may depend on what they find."""
IN_A_CHILD = "test_amplification.py::test_r15_the_worst_legal_frame_of_each_api_costs_at_most_16_times_its_bytes"


ELSEWHERE = ("server/test_repeated_requests.py", "core/test_offset_records.py")
"""Tests of `repeated_rows` and `repeated_records` through a connection, and of `PlainBatch` through the records of commits."""


@pytest.mark.long
def test_all_lines_and_branches_are_covered_by_the_cases_that_are_written_down(tmp_path: Path) -> None:
    left_out = {*AT_RANDOM, Path(__file__).name}
    assert left_out <= {path.name for path in HERE.glob("test_*.py")}, "the names above are those of files"
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", str(HERE)]
    command += [str(HERE.parent / name) for name in ELSEWHERE]
    command += [f"--ignore={HERE / name}" for name in sorted(left_out)]
    command += [f"--deselect=tests/protocol/{IN_A_CHILD}"]
    command += ["--cov=protocol", "--cov-branch", "--cov-fail-under=100", "--cov-report=term-missing:skip-covered"]
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV_"))}
    run = subprocess.run(
        command,
        cwd=ROOT,
        env=outside | {"COVERAGE_FILE": str(tmp_path / "coverage")},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
