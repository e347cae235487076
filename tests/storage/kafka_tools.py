"""Apache Kafka's own reader on what Muster writes: `python -m tests.storage.kafka_tools JARS [--record]`.

JARS is a directory with the jars of kafka-tools 4.3.1 and what it depends on; Java 17 or newer must be there. It
writes a small log (offsets, groups, tombstones, transactions, a compaction), runs `kafka.tools.DumpLogSegments` on
its segments and indexes, and compares with the recording in `tests/storage/data/muster`, or makes it. The test
without Java reads the recording.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from coordinator.core import records
from coordinator.core.records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from protocol.record_batch import encode, encode_marker
from protocol.records import EndMarker, Record
from storage import cleaner
from storage.log import Log, LogConfig
from storage.real_files import RealFiles

RECORDING = Path(__file__).parent / "data" / "muster"
NOW_MS = 1_700_000_000_000


def offset(group: str, partition: int, value: int | None, at: int, metadata: str = "") -> Record:
    fact = None if value is None else OffsetCommitValue(value, 5, metadata, NOW_MS + at)
    return record(OffsetCommitKey(group, "orders", partition), fact, at)


def record(key: records.Key, value: records.Value | None, at: int) -> Record:
    return Record(*records.encode(records.Record(key, value)), timestamp=NOW_MS + at)


def write(directory: Path) -> None:
    """The same bytes each time: two segments that were compacted, one that was not, and their indexes."""
    config = LogConfig(segment_bytes=1200, index_interval_bytes=100, delete_retention_ms=60_000)
    log = Log.open(RealFiles(), str(directory), config)
    for at in range(12):
        log.append(encode([offset("payments", partition, 10 * at + partition, at, "noted") for partition in range(3)]))
    log.append(encode([offset("gone", 0, 7, 20)]))
    log.append(encode([offset("gone", 0, None, 21), record(GroupMetadataKey("gone"), None, 21)]))
    group = GroupMetadataValue("consumer", 3, None, None, NOW_MS + 22, ())
    log.append(encode([record(GroupMetadataKey("payments"), group, 22)]))
    for producer_id, commits in ((1000, True), (1001, False)):
        facts = [offset(f"txn-{producer_id}", 0, 99, 30)]
        log.append(encode(facts, producer_id=producer_id, producer_epoch=2, transactional=True))
        log.append(encode_marker(EndMarker(commits, 4), NOW_MS + 31, producer_id=producer_id, producer_epoch=2))
    cleaner.run(log, NOW_MS + 1000)
    for at in range(40, 46):
        log.append([encode([offset("payments", 0, at, at)]), encode([offset("simple", 1, at, at)])])
    log.append(encode([offset("txn-1002", 0, 1, 50)], producer_id=1002, producer_epoch=0, transactional=True))
    log.append(encode_marker(EndMarker(False), NOW_MS + 51, producer_id=1002, producer_epoch=0))
    log.close()


def dump(jars: Path, directory: Path, records_decoder: str = "--offsets-decoder") -> str:
    """What Kafka's tool prints of every file, without the directory's name."""
    text = ""
    for suffix in ("log", "index", "timeindex", "txnindex"):
        files = sorted(str(path) for path in directory.glob(f"*.{suffix}"))
        if files:
            decoder = [records_decoder] if suffix == "log" else []
            command = [
                "java",
                "-cp",
                f"{jars}/*",
                "org.apache.kafka.tools.DumpLogSegments",
                *decoder,
                "--files",
                ",".join(files),
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
            text += done.stdout
    return text.replace(f"{directory}/", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.splitlines()[0])
    parser.add_argument("jars", type=Path)
    parser.add_argument("--record", action="store_true", help="make the recording anew")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / "__consumer_offsets-0"
        write(directory)
        said = dump(arguments.jars, directory)
        if arguments.record:
            shutil.rmtree(RECORDING, ignore_errors=True)
            shutil.copytree(directory, RECORDING / directory.name)
            (RECORDING / "dump.txt").write_text(said)
    print(said)
    if said != (RECORDING / "dump.txt").read_text():
        print("differs from the recording", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
