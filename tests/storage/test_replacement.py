"""A data directory is replaced as a whole: whatever fails or is cut off, its logs are the old ones or the new ones."""

import errno
from collections.abc import Callable, Iterator

import pytest

from storage import replacement
from storage.files import StorageError
from tests.storage.crashing_disk import CrashingDisk, ProcessKill

OLD = {
    "orders-0/00000000000000000000.log": b"old orders",
    "orders-0/muster.checkpoint": b"old checkpoint",
    "gone-3/00000000000000000000.log": b"gone",
    "__consumer_offsets-1/00000000000000000000.log": b"old offsets",
}
NEW = {
    "orders-0/00000000000000000000.log": b"new" * 1_000,
    "orders-0/00000000000000000100.log": b"more",
    "fresh-0/00000000000000000000.log": b"fresh",
    "__consumer_offsets-1/00000000000000000000.log": b"",
}
NOTHING: dict[str, bytes] = {}


def disk_with(logs: dict[str, bytes]) -> CrashingDisk:
    disk = CrashingDisk()
    disk.put("data/muster.lock", b"1")
    for path, content in logs.items():
        disk.put(f"data/{path}", content)
    return disk


def logs_of(disk: CrashingDisk) -> dict[str, bytes]:
    """The logs that a server finds. There is nothing else but the lock."""
    found = {path.removeprefix("data/"): data for path, data in disk.contents().items()}
    assert found.pop("muster.lock") == b"1"
    partitions = replacement.find_partitions(disk, "data")
    assert {path.partition("/")[0] for path in found} == set(partitions) == set(disk.list("data")) - {"muster.lock"}
    return found


def replace(disk: CrashingDisk, logs: dict[str, bytes]) -> None:
    replacement.prepare(disk, "data", logs)
    replacement.finish(disk, "data")


def count_calls(work: Callable[[CrashingDisk], None], disk: CrashingDisk) -> int:
    work(disk)
    return disk.calls


def killed(disk: CrashingDisk, work: Callable[[CrashingDisk], None]) -> Iterator[tuple[int, CrashingDisk]]:
    """The disk after the process was ended at each of the calls of the work, and after all of them."""
    for number in range(1, count_calls(work, disk.copy()) + 1):
        left = disk.copy()
        left.killed_at = number
        with pytest.raises(ProcessKill):
            work(left)
        yield number, left
    done = disk.copy()
    work(done)
    yield -1, done


@pytest.mark.parametrize("new", [NEW, NOTHING], ids=["restore", "reset"])
@pytest.mark.parametrize("old", [OLD, NOTHING], ids=["logs", "empty"])
def test_after_a_crash_there_is_the_old_state_or_the_new_one(old: dict[str, bytes], new: dict[str, bytes]) -> None:
    """The next start is cut off as well, at each of its calls, and so is the power."""
    found = set[str]()

    def check(disk: CrashingDisk, when: str, *, again: bool = True) -> None:
        for _, left in killed(disk, lambda disk: replacement.finish(disk, "data")) if again else ():
            check(left.copy(), f"{when}, and once more", again=False)
        replacement.finish(disk, "data")
        logs = logs_of(disk)
        assert logs in (old, new), when
        found.add("old" if logs == old else "new")

    for number, disk in killed(disk_with(old), lambda disk: replace(disk, new)):
        for name, left in disk.crashes():
            check(left, f"call {number}, {name}", again=name == "killed")
        if number == -1:
            assert logs_of(disk) == new
    assert found == ({"old", "new"} if old != new else {"old"})


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("new", [NEW, NOTHING], ids=["restore", "reset"])
def test_what_fails_before_the_flip_changes_nothing(new: dict[str, bytes], reason: int) -> None:
    calls = count_calls(lambda disk: replacement.prepare(disk, "data", new), disk_with(OLD))
    for number in range(1, calls + 1):
        disk = disk_with(OLD)
        disk.fail[number] = reason
        with pytest.raises(StorageError):
            replacement.prepare(disk, "data", new)
        assert replacement.REPLACING not in disk.list("data"), f"call {number}"
        replacement.finish(disk, "data")
        assert logs_of(disk) == OLD, f"call {number}"
        replace(disk, new)
        assert logs_of(disk) == new
        assert disk.handles == 0


def test_what_fails_after_the_flip_is_done_by_the_next_start() -> None:
    prepared = disk_with(OLD)
    replacement.prepare(prepared, "data", NEW)
    for number in range(1, count_calls(lambda disk: replacement.finish(disk, "data"), prepared.copy()) + 1):
        disk = prepared.copy()
        disk.fail[number] = errno.EIO
        with pytest.raises(StorageError):
            replacement.finish(disk, "data")
        replacement.finish(disk, "data")
        assert logs_of(disk) == NEW, f"call {number}"


def test_a_full_disk_keeps_the_old_state() -> None:
    for room in (0, 1, 500, 2_999, 3_003):
        disk = disk_with(OLD)
        disk.bytes_max = disk.used_bytes() + room
        with pytest.raises(StorageError, match="ENOSPC"):
            replacement.prepare(disk, "data", NEW)
        assert logs_of(disk) == OLD


@pytest.mark.parametrize("at", [0, 99, 100, 104])
def test_what_is_not_as_it_was_written_is_not_made_the_truth(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    monkeypatch.setattr(replacement, "_CHUNK_BYTES", 100)
    disk = disk_with(OLD)

    def spoil(operation: str, path: str) -> None:
        if operation == "sync" and path.endswith("fresh-0/00000000000000000000.log"):
            disk._names[path].data[at] ^= 1

    disk.after_call = spoil
    with pytest.raises(StorageError, match="not what was written"):
        replacement.prepare(disk, "data", NEW | {"fresh-0/00000000000000000000.log": bytes(105)})
    disk.after_call = None
    assert logs_of(disk) == OLD
    replace(disk, NEW)
    assert logs_of(disk) == NEW, "chunk by chunk"


def test_what_a_failed_attempt_has_left_is_no_part_of_the_next_one() -> None:
    disk = disk_with(OLD)
    disk.bytes_max = disk.used_bytes() + 3_003
    disk.refuse = lambda operation, path: errno.EIO if operation == "remove" else 0
    with pytest.raises(StorageError):
        replacement.prepare(disk, "data", NEW)
    assert replacement.INCOMING in disk.list("data")
    disk.bytes_max, disk.refuse = None, lambda operation, path: 0
    replace(disk, {"fresh-1/00000000000000000000.log": b"1"})
    assert logs_of(disk) == {"fresh-1/00000000000000000000.log": b"1"}
