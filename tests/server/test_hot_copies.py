"""A copy of the data directory of a running server is a data directory, with all that was acknowledged before it."""

import contextlib
import shutil
import threading
from pathlib import Path

import pytest

from coordinator.client import Client
from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.records import Record
from tests.live import Muster
from tests.requests import commit, fetch, fetch_offsets, produce

# Compacts and rolls all the time, so that copies meet files that come and go.
BUSY = (
    "--topic", "orders:1", "--set", "offsets.topic.num.partitions=2", "--set", "offsets.topic.segment.bytes=4096",
    "--set", "offsets.topic.min.dirty.bytes=1", "--set", "log.segment.bytes=4096",
)  # fmt: skip


class Load(threading.Thread):
    """Commits and produces one number after the other, and knows the last one that was acknowledged."""

    def __init__(self, kafka: str) -> None:
        super().__init__()
        self._kafka = kafka
        self.done = 0
        self.is_ending = threading.Event()

    def run(self) -> None:
        with Client.to(self._kafka) as client:
            while not self.is_ending.is_set():
                number = self.done + 1
                batch = record_batch.encode([Record(None, b"%d" % number, timestamp=number)])
                written = client.ask(produce("orders", {0: batch}), up_to=12).responses[0].partition_responses[0]
                answer = client.ask(commit("shop", {"orders": {0: number}}), up_to=8)
                assert written.error_code == answer.topics[0].partitions[0].error_code == ErrorCode.NONE
                self.done = number


def copy_directory(source: Path, target: Path) -> None:
    """Copy in the order of docs/backup.md: checkpoints and the catalog first, which say what must be in the logs.

    A file that has vanished meanwhile is left out.
    """
    first = [path for path in source.rglob("*") if path.suffix == ".checkpoint" or "__muster_catalog-0" in path.parts]
    for path in (source, *(path for path in source.rglob("*") if path.is_dir()), *first):
        _copy(path, target / path.relative_to(source))
    for path in source.rglob("*"):
        if path not in first:
            _copy(path, target / path.relative_to(source))


def _copy(path: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


@pytest.mark.timeout(300)
def test_a_server_starts_from_a_copy_of_one_that_runs(tmp_path: Path) -> None:
    acknowledged = []
    with Muster(tmp_path, *BUSY) as server:
        load = Load(server.kafka)
        load.start()
        try:
            for number in range(4):
                while load.done < 100 * (number + 1):
                    load.join(0.01)
                    assert load.is_alive(), "the load goes on"
                acknowledged.append(load.done)
                copy_directory(server.data_dir, tmp_path / f"copy-{number}" / "data")
        finally:
            load.is_ending.set()
            load.join()
    for number, least in enumerate(acknowledged):
        with Muster(tmp_path / f"copy-{number}") as server, Client.to(server.kafka) as client:
            committed = client.ask(fetch_offsets("shop"), up_to=8).groups[0].topics[0].partitions[0].committed_offset
            assert committed >= least
            (partition,) = client.ask(fetch("orders", offset=least - 1), up_to=11).responses[0].partitions
            assert (partition.error_code, partition.high_watermark >= least) == (ErrorCode.NONE, True)
