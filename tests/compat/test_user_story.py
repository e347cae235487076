"""The story of docs/testing.md, against Muster."""

from pathlib import Path

import pytest

from tests.compat.user_story import expire, tell
from tests.live import Muster


@pytest.mark.long  # starts a client in a process of its own
def test_a_worker_that_hangs_is_replaced(tmp_path: Path) -> None:
    with Muster(tmp_path, "--ephemeral") as server:
        print(f"the story took {tell(server.kafka, expire(server.ready['admin'])):.2f} s")
