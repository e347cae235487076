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
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.records import Record
from storage.layout import DamagedLog
from storage.log import Log
from storage.memory_files import MemoryFiles
from tests import requests
from tests.dataplane.broker import batch
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


# -- a log that is gone with its directory -----------------------------------------------------------------------------


def commit(server: InMemory) -> None:
    answer = server.connect().ask(requests.commit("g", {"orders": {0: 7}}), 8)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def produce(server: InMemory, partition: int = 0) -> int:
    answer = server.connect().ask(requests.produce("orders", {partition: batch("a")}), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def lose(files: MemoryFiles, directory: str) -> None:
    for name in files.list(directory):
        files.remove(f"{directory}/{name}")
    files.remove_directory(directory)


def test_a_log_of_groups_that_is_gone_ends_the_start() -> None:
    files = MemoryFiles()
    commit(InMemory(files, **ONE))
    lose(files, OFFSETS)
    with pytest.raises(DamagedLog, match="missing") as damage:
        InMemory(files, **ONE)
    assert damage.value.path == OFFSETS
    assert not files.list(OFFSETS)


def test_a_log_of_a_topic_that_is_gone_closes_its_partition() -> None:
    files = MemoryFiles()
    server = InMemory(files, **ONE)
    assert [produce(server, partition) for partition in (0, 1)] == [0, 0]
    lose(files, "data/orders-0")
    again = InMemory(files, **ONE)
    assert "missing" in again.node.dataplane.closed_partitions["orders", 0]
    assert [produce(again, partition) for partition in (0, 1, 2)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0, 0]
    assert not files.list("data/orders-0")


def test_a_log_that_was_never_written_to_is_not_missing() -> None:
    files = MemoryFiles()
    InMemory(files, **ONE)
    InMemory(files, **ONE)


def test_a_log_that_the_catalog_does_not_know_is_noted_by_a_start() -> None:
    """As it is in a directory of an earlier version, and where a crash came between the log and the catalog."""
    files = MemoryFiles()
    InMemory(files, **ONE)
    Log.open(files, OFFSETS).append(record_batch.encode([Record(b"\0\x0bfuture", b"")]))
    InMemory(files, **ONE)
    lose(files, OFFSETS)
    with pytest.raises(DamagedLog, match="missing"):
        InMemory(files, **ONE)


def test_a_topic_that_was_deleted_and_made_anew_has_no_missing_log() -> None:
    files = MemoryFiles()
    server = InMemory(files, **ONE)
    assert produce(server) == ErrorCode.NONE
    server.connect().ask(DeleteTopicsRequest(topic_names=("orders",)), 5)
    assert not server.node.ledger.catalog.logs.get("orders")
    again = InMemory(files, **ONE)  # which makes it anew
    assert not again.node.dataplane.closed_partitions
    assert produce(again) == ErrorCode.NONE


@pytest.mark.parametrize("directory", [OFFSETS, "data/orders-0"])
def test_a_repair_says_which_log_is_gone_and_then_it_begins_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], directory: str
) -> None:
    files = MemoryFiles()
    server = InMemory(files, **ONE)
    commit(server)
    produce(server)
    lose(files, directory)
    copy_out(files, tmp_path)
    data, name = str(tmp_path / "data"), str(tmp_path / directory)
    assert muster_log("verify", data) == 3
    assert f"{name}:0: the log is missing" in capsys.readouterr().err
    assert muster_log("repair", data) == 3
    assert f"{name}: LOSES all records" in capsys.readouterr().out
    assert muster_log("verify", data) == 3, "nothing was changed"
    assert muster_log("repair", data, "--accept-loss") == 0
    assert muster_log("verify", data) == 0
    again = MemoryFiles()
    copy_in(tmp_path, again)
    server = InMemory(again, **ONE)
    commit(server)
    assert produce(server) == ErrorCode.NONE


def test_logs_of_another_broker_need_no_catalog() -> None:
    files = MemoryFiles()
    Log.open(files, OFFSETS).append(record_batch.encode([Record(b"\0\x0bfuture", b"")]))
    files.remove(f"{OFFSETS}/muster.checkpoint")
    InMemory(files, **ONE)
