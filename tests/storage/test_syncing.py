"""Syncs by threads: which of them have failed, wherever they were made."""

import errno
import threading

import pytest

from storage import syncing
from storage.files import StorageError
from storage.syncing import SYNCS_AT_ONCE, NoWaker, Syncer, ThreadSyncing, count_shares


class File:
    """A file whose sync may fail."""

    def __init__(self, path: str, is_bad: bool) -> None:
        self.path, self.is_bad = path, is_bad

    def begin_sync(self, syncing: object) -> None:
        """No sync is under way."""

    def start_writing(self) -> None:
        """A disk that begins at once."""

    def sync_now(self) -> None:
        if self.is_bad:
            raise StorageError("sync", self.path, errno.EIO, "I/O error")


class Waker:
    """Notes at each wake whether the syncs were over."""

    def __init__(self) -> None:
        self.was_over: list[bool] = []
        self.syncing: ThreadSyncing | None = None

    def wake(self) -> None:
        assert self.syncing is not None
        self.was_over.append(self.syncing.is_over)


@pytest.mark.parametrize("shares", [1, 2, 3, 7])
@pytest.mark.parametrize("bad", [(), (0,), (6,), (0, 3), (1, 2, 5), tuple(range(7))])
def test_every_failure_is_known_whichever_share_it_is_in(shares: int, bad: tuple[int, ...]) -> None:
    files = [File(str(number), number in bad) for number in range(7)]
    for first in range(shares):  # the order in which the shares end
        waker = Waker()
        waker.syncing = made = ThreadSyncing(files, shares, waker)
        order = [*made.shares[first:], *made.shares[:first]]
        for number, share in enumerate(order, start=1):
            assert not made.is_over
            made.sync_share(share)
            assert made.is_over == (number == shares)
        made.wait()
        assert set(made.failures) == {str(number) for number in bad}
        assert waker.was_over == [True], "once, when everything is over: nobody is woken again"


def test_on_a_slow_disk_more_syncs_are_made_at_once() -> None:
    assert [count_shares(25, seconds) for seconds in (0.0, 0.0001, 0.001, 0.01)] == [1, 2, 13, 25]
    assert count_shares(100, 1.0) == SYNCS_AT_ONCE
    assert count_shares(1, 1.0) == 1


def test_all_shares_are_synced_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these syncs ends only when all three are being made."""
    monkeypatch.setattr(syncing, "count_shares", lambda files, seconds: files)
    together = threading.Barrier(3)

    class Slow(File):
        def sync_now(self) -> None:
            try:
                together.wait(timeout=30)
            except threading.BrokenBarrierError:
                raise StorageError("sync", self.path, errno.EIO, "made alone") from None

    begun = Syncer().begin([Slow(str(number), False) for number in range(3)], NoWaker())
    begun.wait()
    assert not begun.failures
