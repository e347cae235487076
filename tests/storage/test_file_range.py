"""Batches as a range of their file: the same as those that are read, for as long as somebody holds the range."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from protocol.record_batch import encode
from protocol.records import Record
from storage import file_range, segment
from storage.file_range import FileRange
from storage.log import Log, LogConfig
from storage.real_files import RealFiles
from storage.segment import count_records, end_of
from tests.storage.open_files import open_files


@pytest.fixture(autouse=True)
def _all_descriptors_are_closed(tmp_path: Path) -> Iterator[None]:
    yield
    assert (open_files(tmp_path), FileRange.open_ranges) == ([], 0)


def fill(directory: Path, dice: Random, batches: int = 60) -> Log:
    log = Log.open(RealFiles(may_share=True), str(directory), LogConfig(segment_bytes=20_000, index_interval_bytes=500))
    for _ in range(batches):
        values = [dice.randbytes(dice.choice((1, 10, 300))) for _ in range(dice.randrange(1, 8))]
        log.append(encode([Record(None, value, timestamp=1_000) for value in values]))
    return log


@pytest.mark.parametrize("seed", range(5))
def test_a_range_holds_what_would_be_read(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "SHARED_BYTES_MIN", 200)
    dice = Random(seed)
    with closing(fill(tmp_path / "t-0", dice)) as log:
        ranges = 0
        for _ in range(300):
            offset = dice.randrange(log.start_offset, log.end_offset + 1)
            most, before = dice.choice((0, 60, 199, 200, 1_000, 30_000)), dice.choice((None, dice.randrange(200)))
            min_one = dice.random() < 0.5
            expected = log.read(offset, most, min_one=min_one, before=before)
            found = log.fetch(offset, most, min_one=min_one, before=before, may_share=True)
            assert (len(found), count_records(found), end_of(found)) == (
                len(expected), count_records(expected), end_of(expected),
            )  # fmt: skip
            if isinstance(found, FileRange):
                ranges += 1
                start, some = dice.randrange(len(found)), dice.randrange(1, 500)
                assert found.read(start, some) == expected[start : start + some]
                assert found.read() == expected
            else:
                assert found == expected
                assert len(found) < 200
        assert ranges > 20
        del found


def test_a_range_outlives_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "SHARED_BYTES_MIN", 200)
    log = fill(tmp_path / "t-0", Random(1))
    expected = log.read(0, 5_000)
    shared = log.fetch(0, 5_000, may_share=True)
    assert isinstance(shared, FileRange)
    log.close()
    for file in (tmp_path / "t-0").glob("*"):
        file.unlink()
    assert shared.read() == expected
    sender, receiver = socket.socketpair()
    with sender, receiver:
        sent = shared.send(sender, 7, 4_000)
        assert receiver.recv(5_000) == expected[7 : 7 + sent]


def test_a_file_that_has_become_shorter_is_not_sent_as_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "SHARED_BYTES_MIN", 200)
    with closing(fill(tmp_path / "t-0", Random(1), batches=10)) as log:
        shared = log.fetch(0, 5_000, may_share=True)
        assert isinstance(shared, FileRange)
        assert open_files(tmp_path)
        Path(shared.path).write_bytes(b"")
        with pytest.raises(OSError, match="shorter than it was"):
            shared.read()
        sender, receiver = socket.socketpair()
        with sender, receiver, pytest.raises(OSError, match="shorter than it was"):
            shared.send(sender, 0, 100)


def test_so_many_ranges_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a descriptor: beyond the bound, records are read into memory."""
    monkeypatch.setattr(segment, "SHARED_BYTES_MIN", 200)
    monkeypatch.setattr("storage.real_files.RANGES_MAX", 3)
    assert file_range.RANGES_MAX == 256
    with closing(fill(tmp_path / "t-0", Random(1), batches=10)) as log:
        held = [log.fetch(0, 5_000, may_share=True) for _ in range(5)]
        assert [type(one) for one in held] == [FileRange] * 3 + [bytes] * 2
        assert len({one.read() if isinstance(one, FileRange) else one for one in held}) == 1
        del held[0]
        assert isinstance(log.fetch(0, 5_000, may_share=True), FileRange)
        held.clear()
