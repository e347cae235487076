"""Kafka and Muster read each other's logs: recordings of a broker, and of Kafka's own tool on what Muster writes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.logdump import lines_of
from coordinator.core import records
from coordinator.core.kinds.share.kind import SHARE as SHARE_GROUPS
from coordinator.core.records import OffsetCommitKey
from storage import cleaner
from storage.log import Log, scan
from storage.real_files import RealFiles
from tests.storage import kafka_tools
from tests.storage.history import Replay

DATA = Path(__file__).parent / "data"
BROKER = DATA / "kafka-4.3.1"
STAGES = ("live", "compacted")

SHARE = SHARE_GROUPS.keys.keys()


@pytest.fixture(params=STAGES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A copy of one stage of the recording: opening a log may write to its directory."""
    shutil.copytree(BROKER / request.param, tmp_path / request.param)
    return request.param, tmp_path / request.param


def logs(directory: Path) -> list[Log]:
    return [Log.open(RealFiles(), str(path)) for path in sorted(directory.iterdir())]


def committed_offsets(log: Log) -> dict[str, dict[str, Any]]:
    """The committed offsets by group, as the simplest possible coordinator would know them."""
    groups: dict[str, dict[str, Any]] = {}
    for record in Replay().apply(scan(log)).values.values():
        fact = records.decode(record.key or b"", record.value)
        if isinstance(fact.key, OffsetCommitKey) and fact.value is not None:
            metadata = fact.value.metadata.removesuffix("\0")  # librdkafka commits it, and does not show it
            offsets = groups.setdefault(fact.key.group, {})
            offsets[f"{fact.key.topic}-{fact.key.partition}"] = {"offset": fact.value.offset, "metadata": metadata}
    return groups


def reported(stage: str) -> dict[str, dict[str, Any]]:
    told = json.loads((BROKER / f"{stage}.json").read_text())
    return {
        group: {name: {"offset": p["offset"], "metadata": p["metadata"]} for name, p in facts["offsets"].items()}
        for group, facts in told.items()
        if facts["offsets"]
    }


def test_the_offsets_that_the_broker_reported_are_in_its_segments(stage: tuple[str, Path]) -> None:
    found = {group: offsets for log in logs(stage[1]) for group, offsets in committed_offsets(log).items()}
    assert found == reported(stage[0])


def test_they_are_there_after_our_own_compaction_too(stage: tuple[str, Path]) -> None:
    before = [SHARE.isdisjoint({type(k) for k in keys(log)}) for log in logs(stage[1])]
    for log in logs(stage[1]):
        size = log.size
        cleaner.run(log, 1_900_000_000_000)
        assert log.size <= size
        log.close()
    opened = logs(stage[1])
    assert {g: o for log in opened for g, o in committed_offsets(log).items()} == reported(stage[0])
    after = [SHARE.isdisjoint({type(k) for k in keys(log)}) for log in opened]
    assert after == before, "share groups are kept"
    assert not all(before)


def keys(log: Log) -> list[Any]:
    return [records.decode(r.key or b"", r.value).key for h, batch in scan(log) if not h.is_control for r in batch]


def test_its_epoch_and_its_open_transaction_go_on(stage: tuple[str, Path]) -> None:
    opened = logs(stage[1])
    assert all(log.leader_epoch == 0 for log in opened)
    undecided = [log for log in opened if log.last_stable_offset < log.end_offset]
    assert len(undecided) == 1, "txn-open is in one of the partitions"


_RECORD = re.compile(r"\| offset: (-?\d+) CreateTime: (-?\d+) keySize: (-?\d+) valueSize: (-?\d+)")
_BATCH = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*?position: (\d+) .*?size: (\d+).*?crc: (\d+)")


def said_by_kafka(text: str) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Batches and records as `DumpLogSegments` prints them; everything must be valid in its eyes."""
    assert "isvalid: false" not in text
    assert "Found" not in text, "it finds fault"
    batches = [tuple(int(n) for n in match.groups()) for match in _BATCH.finditer(text)]
    return batches, [tuple(int(n) for n in match.groups()) for match in _RECORD.finditer(text)]


def said_by_us(directory: Path) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    batches: list[tuple[int, ...]] = []
    facts: list[tuple[int, ...]] = []
    for log in logs(directory):
        for found in log.batches():
            h = found.header
            batches.append((h.base_offset, h.last_offset, h.count, found.position, h.size, h.crc))
        for _, batch in scan(log):
            sizes = [(r.offset, r.timestamp, _size(r.key), _size(r.value)) for r in batch]
            facts += sizes
    return batches, facts


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def test_we_read_what_kafka_reads(stage: tuple[str, Path]) -> None:
    assert said_by_us(stage[1]) == said_by_kafka((BROKER / f"{stage[0]}.dump.txt").read_text())


def test_we_write_what_the_recording_holds(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-0"
    kafka_tools.write(directory)
    recorded = kafka_tools.RECORDING / directory.name
    assert sorted(p.name for p in directory.iterdir()) == sorted(p.name for p in recorded.iterdir())
    for path in directory.iterdir():
        assert path.read_bytes() == (recorded / path.name).read_bytes(), path.name


@pytest.mark.rule("K-348 R-046")
def test_kafka_reads_what_we_write(tmp_path: Path) -> None:
    shutil.copytree(kafka_tools.RECORDING / "__consumer_offsets-0", tmp_path / "in" / "__consumer_offsets-0")
    text = (kafka_tools.RECORDING / "dump.txt").read_text()
    assert said_by_kafka(text) == said_by_us(tmp_path / "in")


def test_kafka_decodes_our_keys_and_values_to_ours(tmp_path: Path) -> None:
    text = (kafka_tools.RECORDING / "dump.txt").read_text()
    theirs = []
    for line in text.splitlines():
        if match := re.search(r'key: (\{"type":"1".*?\}\}) payload: (\{.*\})', line):
            key, value = json.loads(match[1])["data"], json.loads(match[2])["data"]
            theirs.append((key["group"], key["topic"], key["partition"], value["offset"], value["metadata"]))
    ours = []
    for path in sorted((kafka_tools.RECORDING / "__consumer_offsets-0").glob("*.log")):
        for line in lines_of(path):
            if line.get("type") == "OffsetCommit" and line["value"] is not None:
                key, value = line["key"], line["value"]
                ours.append((key["group"], key["topic"], key["partition"], value["offset"], value["metadata"]))
    assert ours == theirs
    assert len(ours) > 15
