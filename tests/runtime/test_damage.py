"""Logs whose checksums are right and whose records are not: the start ends with one line that says where."""

from collections.abc import Callable

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
