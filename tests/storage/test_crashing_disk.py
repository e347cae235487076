"""What a power cut may leave: names, files and directories each have a fate of their own."""

import errno
from random import Random

import pytest

from storage.files import StorageError
from tests.storage.crashing_disk import CrashingDisk, ProcessKill


def a_disk(*names: str) -> CrashingDisk:
    """A disk with files that are durable, each holding its own name."""
    disk = CrashingDisk()
    for name in names:
        disk.put(f"data/{name}", name.encode())
    return disk


def power_cuts(disk: CrashingDisk) -> list[dict[str, bytes]]:
    return [left.contents() for how, left in disk.crashes() if how != "killed"]


def test_of_two_renames_each_may_survive_alone() -> None:
    """As in a swap of compaction: without a sync between them the second may be there and the first not."""
    disk = a_disk("old", "new.swap")
    disk.rename("data/old", "data/old.deleted")
    disk.rename("data/new.swap", "data/new")
    names = {tuple(sorted(left)) for left in power_cuts(disk)}
    assert names == {
        ("data/new.swap", "data/old"),
        ("data/new.swap", "data/old.deleted"),
        ("data/new", "data/old"),
        ("data/new", "data/old.deleted"),
    }


def test_a_sync_of_the_directory_decides_what_was_before_it() -> None:
    disk = a_disk("old", "new.swap")
    disk.rename("data/old", "data/old.deleted")
    disk.sync_directory("data")
    disk.rename("data/new.swap", "data/new")
    assert all("data/old.deleted" in left for left in power_cuts(disk))


def test_two_files_may_have_two_fates() -> None:
    disk = a_disk("a", "b")
    for name in "ab":
        disk.open(f"data/{name}").append(b"+" * 100)
    left = [disk.crash(Random(seed)).contents() for seed in range(40)]
    assert any(len(one["data/a"]) > len(one["data/b"]) for one in left)
    assert any(len(one["data/a"]) < len(one["data/b"]) for one in left)


def test_a_file_is_lost_with_the_name_of_its_directory() -> None:
    disk = a_disk("a")
    found: list[set[bool]] = []

    def look(operation: str, path: str) -> None:
        found.append({left.exists("data/t-0") for how, left in disk.crashes() if how != "killed"})

    disk.after_call = look
    disk.make_directory("data/t-0")
    assert found == [{False, True}, {True}], "the name is made, then made durable"
    disk.remove_directory("data/t-0")
    disk.sync_directory("data")
    assert found[2:] == [{False, True}, {False}], "its removal is durable only with the directory above"


def test_a_process_that_is_killed_leaves_all_that_it_wrote_and_a_part_of_the_last_write() -> None:
    disk = a_disk("a")
    disk.killed_at = 3
    file = disk.open("data/a")
    file.append(b"whole")
    with pytest.raises(ProcessKill):
        file.append(b"half")
    assert disk.copy().contents() == {"data/a": b"awholeha"}


def test_a_full_disk_takes_no_more_until_there_is_room() -> None:
    disk = a_disk("a", "b")
    disk.bytes_max = 10
    file = disk.open("data/a")
    with pytest.raises(StorageError) as failed:
        file.append(bytes(12))
    assert failed.value.errno == errno.ENOSPC
    disk.remove("data/b")
    file.append(bytes(3))
    assert disk.used_bytes() == 10
