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
from storage import data_format
from storage.files import Files
from storage.layout import DamagedLog
from storage.log import Log
from storage.memory_files import MemoryFiles
from storage.real_files import RealFiles
from tests import requests
from tests.commands import Shell, shell_fixture
from tests.dataplane.broker import batch
from tests.server.in_memory import InMemory

OFFSETS, CATALOG = "data/__consumer_offsets-0", "data/__muster_catalog-0"
ONE = {"offsets_topic_num_partitions": 1}
FUTURE = record_batch.encode([Record(b"\0\x63future", b"")])  # of a kind that is not known yet
muster_log = shell_fixture("log")


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


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RealFiles:
    """The files of this directory, which the command `muster log` can read too."""
    monkeypatch.chdir(tmp_path)
    return RealFiles()


@pytest.mark.parametrize(
    ("directory", "batch", "reason"),
    [
        (OFFSETS, group_that_ends_before_its_member, "group g is deleted and still has members"),
        (OFFSETS, written(b"\0\1\0\1g", None), "offset"),
        (OFFSETS, written(None, b"v"), "ends too early"),
        (OFFSETS, written(b"\0\2\0\1g", b"\0\x09future"), "version"),
        (OFFSETS, records_cut_short, "record"),
        (CATALOG, written(None, b"v"), "a catalog record without a key"),
        (CATALOG, written(b"\0\x63", None), "the unknown kind 99"),
        (CATALOG, unknown_state, "77"),
        (CATALOG, records_cut_short, "record"),
    ],
)
def test_a_start_says_where_and_why_and_a_repair_what_is_lost(
    files: RealFiles, muster_log: Shell, directory: str, batch: Callable[[], bytes], reason: str
) -> None:
    InMemory(files, **ONE)
    log = Log.open(files, directory)
    first, position = log.end_offset, log.size
    log.append(batch())
    if directory == OFFSETS:
        log.append(FUTURE)
    end = log.end_offset
    log.close()
    with pytest.raises(DamagedLog, match=reason) as damage:
        InMemory(files, **ONE)
    assert (damage.value.path, damage.value.position) == (f"{directory}/{0:020d}.log", position)
    assert damage.value.reason.startswith(f"offset {first}: ")
    assert "\n" not in str(damage.value)
    assert f"offset {first}" in muster_log(3, "verify", directory)
    assert f"LOSES offset {first}" in muster_log(3, "repair", directory).replace("offsets", "offset")
    muster_log(0, "repair", directory, "--accept-loss")
    muster_log(0, "verify", directory)
    InMemory(files, **ONE)
    assert Log.open(files, directory).end_offset >= end


@pytest.mark.parametrize("left", [[], [f"{CATALOG}/muster.checkpoint"]])
def test_a_missing_catalog_beside_logs_of_this_server_is_damage(
    files: RealFiles, muster_log: Shell, left: list[str]
) -> None:
    """A start without it would make the topic of offsets anew, with another number of partitions. No repair makes it."""
    server = InMemory(files, **ONE)
    commit(server)
    server.node.close()
    for name in files.list(CATALOG):
        if f"{CATALOG}/{name}" not in left:
            files.remove(f"{CATALOG}/{name}")
    data_format.check(files, "data")
    for _ in range(2):
        with pytest.raises(DamagedLog, match="is missing"):
            InMemory(files, **ONE)
        for words in (("verify",), ("repair",), ("repair", "--accept-loss")):
            assert f"{CATALOG}:0: the catalog is missing" in muster_log(3, words[0], "data", *words[1:])


# -- a log that is gone with its directory -----------------------------------------------------------------------------


def commit(server: InMemory) -> None:
    answer = server.connect().ask(requests.commit("g", {"orders": {0: 7}}), 8)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def produce(server: InMemory, partition: int = 0) -> int:
    answer = server.connect().ask(requests.produce("orders", {partition: batch("a")}), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def lose(files: Files, directory: str) -> None:
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
    assert "missing" in again.node.world.dataplane.closed_partitions["orders", 0]
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
    Log.open(files, OFFSETS).append(FUTURE)
    InMemory(files, **ONE)
    lose(files, OFFSETS)
    with pytest.raises(DamagedLog, match="missing"):
        InMemory(files, **ONE)


def test_a_topic_that_was_deleted_and_made_anew_has_no_missing_log() -> None:
    files = MemoryFiles()
    server = InMemory(files, **ONE)
    assert produce(server) == ErrorCode.NONE
    server.connect().ask(DeleteTopicsRequest(topic_names=("orders",)), 5)
    assert not server.node.world.ledger.catalog.logs.get("orders")
    again = InMemory(files, **ONE)  # which makes it anew
    assert not again.node.world.dataplane.closed_partitions
    assert produce(again) == ErrorCode.NONE


@pytest.mark.parametrize("directory", [OFFSETS, "data/orders-0"])
def test_a_repair_says_which_log_is_gone_and_then_it_begins_anew(
    files: RealFiles, muster_log: Shell, directory: str
) -> None:
    server = InMemory(files, **ONE)
    commit(server)
    produce(server)
    server.node.close()
    lose(files, directory)
    assert f"{directory}:0: the log is missing" in muster_log(3, "verify", "data")
    assert f"{directory}: LOSES all records" in muster_log(3, "repair", "data")
    assert "the log is missing" in muster_log(3, "verify", "data"), "nothing was changed"
    muster_log(0, "repair", "data", "--accept-loss")
    muster_log(0, "verify", "data")
    server = InMemory(files, **ONE)
    commit(server)
    assert produce(server) == ErrorCode.NONE


def test_logs_of_another_broker_need_no_catalog() -> None:
    files = MemoryFiles()
    Log.open(files, OFFSETS).append(FUTURE)
    files.remove(f"{OFFSETS}/muster.checkpoint")
    InMemory(files, **ONE)
