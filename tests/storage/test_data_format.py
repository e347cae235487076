"""The number of the format: noted once, and compared before anything else is read."""

import errno

import pytest

from storage import data_format
from storage.data_format import FORMAT, UnknownFormat
from storage.files import StorageError
from tests.storage.crashing_disk import CrashingDisk, ProcessKill

PATH = f"data/{data_format.NAME}"


def new_disk() -> CrashingDisk:
    disk = CrashingDisk()
    disk.put("data/muster.lock", b"")
    return disk


def test_a_directory_gets_our_format_once() -> None:
    disk = new_disk()
    data_format.check(disk, "data")
    assert disk.contents()[PATH] == b"%d\n" % FORMAT
    disk.refuse = lambda operation, path: 0 if operation in ("open", "read") else errno.EIO
    data_format.check(disk, "data")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"2\n", "data was written by a newer version of Muster: its format is 2, this one reads up to 1"),
        (b"999", "its format is 999"),
        (b"", f"invalid {PATH}: expected a number, found ''"),
        (b"one", f"invalid {PATH}: expected a number, found 'one'"),
        (b"\xff\x00", f"invalid {PATH}: expected a number"),
    ],
)
def test_what_another_version_wrote_is_not_taken_for_damage(content: bytes, sentence: str) -> None:
    disk = new_disk()
    disk.put(PATH, content)
    with pytest.raises(UnknownFormat, match=sentence.replace("(", "\\(")):
        data_format.check(disk, "data")
    assert disk.contents()[PATH] == content


def test_the_file_is_whole_or_not_there_after_any_crash() -> None:
    counting = new_disk()
    data_format.check(counting, "data")
    for number in range(1, counting.calls + 1):
        disk = new_disk()
        disk.killed_at = number
        with pytest.raises(ProcessKill):
            data_format.check(disk, "data")
        for name, left in disk.crashes():
            data_format.check(left, "data")
            assert left.contents()[PATH] == b"%d\n" % FORMAT, f"call {number}, {name}"


def test_a_full_disk_may_start_without_it() -> None:
    disk = new_disk()
    disk.bytes_max = 0
    data_format.check(disk, "data")
    assert PATH not in disk.contents()
    disk.bytes_max, disk.fail = None, {disk.calls + 2: errno.EIO}
    with pytest.raises(StorageError):
        data_format.check(disk, "data")
