"""`verify` reads copies of a log as one log, and never agrees about nothing."""

from pathlib import Path

import pytest

from pipeline.decode.layout import TOPIC, log_dirs
from pipeline.decode.replay import merged
from pipeline.jobs.verify import verify
from pipeline.synth import Writer, commit


def copies(root: Path) -> None:
    """Broker b has more records, so that the last directory by name is not the one that counts, nor is the first."""
    for broker, length in (("a", 3), ("b", 8), ("c", 5)):
        writer = Writer(root / broker / f"{TOPIC}-0")
        for n in range(length):
            writer.append([commit(("g", "t", n % 2), n, 1000)])


def with_epoch(file: Path, epoch: int) -> None:
    """Another leader epoch in the first batch; no checksum covers it."""
    data = bytearray(file.read_bytes())
    data[12:16] = epoch.to_bytes(4, "big")
    file.write_bytes(data)


def test_copies_are_one_log(tmp_path: Path) -> None:
    copies(tmp_path)
    found = verify([str(tmp_path)])
    assert (found.logs, found.keys, found.equal) == (3, 2, True), found.differences


def test_of_a_record_the_highest_epoch_counts_then_the_first_name(tmp_path: Path) -> None:
    copies(tmp_path)
    with_epoch(next((tmp_path / "c").rglob("*.log")), 7)
    read = [(record.offset, batch.leader_epoch) for batch, record in merged(log_dirs([str(tmp_path)]))]
    assert read == [(0, 7), *((n, 0) for n in range(1, 8))]


def test_no_log_is_no_agreement(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no directory __consumer_offsets-<n>"):
        verify([str(tmp_path)])
