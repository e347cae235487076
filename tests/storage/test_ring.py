"""Syncs by io_uring, where the system has it."""

import errno
import os
from pathlib import Path

import pytest

from coordinator.server.waker import Waker
from storage import syncing as syncs
from storage.files import RealFiles, StorageError
from storage.ring import SYNCS_MAX, Ring
from storage.syncing import SYNCS_AT_ONCE, NoWaker, RingSyncing, count_shares
from tests.storage.conftest import SomeFiles
from tests.storage.wakers import is_woken


@pytest.fixture
def ring() -> Ring:
    try:
        return Ring()
    except OSError as error:  # of an old system, or of a container that may not; any other is our mistake
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
        pytest.skip(f"there is no io_uring here: {error}")


@pytest.mark.parametrize("count", [1, 2, 40, SYNCS_MAX])
def test_many_syncs_begin_with_one_call_and_end_by_themselves(
    some_files: SomeFiles, ring: Ring, count: int, tmp_path: Path
) -> None:
    files, waker = RealFiles(), Waker()
    opened = some_files(files, str(tmp_path / "data"), count)
    for _ in range(3):
        syncing = files.begin_syncs(opened, waker)
        assert isinstance(syncing, RingSyncing)
        while not syncing.is_over:
            assert is_woken(waker)
            waker.rest()
        assert not syncing.failures
    syncing = files.begin_syncs(opened, NoWaker())
    syncing.wait()
    assert syncing.is_over


def test_more_syncs_than_the_ring_has_room_for_are_made_by_threads(
    some_files: SomeFiles, ring: Ring, tmp_path: Path
) -> None:
    files = RealFiles()
    syncing = files.begin_syncs(some_files(files, str(tmp_path / "data"), SYNCS_MAX + 1), NoWaker())
    assert not isinstance(syncing, RingSyncing)
    syncing.wait()
    assert not syncing.failures


def test_on_a_slow_disk_more_syncs_are_made_at_once() -> None:
    assert [count_shares(25, seconds) for seconds in (0.0, 0.0001, 0.001, 0.01)] == [1, 2, 13, 25]
    assert count_shares(100, 1.0) == SYNCS_AT_ONCE
    assert count_shares(1, 1.0) == 1


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("file_seconds", [0.0, 1.0])
def test_the_one_that_fails_is_told(
    some_files: SomeFiles, ring: Ring, at: int, file_seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = RealFiles()
    monkeypatch.setattr(syncs, "count_shares", lambda count, _: count_shares(count, file_seconds))
    opened = some_files(files, str(tmp_path / "data"), 3)
    bad = opened[at]
    reads, writes = os.pipe()  # which cannot be synced
    descriptor, bad._descriptor = bad._descriptor, writes  # type: ignore[attr-defined]  # of RealFile
    syncing = files.begin_syncs(opened, NoWaker())
    syncing.wait()
    bad._descriptor = descriptor  # type: ignore[attr-defined]  # the same
    assert [(path, one.errno, one.operation) for path, one in syncing.failures.items()] == [
        (bad.path, errno.EINVAL, "sync")
    ]
    with pytest.raises(StorageError):
        bad.sync()
    for good in opened:
        if good is not bad:
            good.sync()
    for each in (reads, writes):
        os.close(each)


def test_where_there_is_no_ring_threads_make_the_syncs(
    some_files: SomeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Ring) -> None:
        raise OSError(errno.EPERM, "a container may not")

    monkeypatch.setattr(Ring, "__init__", refuse)
    files, waker = RealFiles(), Waker()
    for _ in range(2):
        syncing = files.begin_syncs(some_files(files, str(tmp_path / "data"), 3), waker)
        assert not isinstance(syncing, RingSyncing)
        syncing.wait()
        assert syncing.is_over
    assert is_woken(waker)


def test_what_fails_beside_the_syncs_is_not_taken_for_one(ring: Ring, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)  # which cannot be written to
    ring.notify(descriptor)
    ring.sync(descriptor, 0)
    ring.submit()
    told: list[tuple[int, int]] = []
    while not told:
        ring.wait()
        ring.reap(lambda number, result: told.append((number, result)))
    os.close(descriptor)
    assert told == [(0, 0)]
