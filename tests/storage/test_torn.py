"""What a start takes for a torn write, and what it does not: on logs that were not closed, in every codec."""

from __future__ import annotations

import logging
import random
import zlib

import msgspec
import pytest

from protocol import record_batch
from protocol.compression import Compression
from protocol.record_batch import encode, header_at, seal
from protocol.records import Record
from storage import mending
from storage.layout import DamagedLog
from storage.log import Log, LogConfig
from tests.storage.compressing import COMPRESS
from tests.storage.crashing_disk import CrashingDisk
from tests.storage.repairing import lost, repaired, values

DIRECTORY = "data/orders-0"
PATH = f"{DIRECTORY}/{0:020d}.log"
CODECS = list(Compression)


def in_codec(batch: bytes, codec: Compression) -> bytes:
    body = bytes(COMPRESS[codec](batch[record_batch.HEADER_BYTES :]))
    return seal(msgspec.structs.replace(header_at(batch), attributes=codec.value), body)


def killed(codec: Compression = Compression.NONE, batches: int = 5, records: int = 40) -> CrashingDisk:
    """A log that was not closed."""
    disk = CrashingDisk()
    log = Log.open(disk, DIRECTORY)
    for number in range(batches):
        facts = [Record(b"key %d" % n, b"value %d" % number, (), 0, 1000) for n in range(records)]
        log.append(in_codec(encode(facts), codec))
    return disk.copy()


def refused(disk: CrashingDisk) -> DamagedLog:
    before = disk.contents()
    with pytest.raises(DamagedLog) as damage:
        Log.open(disk, DIRECTORY)
    assert disk.contents() == before, "nothing is changed"
    return damage.value


@pytest.mark.parametrize("codec", CODECS)
def test_a_flipped_bit_is_never_a_torn_write(codec: Compression) -> None:
    """Anywhere: also in the last batch, and in fields that no checksum covers."""
    whole = killed(codec)
    content, end = whole.contents()[PATH], Log.open(whole.copy(), DIRECTORY).end_offset
    dice = random.Random(codec.value)
    last = len(content) - len(content) // 6
    for at in [*dice.sample(range(len(content)), 60), *dice.sample(range(last, len(content)), 60)]:
        data = bytearray(content)
        data[at] ^= 1 << dice.randrange(8)
        disk = whole.copy()
        disk.put(PATH, bytes(data))
        assert refused(disk).path == PATH, at
        plan, again = repaired(disk)
        assert plan.losses == [], f"byte {at}: one bit is proved by the checksum"
        assert (again.end_offset, len(values(again))) == (end, end)


@pytest.mark.parametrize("codec", CODECS)
def test_what_a_crash_has_torn_is_kept_beside_the_log_and_told(
    codec: Compression, caplog: pytest.LogCaptureFixture
) -> None:
    whole = killed(codec)
    content = whole.contents()[PATH]
    size = header_at(content[-(len(content) // 5) :]).size if codec == Compression.NONE else None
    for cut in (1, 20, 45):
        disk = whole.copy()
        disk.put(PATH, content[:-cut])
        caplog.clear()
        with caplog.at_level(logging.WARNING, "muster.storage"):
            log = Log.open(disk, DIRECTORY)
        assert log.end_offset == 160
        assert log.cut is not None
        torn = disk.contents()[f"{PATH}.torn.0"]
        assert disk.contents()[PATH] + torn == content[:-cut]
        assert size is None or len(torn) == size - cut
        assert f"{PATH}:{log.cut.position}" in caplog.text
        log.append(encode([Record(None, b"new")]))
        assert Log.open(disk.copy(), DIRECTORY).cut is None


def test_a_second_torn_write_does_not_replace_what_was_kept_of_the_first() -> None:
    disk = killed()
    for number in range(2):
        disk.put(PATH, disk.contents()[PATH] + bytes([number]) * 70)
        Log.open(disk, DIRECTORY)
    assert [disk.contents()[f"{PATH}.torn.{number}"][:1] for number in range(2)] == [b"\0", b"\1"]


def test_batches_behind_records_that_take_less_than_a_byte_are_seen() -> None:
    """60,000 empty records a batch: the offsets go up faster than the bytes."""
    disk = CrashingDisk()
    log = Log.open(disk, DIRECTORY)
    for _ in range(3):
        log.append(in_codec(encode([Record(None, None)] * 60_000), Compression.ZSTD))
    assert log.size < log.end_offset
    data = bytearray(disk.contents()[PATH])
    data[header_at(bytes(data)).size + 300] ^= 0b1101
    disk = disk.copy()
    disk.put(PATH, bytes(data))
    assert "a whole batch of offset 120000 follows" in refused(disk).reason
    assert lost(repaired(disk)[0]) == [(60_000, 120_000)]


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_an_active_segment_that_is_gone_is_damage(how: str) -> None:
    for config in (LogConfig(), LogConfig(segment_bytes=4000)):
        disk = CrashingDisk()
        log = Log.open(disk, DIRECTORY, config)
        for _ in range(8):
            log.append(encode([Record(b"key", bytes(700))]))
        path, first = log.segments[-1].path, log.segments[-1].base_offset
        disk = disk.copy()
        if how == "removed":
            disk.remove(path)
        else:
            disk.put(path, b"")
        assert refused(disk).path == path
        plan, mended = repaired(disk)
        assert plan.losses[0].first_offset == first
        assert mended.end_offset >= first


@pytest.mark.parametrize("batches", [0, 1])
def test_a_rewritten_segment_that_is_empty_or_cut_off_does_not_take_the_place_of_a_full_one(batches: int) -> None:
    disk = killed()
    size = header_at(disk.contents()[PATH]).size
    disk.put(f"{PATH}.swap", disk.contents()[PATH][: batches * (2 * size - 1)])
    told = f"a batch of {size} bytes is cut off after {size - 1}" if batches else "the rewritten segment is empty"
    damage = refused(disk)
    assert (damage.position, damage.reason) == (batches * size, told)
    plan, mended = repaired(disk)
    assert (plan.is_needed, plan.losses, mended.end_offset) == (True, [], 200)


@pytest.mark.parametrize("batches", [1, 4])
def test_a_rewritten_segment_that_ends_elsewhere_does_not_take_the_place_of_its_source(batches: int) -> None:
    """It is whole up to its end, as after a write that was cut off between two batches."""
    disk = killed()
    content = disk.contents()[PATH]
    disk.put(f"{PATH}.swap", content[: batches * header_at(content).size])
    damage = refused(disk)
    assert damage.reason == f"the rewritten segment ends before offset {40 * batches}, and {PATH} before 200"
    plan, mended = repaired(disk)
    assert (plan.is_needed, plan.losses, mended.end_offset) == (True, [], 200)


def test_a_repair_brings_back_what_an_unreadable_rewrite_was_to_replace() -> None:
    disk = CrashingDisk()
    log = Log.open(disk, DIRECTORY, LogConfig(segment_bytes=300))
    for number in range(12):
        log.append(encode([Record(b"key", b"%d" % number * 40)]))
    names = [segment.path for segment in log.segments]
    disk = disk.copy()
    for name in names[1:3]:
        disk.rename(name, f"{name}.deleted")
    disk.put(f"{names[0]}.swap", b"")
    plan, mended = repaired(disk)
    assert (plan.losses, len(values(mended))) == ([], 12)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("offset", [0, 4711, 2**40])
def test_a_log_from_before_kafka_0_11_is_refused_and_not_cut(magic: int, offset: int) -> None:
    body = bytes([magic, 0]) + (bytes(8) if magic else b"") + b"\xff\xff\xff\xff" + (5).to_bytes(4, "big") + b"value"
    message = zlib.crc32(body).to_bytes(4, "big") + body
    disk = CrashingDisk()
    disk.put(PATH, offset.to_bytes(8, "big") + len(message).to_bytes(4, "big") + message)
    assert f"a message of format {magic}, from before Kafka 0.11" in refused(disk).reason


@pytest.mark.parametrize("size", [1, 2, 100, 5000])
def test_the_one_bit_that_explains_a_checksum_is_found(size: int) -> None:
    from crc32c import crc32c

    data = random.Random(size).randbytes(size)
    for at, bit in [(0, 0), (size - 1, 7), (size // 2, 3)]:
        other = bytearray(data)
        other[at] ^= 1 << bit
        assert mending.find_flipped_bit(crc32c(data) ^ crc32c(bytes(other)), size) == (at, 1 << bit)
    assert mending.find_flipped_bit(crc32c(data) ^ crc32c(bytes(size) + b"?"), size) is None
