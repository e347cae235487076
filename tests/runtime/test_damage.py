"""Logs whose checksums are right and whose records are not: the start ends with one line that says where."""

from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from coordinator.core import records
from coordinator.core.catalog import records as catalog
from coordinator.core.catalog.records import CatalogRecord, TransactionKey, TransactionValue
from coordinator.core.records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from protocol import record_batch
from protocol.records import Record
from storage.layout import DamagedLog
from storage.log import Log
from storage.memory_files import MemoryFiles
from tests.server.in_memory import InMemory
from tests.storage.test_repair import muster_log

OFFSETS, CATALOG = "data/__consumer_offsets-0", "data/__muster_catalog-0"
ONE = {"offsets_topic_num_partitions": 1}


def group_that_ends_before_its_member() -> bytes:
    facts = (
        records.Record(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(1)),
        records.Record(ConsumerGroupMemberMetadataKey("g", "m"), ConsumerGroupMemberMetadataValue()),
        records.Record(ConsumerGroupMetadataKey("g"), None),
    )
    return record_batch.encode([Record(*records.encode(fact), timestamp=1) for fact in facts])


def written(key: bytes | None, value: bytes | None) -> Callable[[], bytes]:
    return lambda: record_batch.encode([Record(key, value, timestamp=1)])


def unknown_state() -> bytes:
    fact = CatalogRecord(TransactionKey("x"), TransactionValue(state=77))
    return record_batch.encode([Record(*catalog.encode(fact), timestamp=1)])


def records_cut_short() -> bytes:
    """A batch whose checksum is that of what is left of its records."""
    batch = bytearray(record_batch.encode([Record(b"\0\1\0\1g", b"v" * 40, timestamp=1)]))
    del batch[-20:]
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize(
    ("directory", "batch", "reason"),
    [
        (OFFSETS, group_that_ends_before_its_member, "group g is deleted and still has members"),
        (OFFSETS, written(b"\0\1\0\1g", None), "offset"),
        (OFFSETS, written(None, b"v"), "ends too early"),
        (OFFSETS, records_cut_short, "record"),
        (CATALOG, written(None, b"v"), "a catalog record without a key"),
        (CATALOG, written(b"\0\x63", None), "the unknown kind 99"),
        (CATALOG, unknown_state, "77"),
        (CATALOG, records_cut_short, "record"),
    ],
)
def test_it_says_where_and_why(directory: str, batch: Callable[[], bytes], reason: str) -> None:
    files = MemoryFiles()
    server = InMemory(files, **ONE)
    log = Log.open(files, directory)
    first, position = log.end_offset, log.size
    log.append(batch())
    with pytest.raises(DamagedLog, match=reason) as damage:
        InMemory(files, **ONE)
    assert damage.value.path == f"{directory}/{0:020d}.log"
    assert damage.value.position == position
    assert damage.value.reason.startswith(f"offset {first}: ")
    assert "\n" not in str(damage.value)
    assert server.node.partitions[0].is_loaded


@pytest.mark.parametrize(
    ("directory", "batch"),
    [
        (OFFSETS, group_that_ends_before_its_member),
        (OFFSETS, written(b"\0\1\0\1g", None)),
        (OFFSETS, written(None, b"v")),
        (OFFSETS, written(b"\0\2\0\1g", b"\0\x09future")),
        (OFFSETS, records_cut_short),
        (CATALOG, written(None, b"v")),
        (CATALOG, written(b"\0\x63", None)),
        (CATALOG, unknown_state),
        (CATALOG, records_cut_short),
    ],
)
def test_a_repair_says_what_of_it_is_lost_and_then_the_server_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], directory: str, batch: Callable[[], bytes]
) -> None:
    files = MemoryFiles()
    InMemory(files, **ONE)
    log = Log.open(files, directory)
    good = record_batch.encode([Record(b"\0\x0bfuture", b"")]) if directory == OFFSETS else None
    first = log.append(batch())
    if good is not None:
        log.append(good)
    end = log.end_offset
    copy_out(files, tmp_path)
    name = str(tmp_path / directory)
    assert muster_log("verify", name) == 3
    assert f"offset {first}" in capsys.readouterr().err
    assert muster_log("repair", name) == 3
    assert f"LOSES offset {first}" in capsys.readouterr().out.replace("offsets", "offset")
    assert muster_log("repair", name, "--accept-loss") == 0
    assert muster_log("verify", name) == 0
    again = MemoryFiles()
    copy_in(tmp_path, again)
    InMemory(again, **ONE)
    assert Log.open(again, directory).end_offset >= end


def copy_out(files: MemoryFiles, root: Path) -> None:
    for directory in files.list("data"):
        (root / "data" / directory).mkdir(parents=True)
        for name in files.list(f"data/{directory}"):
            file = files.open(f"data/{directory}/{name}")
            (root / "data" / directory / name).write_bytes(file.pread(0, file.size()))


def copy_in(root: Path, files: MemoryFiles) -> None:
    for path in (root / "data").rglob("*"):
        if path.is_dir():
            files.make_directory(f"data/{path.name}")
        elif path.parent.name != "data":
            files.open(f"data/{path.parent.name}/{path.name}", create=True).append(path.read_bytes())


@pytest.mark.parametrize("left", [[], [f"{CATALOG}/muster.checkpoint"]])
def test_a_missing_catalog_beside_logs_of_this_server_is_damage(left: list[str]) -> None:
    """A start without it would make the topic of offsets anew, with another number of partitions."""
    files = MemoryFiles()
    server = InMemory(files, **ONE)
    Log.open(files, OFFSETS).append(record_batch.encode([Record(b"\0\x0bfuture", b"")]))
    del server
    for name in files.list(CATALOG):
        if f"{CATALOG}/{name}" not in left:
            files.remove(f"{CATALOG}/{name}")
    with pytest.raises(DamagedLog, match="missing"):
        InMemory(files, **ONE)


def test_logs_of_another_broker_need_no_catalog() -> None:
    files = MemoryFiles()
    Log.open(files, OFFSETS).append(record_batch.encode([Record(b"\0\x0bfuture", b"")]))
    files.remove(f"{OFFSETS}/muster.checkpoint")
    InMemory(files, **ONE)
