"""R12: 8,000 mutated frames, from strangers and from clients that are authenticated, disturb nobody else."""

from pathlib import Path

from tests.server.live_fuzz import fuzz
from tests.server.secured import secured_server

SEED = 20261122
FRAMES = 8_000  # `python -m tests.server.live_fuzz` sends two millions


def test_mutated_frames_disturb_nobody_else(tmp_path: Path) -> None:
    with secured_server(tmp_path, "--log-level", "error") as muster:
        counts = fuzz(muster, FRAMES, SEED)
        assert counts.frames >= FRAMES
        assert counts.connections > 100, "frames that cannot be read close their connections"
        assert muster.metric("muster_internal_errors_total") == 0
        assert muster.metric("muster_connections_refused_total") > 100
