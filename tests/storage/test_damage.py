"""What an operator is told of a damaged log: which file, at which byte, why, and which offset was expected there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import pytest
from crc32c import crc32c

from protocol.record_batch import HEADER_BYTES, encode, header_at, place, seal
from protocol.records import Record
from storage import checkpoint
from storage.layout import DamagedLog
from storage.log import Log, LogConfig
from storage.segment import OFFSET_MAX, file_name
from tests.storage.crashing_disk import CrashingDisk

DIRECTORY = "data/orders-0"
BATCH = encode([Record(b"k", bytes(100))] * 3)
SIZE = len(BATCH)
CONFIG = LogConfig(segment_bytes=2 * SIZE)  # two batches, six offsets each
SEGMENTS = [f"{DIRECTORY}/{file_name(base)}" for base in (0, 6, 12)]


def write_and_close() -> CrashingDisk:
    """Write a log of five batches and close it: all of it is known to be on the disk."""
    files = CrashingDisk()
    log = Log.open(files, DIRECTORY, CONFIG)
    for _ in range(5):
        log.append(BATCH)
    log.close()
    assert [segment.path for segment in log.segments] == SEGMENTS
    return files


def cut(path: str, size: int, files: CrashingDisk) -> None:
    files.put(path, files.contents()[path][:size])


def add(base_offset: int, leader_epoch: int, changes: dict[str, int], files: CrashingDisk) -> None:
    """Write one more batch behind the last one, as nobody would have written it."""
    header = msgspec.structs.replace(header_at(BATCH), **changes)
    batch = b"".join(place(seal(header, BATCH[HEADER_BYTES:]), base_offset, leader_epoch))
    files.put(SEGMENTS[2], files.contents()[SEGMENTS[2]] + batch)


def lose_all_of_0_1_0(files: CrashingDisk) -> None:
    """Remove the segments of a log whose checkpoint was written by 0.1.0, and names none of them."""
    body = files.contents()[f"{DIRECTORY}/{checkpoint.NAME}"].rpartition(b"segment_base")[0]
    files.put(f"{DIRECTORY}/{checkpoint.NAME}", body + f"crc32c {crc32c(body):08x}\n".encode())
    for path in SEGMENTS:
        files.remove(path)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (
            lose_all_of_0_1_0,
            f"{DIRECTORY}:0: the log ends here, but was on the disk up to offset 15",
        ),
        (
            lambda files: files.remove(SEGMENTS[0]),
            f"{DIRECTORY}:0: the segment that begins at or before offset 0 is missing (offset 0 was expected there)",
        ),
        (
            lambda files: files.remove(SEGMENTS[1]),
            f"{SEGMENTS[2]}:0: a segment is missing before this one (offset 6 was expected there)",
        ),
        (
            lambda files: files.remove(SEGMENTS[2]),
            f"{SEGMENTS[2]}:0: the segment that was appended to last is missing (offset 12 was expected there)",
        ),
        (
            lambda files: [files.remove(path) for path in SEGMENTS],
            f"{SEGMENTS[2]}:0: the segment that was appended to last is missing (offset 12 was expected there)",
        ),
        (
            lambda files: files.put(f"{DIRECTORY}/99999999999999999999.log", b""),
            f"{DIRECTORY}/99999999999999999999.log:0: the name tells an offset that is greater than any log's",
        ),
        (
            partial(cut, SEGMENTS[2], 0),
            f"{SEGMENTS[2]}:0: the log ends here, but was on the disk up to offset 15",
        ),
        (
            partial(cut, SEGMENTS[2], HEADER_BYTES - 1),
            f"{SEGMENTS[2]}:0: the header of a batch is cut off, which was on the disk (offset 12 was expected there)",
        ),
        (
            partial(cut, SEGMENTS[2], SIZE - 1),
            f"{SEGMENTS[2]}:0: a batch of {SIZE} bytes is cut off after {SIZE - 1}, which was on the disk"
            " (offset 12 was expected there)",
        ),
        (
            partial(add, 16, 0, {}),
            f"{SEGMENTS[2]}:{SIZE}: the base offset 16 contradicts its neighbours (offset 15 was expected there)",
        ),
        (
            partial(add, 15, 1, {}),
            f"{SEGMENTS[2]}:{SIZE}: the leader epoch 1 contradicts its neighbours (offset 15 was expected there)",
        ),
        (
            partial(add, 15, 0, {"last_offset_delta": -4}),
            f"{SEGMENTS[2]}:{SIZE}: a batch that ends 4 offsets before it begins (offset 15 was expected there)",
        ),
    ],
)
def test_damage_is_told_with_its_place(harm: Callable[[CrashingDisk], None], told: str) -> None:
    files = write_and_close()
    harm(files)
    with pytest.raises(DamagedLog) as damage:
        Log.open(files, DIRECTORY, CONFIG)
    assert str(damage.value) == told


def test_offsets_end_below_the_greatest() -> None:
    for last_offset in (OFFSET_MAX - 1, OFFSET_MAX):
        files = CrashingDisk()
        base = last_offset - 2
        path = f"{DIRECTORY}/{file_name(base)}"
        files.put(path, b"".join(place(BATCH, base, 0)))
        if last_offset < OFFSET_MAX:
            assert Log.open(files, DIRECTORY).end_offset == OFFSET_MAX
        else:
            told = f"{path}:0: the offset {OFFSET_MAX} is greater than any log's (offset {base} was expected there)"
            with pytest.raises(DamagedLog) as damage:
                Log.open(files, DIRECTORY)
            assert str(damage.value) == told
