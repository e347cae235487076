"""The real disk and its twin behave alike; what only one of them can do is tested for that one."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Event, Lock, Thread, current_thread

import pytest

import storage.real_files
import storage.syncing
from coordinator.server.waker import Waker
from protocol.record_batch import encode
from protocol.records import Record
from storage import reserve
from storage.files import DirectoryLocked, Files, StorageError
from storage.log import Log
from storage.memory_files import MemoryFiles
from storage.names import partition_directory, partition_of
from storage.real_files import RealFiles, RealLock
from storage.segment import base_offset_of, file_name
from storage.syncing import NoWaker
from tests.storage import small_disk
from tests.storage.conftest import SomeFiles
from tests.storage.crashing_disk import CrashingDisk
from tests.storage.wakers import is_woken


@pytest.fixture(params=["real", "fake", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    disks: dict[str, tuple[Files, str]] = {
        "real": (RealFiles(), str(tmp_path / "data")),
        "fake": (CrashingDisk(), "data"),
        "memory": (MemoryFiles(), "data"),
    }
    return disks[request.param]


def test_a_file_is_appended_to_read_cut_and_renamed(disk: tuple[Files, str]) -> None:
    files, root = disk
    files.make_directory(f"{root}/a-0")
    file = files.open(f"{root}/a-0/x", create=True)
    file.append(b"hello ")
    file.append(b"world")
    assert (file.size(), file.pread(6, 99), file.pread(99, 1)) == (11, b"world", b"")
    file.truncate(5)
    file.append(b"!")
    file.sync()
    file.start_writing_back(0, 6)
    files.rename(f"{root}/a-0/x", f"{root}/a-0/y")
    assert file.pread(0, 99) == b"hello!", "an open file outlives its name"
    assert files.list(f"{root}/a-0") == ["y"]
    assert files.list(root) == ["a-0"]
    again = files.open(f"{root}/a-0/y", readonly=True)
    files.remove(f"{root}/a-0/y")
    assert again.pread(0, 5) == b"hello"
    assert not files.exists(f"{root}/a-0/y")
    for handle in (file, again):
        handle.close()
    files.sync_directory(f"{root}/a-0")
    files.remove_directory(f"{root}/a-0")
    assert files.list(f"{root}/a-0") == []


@pytest.mark.parametrize("count", [1, 4, storage.real_files._PARTS_MAX + 1])
def test_parts_are_appended_in_their_order(disk: tuple[Files, str], count: int) -> None:
    files, root = disk
    files.make_directory(f"{root}/a-0")
    file = files.open(f"{root}/a-0/x", create=True)
    file.append(b"begin")
    parts = [
        (b"%d," % number, bytearray(b"%d;" % number), memoryview(b"x")[number % 2 :])[number % 3]
        for number in range(count)
    ]
    file.append_parts(parts)
    assert file.pread(0, 1 << 20) == b"begin" + b"".join(parts)
    file.close()


def test_parts_are_written_on_after_a_short_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, writev = RealFiles().open(str(tmp_path / "x"), create=True), os.writev
    monkeypatch.setattr("os.writev", lambda descriptor, parts: writev(descriptor, [b"".join(parts)[:4]]))
    file.append_parts([b"abc", memoryview(b"def"), b"gh"])
    assert file.pread(0, 99) == b"abcdefgh"


@pytest.mark.parametrize("files", [RealFiles(), CrashingDisk()], ids=["real", "fake"])
def test_a_file_has_the_time_of_the_last_append_or_the_one_that_it_is_given(files: Files, tmp_path: Path) -> None:
    files.make_directory(str(tmp_path))
    file = files.open(f"{tmp_path}/x", create=True)
    file.append(b"a")
    file.set_modified_ms(1_700_000_000_123)
    again = files.open(f"{tmp_path}/x", readonly=True)
    assert file.modified_ms() == again.modified_ms() == 1_700_000_000_123
    if isinstance(files, CrashingDisk):
        files.now_ms = 1_800_000_000_000
    file.append(b"b")
    assert file.modified_ms() == again.modified_ms() >= 1_750_000_000_000
    file.close()
    again.close()


def test_a_file_system_that_takes_no_advice_is_written_to_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: int) -> None:
        raise OSError(errno.EINVAL, "no advice here")

    monkeypatch.setattr(os, "posix_fadvise", refuse, raising=False)
    log = Log.open(RealFiles(), str(tmp_path / "orders-0"))
    assert log.append(encode([Record(b"k", os.urandom(2 << 20))])) == 0, "more than is written out at a time"
    assert log.end_offset == 1
    log.close()


def test_what_is_not_there_fails_with_its_name(disk: tuple[Files, str]) -> None:
    files, root = disk
    for call in (
        lambda: files.open(f"{root}/none"),
        lambda: files.remove(f"{root}/none"),
        lambda: files.rename(f"{root}/none", f"{root}/other"),
    ):
        with pytest.raises(StorageError, match=r"none.*ENOENT") as failed:
            call()
        assert failed.value.errno == errno.ENOENT
        assert not failed.value.is_full


@pytest.mark.parametrize("files", [RealFiles(), CrashingDisk()], ids=["real", "fake"])
def test_a_directory_is_held_once(files: Files, tmp_path: Path) -> None:
    root = str(tmp_path)
    files.make_directory(root)
    lock = files.lock(f"{root}/muster.lock")
    with pytest.raises(DirectoryLocked) as locked:
        files.lock(f"{root}/muster.lock")
    assert locked.value.pid == os.getpid()
    lock.release()
    files.lock(f"{root}/muster.lock").release()


def said_by(code: str, path: Path) -> str:
    """What another process prints that runs this code for a path."""
    return subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout


def test_the_second_process_is_told_the_pid_of_the_first(tmp_path: Path) -> None:
    lock = RealFiles().lock(str(tmp_path / "muster.lock"))
    code = (
        "import sys; from storage.real_files import *\n"
        "try: RealFiles().lock(sys.argv[1])\n"
        "except DirectoryLocked as held: print(held.pid)"
    )
    assert int(said_by(code, tmp_path / "muster.lock")) == os.getpid()
    lock.release()


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "muster.lock")
    code = "import sys, os, signal; from storage.real_files import *; RealFiles().lock(sys.argv[1]); os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", code, path], check=False)
    RealFiles().lock(path).release()


def test_real_failures_say_what_was_done_to_what_in_the_systems_words(tmp_path: Path) -> None:
    files, name, missing, below = RealFiles(), *(str(tmp_path / path) for path in ("file", "none", "file/x"))
    (tmp_path / "file").write_bytes(b"")
    file = files.open(name, readonly=True)
    expect_failure(lambda: file.append(b"x"), "append to", name, errno.EBADF)
    expect_failure(lambda: file.truncate(0), "truncate", name, errno.EINVAL)
    file.close()
    expect_failure(lambda: file.pread(0, 1), "read", name, errno.EBADF)
    expect_failure(file.size, "look at", name, errno.EBADF)
    expect_failure(file.modified_ms, "look at", name, errno.EBADF)
    expect_failure(lambda: file.set_modified_ms(1), "set the time of", name, errno.EBADF)
    expect_failure(lambda: file.append_parts([b"x"]), "append to", name, errno.EBADF)
    expect_failure(file.sync, "sync", name, errno.EBADF)
    expect_failure(file.close, "close", name, errno.EBADF)
    expect_failure(lambda: files.open(missing), "open", missing, errno.ENOENT)
    expect_failure(lambda: files.list(name), "list", name, errno.ENOTDIR)
    expect_failure(lambda: files.make_directory(below), "make directory", below, errno.ENOTDIR)
    expect_failure(lambda: files.rename(missing, name), "rename", missing, errno.ENOENT)
    expect_failure(lambda: files.remove(missing), "remove", missing, errno.ENOENT)
    expect_failure(lambda: files.remove_directory(name), "remove directory", name, errno.ENOTDIR)
    expect_failure(lambda: files.sync_directory(missing), "sync directory", missing, errno.ENOENT)
    expect_failure(lambda: files.lock(f"{missing}/lock"), "list", missing, errno.ENOENT)
    expect_failure(lambda: RealLock(f"{missing}/lock"), "open", missing, errno.ENOENT)
    (tmp_path / "lock").mkdir()
    expect_failure(lambda: files.lock(str(tmp_path / "lock")), "write", str(tmp_path / "lock"), errno.EISDIR)
    files.lock(str(tmp_path / "other lock")).release()  # of the same directory, which nobody holds


def expect_failure(call: Callable[[], object], operation: str, path: str, number: int) -> None:
    with pytest.raises(StorageError) as failed:
        call()
    assert (failed.value.operation, failed.value.path, failed.value.errno) == (operation, path, number)
    assert str(failed.value) == f"{operation} {path}: {os.strerror(number)} ({errno.errorcode[number]})"


def test_a_system_without_locks_is_a_failure_and_no_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    expect_failure(lambda: RealFiles().lock(str(tmp_path / "lock")), "lock", str(tmp_path), errno.ENOLCK)


def test_a_short_write_is_tried_on_to_learn_what_was_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealFiles().open(str(tmp_path / "x"), create=True)
    answers: list[int | OSError] = [2, OSError(errno.EFBIG, "File too large")]

    def write(descriptor: int, data: bytes) -> int:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr("os.write", write)
    with pytest.raises(StorageError, match="EFBIG") as failed:
        file.append(b"abc")
    assert not failed.value.is_full


def test_a_lock_file_that_is_deleted_lets_nobody_else_in(tmp_path: Path) -> None:
    lock = RealFiles().lock(str(tmp_path / "muster.lock"))
    (tmp_path / "muster.lock").unlink()
    with pytest.raises(DirectoryLocked) as held:
        RealFiles().lock(str(tmp_path / "muster.lock"))
    assert held.value.pid == 0, "nobody says who"
    lock.release()


def test_a_log_behind_a_link_is_held_with_its_data_directory(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "orders-0"
    elsewhere.mkdir(parents=True)
    data = tmp_path / "data"
    data.mkdir()
    (data / "orders-0").symlink_to(elsewhere)
    (data / "again-0").symlink_to(elsewhere)
    (data / "self").symlink_to(data)
    lock = RealFiles().lock(str(data / "muster.lock"))
    with pytest.raises(DirectoryLocked):
        RealFiles().lock(str(tmp_path / "elsewhere" / "muster.lock"), [str(elsewhere)])
    lock.release()
    RealFiles().lock(str(tmp_path / "elsewhere" / "muster.lock"), [str(elsewhere)]).release()


def test_a_log_goes_on_without_a_descriptor_left(tmp_path: Path) -> None:
    """Clients may hold all of them."""
    code = (
        "import os, resource, sys\n"
        "from protocol.record_batch import encode\n"
        "from protocol.records import Record\n"
        "from storage.real_files import RealFiles\n"
        "from storage.log import Log, LogConfig\n"
        "log = Log.open(RealFiles(), sys.argv[1], LogConfig(segment_bytes=200))\n"
        "log.append(encode([Record(None, bytes(150))]))\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "try:\n"
        "    while True: os.open(os.devnull, os.O_RDONLY)\n"
        "except OSError: pass\n"
        "for _ in range(5): log.append(encode([Record(None, bytes(150))]))\n"
        "print(len(log.segments), log.failure)"
    )
    assert said_by(code, tmp_path / "orders-0") == "6 None\n"


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.EACCES])
def test_a_spare_descriptor_is_taken_where_none_is_left_and_replaced_when_there_are_again(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is left to the process, or none to the system; any other refusal leaves the spare ones alone."""
    files, left, really_open, really_close = RealFiles(), [99], os.open, os.close
    files.open(str(tmp_path / "x"), create=True).close()

    def count_open(path: str, flags: int, mode: int = 0o777) -> int:
        if not left[0]:
            raise OSError(error, os.strerror(error))
        left[0] -= 1
        return really_open(path, flags, mode)

    def count_close(descriptor: int) -> None:
        really_close(descriptor)
        left[0] += 1

    monkeypatch.setattr(os, "open", count_open)
    monkeypatch.setattr(os, "close", count_close)
    spares, left[0] = storage.real_files.SPARES, 0
    for _ in range(2):
        opened = []
        for _ in range(0 if error == errno.EACCES else spares):
            files.sync_directory(str(tmp_path))
            opened.append(files.open(str(tmp_path / "x")))
        for call in (lambda: files.open(str(tmp_path / "x")), lambda: files.sync_directory(str(tmp_path))):
            with pytest.raises(StorageError, match=errno.errorcode[error]):
                call()
        for file in opened:
            file.close()
        left[0] += 50
        files.sync_directory(str(tmp_path))
        assert left == [50], "as many are spare as before"
        left[0] = 0


class Syncs:
    """Which files and directories the system was told to write out, in order, by their names in `root`."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        for name, module in (("fsync", os), ("_sync", storage.real_files)):
            monkeypatch.setattr(module, name, self._counting(getattr(module, name), root))

    def _counting(self, sync: Callable[[int], None], root: Path) -> Callable[[int], None]:
        def counting(descriptor: int) -> None:
            self.paths.append(str(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(root)))
            sync(descriptor)

        return counting


def test_a_sync_reaches_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, syncs = RealFiles(), Syncs(tmp_path, monkeypatch)
    file = files.open(str(tmp_path / "x"), create=True)
    file.append(b"data")
    assert syncs.paths == []
    file.sync()
    files.sync_directory(str(tmp_path))
    assert syncs.paths == ["x", "."]
    file.close()


def test_each_new_directory_is_written_down_in_the_one_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, syncs = RealFiles(), Syncs(tmp_path, monkeypatch)
    files.make_directory(str(tmp_path / "a" / "b" / "c"))
    assert syncs.paths == [".", "a", "a/b"]
    assert [(tmp_path / path).stat().st_mode & 0o777 for path in ("a", "a/b", "a/b/c")] == [0o700] * 3
    files.make_directory(str(tmp_path / "a" / "b" / "d"))
    assert syncs.paths[3:] == ["a/b"], "what was there already is left alone"


@pytest.mark.parametrize("count", [1, 2, 40])
def test_of_several_syncs_the_one_that_fails_is_told(
    some_files: SomeFiles, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root, sync = RealFiles(), str(tmp_path / "data"), storage.real_files._sync
    opened = some_files(files, root, count)
    bad, waker = opened[count // 2], Waker()

    def fail(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), Path(bad.path).stat()):
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    monkeypatch.setattr(storage.real_files, "_sync", fail)
    syncing = files.begin_syncs(opened, waker)
    assert is_woken(waker)
    assert syncing.is_over
    assert [(path, failure.errno) for path, failure in syncing.failures.items()] == [(bad.path, errno.EIO)]
    monkeypatch.setattr(storage.real_files, "_sync", sync)
    with pytest.raises(StorageError, match=r"sync .*EIO"):
        bad.sync()  # the system tells of it once, and the first sync has heard it


@pytest.mark.parametrize("is_synced_again", [True, False])
def test_a_file_waits_for_its_sync_before_another_and_before_it_is_closed(
    is_synced_again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, sync = RealFiles(), storage.real_files._sync
    begun, goes_on, done = Event(), Event(), []

    def wait(descriptor: int) -> None:
        begun.set()
        assert goes_on.wait(60)
        sync(descriptor)
        done.append("synced beside")

    file = files.open(str(tmp_path / "log"), create=True)
    file.append(b"x")
    monkeypatch.setattr(storage.real_files, "_sync", wait)
    syncing = files.begin_syncs([file], NoWaker())
    assert begun.wait(60)
    assert not syncing.is_over
    file.append(b"y")  # appending goes on
    monkeypatch.setattr(storage.real_files, "_sync", lambda descriptor: done.append("synced"))

    def close() -> None:
        if is_synced_again:
            file.sync()
        file.close()
        done.append("closed")

    closing = Thread(target=close)
    closing.start()
    closing.join(0.05)
    assert done == []
    goes_on.set()
    closing.join(60)
    assert done == ["synced beside", *["synced"] * is_synced_again, "closed"]


def test_several_files_are_written_out_before_the_first_is_synced(
    some_files: SomeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, told = RealFiles(), list[str]()
    opened = some_files(files, str(tmp_path), 2)
    monkeypatch.setattr(storage.real_files, "_sync_file_range", lambda: lambda *_: told.append("write out"))
    monkeypatch.setattr(storage.real_files, "_sync", lambda descriptor: told.append("sync"))
    files.begin_syncs(opened, NoWaker()).wait()
    assert told == ["write out", "write out", "sync", "sync"]


def test_a_path_from_the_root_on_is_absolute(disk: tuple[Files, str]) -> None:
    files, _ = disk
    assert files.absolute("/data") == "/data"
    assert files.absolute("data").startswith("/")
    assert files.absolute("data").endswith("/data")


def test_syncs_of_many_files_take_as_many_threads_as_the_disk_is_slow(
    some_files: SomeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = RealFiles()
    opened = some_files(files, str(tmp_path / "data"), 8)
    seconds = [0.0]
    monkeypatch.setattr(storage.syncing, "perf_counter", lambda: seconds[0])

    def take(each: float) -> set[str]:
        """Sync all of them, each in so many seconds; the names of the threads."""
        threads, lock = set(), Lock()

        def sync(descriptor: int) -> None:
            with lock:
                threads.add(current_thread().name)
                seconds[0] += each

        monkeypatch.setattr(storage.real_files, "_sync", sync)
        files.begin_syncs(opened, NoWaker()).wait()
        return threads

    assert len(take(0.0001)) == 1, "nothing is known of the disk"
    assert len(take(0.0001)) == 1, "they took less than a millisecond in all"
    assert len(take(0.010)) == 1
    all_are_waiting = Barrier(8)
    monkeypatch.setattr(storage.real_files, "_sync", lambda descriptor: all_are_waiting.wait(60))
    files.begin_syncs(opened, NoWaker()).wait()


def test_the_reserve_gives_way_on_a_full_disk() -> None:
    files = CrashingDisk()
    files.make_directory("data")
    assert reserve.keep(files, "data")
    assert len(files.contents()["data/muster.reserve"]) == reserve.RESERVE_BYTES
    assert reserve.keep(files, "data"), "it is there already"
    reserve.give_way(files, "data")
    reserve.give_way(files, "data")
    assert files.contents() == {}
    files.fail = {files.calls + 2: errno.ENOSPC}
    assert not reserve.keep(files, "data")
    assert files.contents() == {}, "half of it would be of no use"
    files.fail = {files.calls + 2: errno.EIO}
    assert not reserve.keep(files, "data"), "nothing depends on the reserve"


def test_a_full_disk_loses_nothing_acknowledged(tmp_path: Path) -> None:
    try:
        small_disk.install(str(tmp_path), 2 << 20)
        _fill(str(tmp_path))
    finally:
        small_disk.remove()


def _fill(data_dir: str) -> None:
    files = RealFiles()
    assert reserve.keep(files, data_dir)
    directory = f"{data_dir}/orders-0"
    log = Log.open(files, directory)
    acknowledged = 0
    while log.failure is None:
        with contextlib.suppress(StorageError):
            log.append(encode([Record(b"k", bytes(10_000))]))
            log.sync()
            acknowledged = log.end_offset
    assert log.failure.is_full
    log.release()
    assert 50 < acknowledged < 110
    reserve.give_way(files, data_dir)  # the room in which a start keeps what was torn
    again = Log.open(files, directory)
    assert again.end_offset >= acknowledged
    again.release()


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../x", "a\\b", "a b", "ü", "x" * 250, "a\0", "a\n"])
def test_no_topic_leads_out_of_the_data_directory(topic: str) -> None:
    with pytest.raises(ValueError, match="cannot be a topic's name"):
        partition_directory(topic, 0)
    assert partition_of(f"{topic}-0") is None


@pytest.mark.parametrize(
    ("topic", "partition"), [("orders", 0), ("a-b-1", 12), ("__consumer_offsets", 49), ("x" * 249, 2**31 - 1)]
)
def test_directory_names_are_read_back(topic: str, partition: int) -> None:
    assert partition_of(partition_directory(topic, partition)) == (topic, partition)


def test_partitions_are_numbers() -> None:
    for partition in (-1, 2**31):
        with pytest.raises(ValueError, match="cannot be a partition's number"):
            partition_directory("orders", partition)
    for name in ("orders", "orders-", "orders-01", f"orders-{2**31}", "-0"):
        assert partition_of(name) is None


def test_segment_names_are_twenty_digits() -> None:
    assert file_name(42) == "00000000000000000042.log"
    assert base_offset_of(file_name(42)) == 42
    for name in (
        "42.log",
        "00000000000000000042",
        "0000000000000000004x.log",
        "00000000000000000042.index",
        "٠" * 20 + ".log",
    ):
        assert base_offset_of(name) is None
