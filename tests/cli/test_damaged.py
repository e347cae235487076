"""`muster consume` on a topic whose log is damaged: one line, not a traceback."""

from pathlib import Path

import pytest

from coordinator.cli import main
from tests.cli.command import Command, records
from tests.live import Muster


def test_a_damaged_partition_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Muster(tmp_path, "--topic", "orders:1", may_fail=True) as server:
        for _ in range(3):
            records(server.kafka, "orders", {0: 1})
        server.stop()
        (segment,) = (server.data_dir / "orders-0").glob("*.log")
        data = bytearray(segment.read_bytes())
        data[70] ^= 0xFF
        segment.write_bytes(bytes(data))
        server.start()
        code, lines, complaint = Command(server.kafka, capsys)("consume", "orders")
        assert (code, lines, complaint.count("\n")) == (1, [], 1)
        assert complaint.startswith("muster consume: cannot read orders:0: ")
        assert main(["log", "verify", str(server.data_dir)]) == 3
